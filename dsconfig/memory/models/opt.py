"""OPT."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape
from dsconfig.memory.layers import (
    AttentionHeads,
    AttentionMasks,
    add_residual,
    attention,
    dropout,
    embed_tokens,
    linear,
    lm_head,
    multi_head_dimensions,
    relu,
)
from dsconfig.memory.losses import language_loss
from dsconfig.memory.models.architecture import Architecture, MicroBatch
from dsconfig.memory.norms import layer_norm


class OPTDecoderLayer:
    """Modules of one layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, wide = arch.hidden_size, arch.intermediate_size
        self.module = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attn", inputs_require_grad=False)
        names = ("k_proj", "v_proj", "q_proj", "out_proj")
        self.projections = [
            tape.projection(f"{prefix}.self_attn.{name}", hidden, hidden, hidden) for name in names
        ]
        self.act = tape.module(f"{prefix}.activation_fn")
        self.attention_norm = tape.module(f"{prefix}.self_attn_layer_norm", hidden, hidden)
        self.up = tape.projection(f"{prefix}.fc1", wide, hidden, wide)
        self.down = tape.projection(f"{prefix}.fc2", hidden, wide, hidden)
        self.final_norm = tape.module(f"{prefix}.final_layer_norm", hidden, hidden)


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Build the modules and, unless only parameters are needed, record the pass."""
    tape = batch.new_tape()
    rows, hidden = batch.micro_batch_size * batch.sequence_length, arch.hidden_size
    root, model = tape.module("", inputs_require_grad=False), tape.module("model", inputs_require_grad=False)
    inner = tape.module("model.decoder", inputs_require_grad=False)
    prefix, table = "model.decoder", (arch.vocab_size, hidden)
    words = tape.module(
        f"{prefix}.embed_tokens", table, inputs_require_grad=False, casts=arch.tie_word_embeddings
    )
    position_shape = (arch.max_position_embeddings + arch.position_offset, hidden)
    positions = tape.module(f"{prefix}.embed_positions", position_shape, inputs_require_grad=False)
    norm = tape.module(f"{prefix}.final_layer_norm", hidden, hidden)
    layers = [OPTDecoderLayer(tape, arch, f"{prefix}.layers.{index}") for index in range(arch.num_layers)]
    head = lm_head(tape, words, arch)
    tape.input_bytes = 8 * rows
    if not batch.records_pass:
        return tape
    heads = multi_head_dimensions(arch, batch)
    with tape.record_module(root):
        with tape.record_module(model), tape.record_module(inner):
            x = embed_tokens(tape, words, rows * hidden, batch)
            position_ids = tape.op([], tape.tensor(rows, 12, requires_grad=False))
            masks = AttentionMasks(tape, arch, batch)
            with tape.record_module(positions):
                y = tape.op([], tape.tensor(rows * hidden), weights=positions.weights)
            x = tape.op([x, y], tape.tensor(rows * hidden), shares_grad=True)
            for layer in layers:
                x = record_layer(tape, layer, x, masks.full, arch, heads, batch)
            x = layer_norm(tape, norm, x, rows)
            tape.keep_alive(y, position_ids)
            masks.release()
        language_loss(tape, head, head.weights, x, rows, arch.vocab_size)
    return tape


def record_layer(
    tape: ForwardTape,
    layer: OPTDecoderLayer,
    x: ActivationTensor,
    mask: ActivationTensor | None,
    arch: Architecture,
    heads: AttentionHeads,
    batch: MicroBatch,
) -> ActivationTensor:
    """Record one layer and return its output."""
    rows, hidden = heads.num_tokens, arch.hidden_size
    with tape.record_module(layer.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        y = layer_norm(tape, layer.attention_norm, x, rows)
        with tape.record_module(layer.attention, y):
            keys, values, queries, output = layer.projections
            query = linear(tape, queries, y, rows, hidden)
            query = tape.op([query], tape.tensor(query.numel, query.itemsize))
            key, value = (linear(tape, module, y, rows, hidden) for module in (keys, values))
            heads_output = attention(tape, batch.attn_implementation, heads, query, key, value, mask)
            y = linear(tape, output, heads_output, rows, hidden)
        x = add_residual(tape, x, dropout(tape, y, arch.dropout))
        y = layer_norm(tape, layer.final_norm, x, rows)
        y = relu(tape, layer.act, linear(tape, layer.up, y, rows, arch.intermediate_size, flat=True))
        y = linear(tape, layer.down, y, rows, hidden, flat=True)
        return add_residual(tape, x, dropout(tape, y, arch.dropout))
