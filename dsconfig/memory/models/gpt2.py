"""GPT-2."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape
from dsconfig.memory.layers import (
    AttentionHeads,
    add_residual,
    attention,
    dropout,
    embed_tokens,
    gelu_new,
    linear,
    lm_head,
    multi_head_dimensions,
)
from dsconfig.memory.losses import language_loss
from dsconfig.memory.models.architecture import Architecture, MicroBatch
from dsconfig.memory.norms import layer_norm


class GPT2Block:
    """Modules of one layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, wide = arch.hidden_size, arch.intermediate_size
        self.module = tape.module(prefix)
        self.ln_1 = tape.module(f"{prefix}.ln_1", hidden, hidden)
        self.attention = tape.module(f"{prefix}.attn")
        self.qkv = tape.projection(f"{prefix}.attn.c_attn", 3 * hidden, hidden, 3 * hidden)
        self.output = tape.projection(f"{prefix}.attn.c_proj", hidden, hidden, hidden)
        self.dropout = tape.module(f"{prefix}.attn.resid_dropout")
        self.ln_2 = tape.module(f"{prefix}.ln_2", hidden, hidden)
        self.mlp = tape.module(f"{prefix}.mlp")
        self.up = tape.projection(f"{prefix}.mlp.c_fc", wide, hidden, wide)
        self.down = tape.projection(f"{prefix}.mlp.c_proj", hidden, wide, hidden)
        self.act = tape.module(f"{prefix}.mlp.act")
        self.mlp_dropout = tape.module(f"{prefix}.mlp.dropout")
        for module in (self.qkv, self.output, self.up, self.down):
            for weight in module.weights:
                # Not `nn.Linear` but `Conv1D`: DeepSpeed does not patch it, and it multiplies without a view.
                weight.is_linear = weight.saves_view = False
                weight.shape = weight.shape[::-1]


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Build the modules and, unless only parameters are needed, record the pass."""
    tape = batch.new_tape()
    rows, hidden = batch.micro_batch_size * batch.sequence_length, arch.hidden_size
    root, model = (
        tape.module("", inputs_require_grad=False),
        tape.module("transformer", inputs_require_grad=False),
    )
    words = tape.module(
        "transformer.wte",
        (arch.vocab_size, hidden),
        inputs_require_grad=False,
        casts=arch.tie_word_embeddings,
    )
    positions = tape.module(
        "transformer.wpe", (arch.max_position_embeddings, hidden), inputs_require_grad=False
    )
    saved_inputs = tape.module("transformer.drop")
    layers = [GPT2Block(tape, arch, f"transformer.h.{index}") for index in range(arch.num_layers)]
    norm = tape.module("transformer.ln_f", hidden, hidden)
    head = lm_head(tape, words, arch)
    tape.input_bytes = 8 * rows
    if not batch.records_pass:
        return tape
    heads = multi_head_dimensions(arch, batch, fp32_softmax=False)
    with tape.record_module(root):
        with tape.record_module(model):
            x = embed_tokens(tape, words, rows * hidden, batch)
            with tape.record_module(positions):
                y = tape.op([], tape.tensor(batch.sequence_length * hidden), weights=positions.weights)
            x = tape.op([x, y], tape.tensor(rows * hidden), shares_grad=batch.micro_batch_size == 1)
            with tape.record_module(saved_inputs):
                x = dropout(tape, x, arch.dropout)
            for layer in layers:
                x = record_layer(tape, arch, layer, heads, batch, x)
            x = layer_norm(tape, norm, x, rows)
        language_loss(tape, head, head.weights, x, rows, arch.vocab_size)
    return tape


def record_layer(
    tape: ForwardTape,
    arch: Architecture,
    layer: GPT2Block,
    heads: AttentionHeads,
    batch: MicroBatch,
    x: ActivationTensor,
) -> ActivationTensor:
    """Record one layer and return its output."""
    rows, hidden = heads.num_tokens, arch.hidden_size
    with tape.record_module(layer.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        y = layer_norm(tape, layer.ln_1, x, rows)
        with tape.record_module(layer.attention, y):
            qkv = linear(tape, layer.qkv, y, rows, 3 * hidden)
            output = fused_attention(tape, batch, heads, qkv)
            y = linear(tape, layer.output, output, rows, hidden)
            with tape.record_module(layer.dropout):
                y = dropout(tape, y, arch.dropout)
        x = add_residual(tape, x, y)
        y = layer_norm(tape, layer.ln_2, x, rows)
        with tape.record_module(layer.mlp, y):
            y = gelu_new(tape, layer.act, linear(tape, layer.up, y, rows, arch.intermediate_size))
            y = linear(tape, layer.down, y, rows, hidden)
            with tape.record_module(layer.mlp_dropout):
                y = dropout(tape, y, arch.dropout)
        return add_residual(tape, x, y)


def fused_attention(
    tape: ForwardTape, batch: MicroBatch, heads: AttentionHeads, qkv: ActivationTensor
) -> ActivationTensor:
    """Record attention on views of the fused QKV tensor, which stays alive as a whole."""
    if batch.attn_implementation == "eager":
        qkv_parts = [tape.op([qkv], tape.tensor(qkv.numel // 3, qkv.itemsize)) for _ in range(3)]
        return attention(tape, batch.attn_implementation, heads, qkv_parts[0], qkv_parts[1], qkv_parts[2])
    logsumexp = tape.tensor(heads.num_tokens * heads.num_heads, 4, requires_grad=False)
    tape.op([], logsumexp)
    output = tape.tensor(qkv.numel // 3, qkv.itemsize)
    return tape.op([qkv, logsumexp], output, [qkv, logsumexp, output], backward_temporary=qkv.bytes)
