"""Falcon models, with one projection for all heads, and attention parallel to the MLP."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
)
from dsconfig.memory.losses import language_loss
from dsconfig.memory.norms import layer_norm
from dsconfig.memory.rotary import rotate

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module
    from dsconfig.memory.models.architecture import Architecture, MicroBatch


class FalconLayer:
    """The modules of one Falcon layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, wide = arch.hidden_size, arch.intermediate_size

        def projection(name: str, out: int, into: int) -> Module:
            return tape.projection(f"{prefix}.{name}", out, into, *([out] if arch.qkv_bias else []))

        self.arch = arch
        self.module = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attention", inputs_require_grad=False)
        width = (arch.num_heads + 2 * arch.num_kv_heads) * arch.head_dim
        self.qkv = projection("self_attention.query_key_value", width, hidden)
        self.output = projection("self_attention.dense", hidden, hidden)
        self.mlp = tape.module(f"{prefix}.mlp")
        self.up = projection("mlp.dense_h_to_4h", wide, hidden)
        self.act = tape.module(f"{prefix}.mlp.act")
        self.down = projection("mlp.dense_4h_to_h", hidden, wide)
        names = ("ln_attn", "ln_mlp") if arch.norms_per_layer == 2 else ("input_layernorm",)
        self.norms = [tape.module(f"{prefix}.{name}", hidden, hidden) for name in names]

    def record(
        self,
        tape: ForwardTape,
        heads: AttentionHeads,
        batch: MicroBatch,
        x: ActivationTensor,
        mask: ActivationTensor | None,
    ) -> ActivationTensor:
        """Record the Falcon layer and return its output."""
        rows, hidden = heads.num_tokens, self.arch.hidden_size
        with tape.record_module(self.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
            inputs = [layer_norm(tape, norm, x, rows) for norm in self.norms]
            attended = self._attention(tape, heads, batch, inputs[0], mask)
            with tape.record_module(self.mlp, inputs[-1]):
                y = linear(tape, self.up, inputs[-1], rows, self.arch.intermediate_size)
                y = linear(tape, self.down, activation(tape, self.act, y), rows, hidden)
            both = tape.op([y, attended], tape.tensor(0, y.itemsize), shares_grad=True)  # added in place
            both.numel, both.bytes = y.numel, y.bytes
            return add_residual(tape, x, dropout(tape, both, self.arch.dropout))

    def _attention(
        self,
        tape: ForwardTape,
        heads: AttentionHeads,
        batch: MicroBatch,
        y: ActivationTensor,
        mask: ActivationTensor | None,
    ) -> ActivationTensor:
        rows, size = heads.num_tokens, self.arch.head_dim
        with tape.record_module(self.attention, y):
            qkv = linear(tape, self.qkv, y, rows, (self.arch.num_heads + 2 * self.arch.num_kv_heads) * size)
            if self.arch.norms_per_layer == 2:  # keys and values are repeated for all query heads
                parts = [
                    tape.op([qkv], tape.tensor(rows * heads.num_heads * size, qkv.itemsize)) for _ in range(3)
                ]
            else:
                parts = [qkv]
                parts += [tape.op([qkv], tape.tensor(rows * size, qkv.itemsize)) for _ in range(2)]
            query, key = rotate(tape, heads, parts[0], parts[1])
            output = attention(tape, batch.attn_implementation, heads, query, key, parts[2], mask)
            return linear(tape, self.output, output, rows, self.arch.hidden_size)


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create Falcon's modules and, unless only parameters are needed, record the forward pass."""
    tape = batch.new_tape()
    rows, hidden = batch.micro_batch_size * batch.sequence_length, arch.hidden_size
    prefix = "transformer"
    root, model = tape.module("", inputs_require_grad=False), tape.module(prefix, inputs_require_grad=False)
    words = tape.module(
        f"{prefix}.word_embeddings",
        (arch.vocab_size, hidden),
        inputs_require_grad=False,
        casts=arch.tie_word_embeddings,
    )
    layers = [FalconLayer(tape, arch, f"{prefix}.h.{index}") for index in range(arch.num_layers)]
    norm = tape.module(f"{prefix}.ln_f", hidden, hidden)
    rotary = tape.module(f"{prefix}.rotary_emb", inputs_require_grad=False)
    head = lm_head(tape, words, arch)
    tape.input_bytes = 8 * rows
    if not batch.records_pass:
        return tape
    kv_heads = arch.num_heads if arch.norms_per_layer == 2 else 1
    heads = AttentionHeads(
        *(arch.num_heads, kv_heads, arch.head_dim),
        batch.micro_batch_size,
        batch.sequence_length,
        fp32_softmax=False,
        is_concatenated=True,
        runs_unfused=kv_heads < arch.num_heads,
    )
    with tape.record_module(root):
        with tape.record_module(model):
            x = embed_tokens(tape, words, rows * hidden, batch)
            masks = AttentionMasks(tape, arch, batch)
            with tape.record_module(rotary):
                numel = 2 * batch.sequence_length * arch.head_dim
                cos_sin = tape.op([], tape.tensor(numel, requires_grad=False))
            for layer in layers:
                x = layer.record(tape, heads, batch, x, masks.full)
            x = layer_norm(tape, norm, x, rows)
            masks.release()
        language_loss(tape, head, head.weights, x, rows, arch.vocab_size)
    tape.keep_alive(cos_sin)
    return tape
