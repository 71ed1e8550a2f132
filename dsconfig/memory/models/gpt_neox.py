"""GPT-NeoX and Pythia."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape
from dsconfig.memory.layers import (
    AttentionHeads,
    AttentionMasks,
    activation,
    add_residual,
    attention,
    dropout,
    embed_tokens,
    linear,
    lm_head,
    multi_head_dimensions,
)
from dsconfig.memory.losses import language_loss
from dsconfig.memory.models.architecture import Architecture, MicroBatch
from dsconfig.memory.norms import layer_norm
from dsconfig.memory.rotary import rotate_fused


class GPTNeoXLayer:
    """Modules of one layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, wide, biased = arch.hidden_size, arch.intermediate_size, arch.qkv_bias
        self.module = tape.module(prefix)
        self.input_norm = tape.module(f"{prefix}.input_layernorm", hidden, hidden)
        self.post_attention_norm = tape.module(f"{prefix}.post_attention_layernorm", hidden, hidden)
        self.attention_dropout = tape.module(f"{prefix}.post_attention_dropout")
        self.mlp_dropout = tape.module(f"{prefix}.post_mlp_dropout")
        self.attention = tape.module(f"{prefix}.attention")
        bias = [3 * hidden] if biased else []
        self.qkv = tape.projection(f"{prefix}.attention.query_key_value", 3 * hidden, hidden, *bias)
        self.output = tape.projection(
            f"{prefix}.attention.dense", hidden, hidden, *([hidden] if biased else [])
        )
        self.mlp = tape.module(f"{prefix}.mlp")
        self.up = tape.projection(f"{prefix}.mlp.dense_h_to_4h", wide, hidden, wide)
        self.down = tape.projection(f"{prefix}.mlp.dense_4h_to_h", hidden, wide, hidden)
        self.act = tape.module(f"{prefix}.mlp.act")


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Build the modules and, unless only parameters are needed, record the pass."""
    tape = batch.new_tape()
    rows, hidden = batch.micro_batch_size * batch.sequence_length, arch.hidden_size
    root, model = (
        tape.module("", inputs_require_grad=False),
        tape.module("gpt_neox", inputs_require_grad=False),
    )
    words = tape.module(
        "gpt_neox.embed_in",
        (arch.vocab_size, hidden),
        inputs_require_grad=False,
        casts=arch.tie_word_embeddings,
    )
    saved_inputs = tape.module("gpt_neox.emb_dropout")
    layers = [GPTNeoXLayer(tape, arch, f"gpt_neox.layers.{index}") for index in range(arch.num_layers)]
    norm = tape.module("gpt_neox.final_layer_norm", hidden, hidden)
    rotary = tape.module("gpt_neox.rotary_emb", inputs_require_grad=False)
    head = lm_head(tape, words, arch)
    tape.input_bytes = 8 * rows
    if not batch.records_pass:
        return tape
    heads = multi_head_dimensions(arch, batch, is_concatenated=True)
    with tape.record_module(root):
        with tape.record_module(model):
            x = embed_tokens(tape, words, rows * hidden, batch)
            masks = AttentionMasks(tape, arch, batch)
            with tape.record_module(saved_inputs):
                x = dropout(tape, x, arch.dropout)
            with tape.record_module(rotary):
                cos_sin = tape.op(
                    [], tape.tensor(2 * batch.sequence_length * arch.rotary_dim, requires_grad=False)
                )
            for layer in layers:
                x = record_layer(tape, arch, layer, heads, batch, x, masks.full)
            x = layer_norm(tape, norm, x, rows)
            masks.release()
        language_loss(tape, head, head.weights, x, rows, arch.vocab_size)
    tape.keep_alive(cos_sin)
    return tape


def record_layer(
    tape: ForwardTape,
    arch: Architecture,
    layer: GPTNeoXLayer,
    heads: AttentionHeads,
    batch: MicroBatch,
    x: ActivationTensor,
    mask: ActivationTensor | None,
) -> ActivationTensor:
    """Record one layer: attention and MLP in parallel, or in sequence."""
    rows, hidden = heads.num_tokens, arch.hidden_size
    with tape.record_module(layer.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        y = layer_norm(tape, layer.input_norm, x, rows)
        with tape.record_module(layer.attention, y):
            qkv = linear(tape, layer.qkv, y, rows, 3 * hidden)
            query, key, value = rotate_fused(tape, heads, qkv, arch.rotary_dim)
            attention_output = attention(tape, batch.attn_implementation, heads, query, key, value, mask)
            attention_output = linear(tape, layer.output, attention_output, rows, hidden)
        with tape.record_module(layer.attention_dropout):
            attention_output = dropout(tape, attention_output, arch.dropout)
        mlp_input = x if arch.use_parallel_residual else add_residual(tape, attention_output, x)
        y = layer_norm(tape, layer.post_attention_norm, mlp_input, rows)
        with tape.record_module(layer.mlp, y):
            y = activation(tape, layer.act, linear(tape, layer.up, y, rows, arch.intermediate_size))
            y = linear(tape, layer.down, y, rows, hidden)
        with tape.record_module(layer.mlp_dropout):
            y = dropout(tape, y, arch.dropout)
        return (
            add_residual(tape, add_residual(tape, y, attention_output), x)
            if arch.use_parallel_residual
            else add_residual(tape, y, mlp_input)
        )
