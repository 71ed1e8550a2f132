"""Decoders like Llama, with the features listed in `decoder_model_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.features.ulysses import ulysses_attention
from dsconfig.memory.layers import (
    AttentionHeads,
    AttentionMasks,
    add_residual,
    attention,
    dropout,
    embed_tokens,
    linear,
    lm_head,
    norm_weights,
    normalize,
)
from dsconfig.memory.losses import language_loss
from dsconfig.memory.models.moe import GatedMLP, MoEBlock, PlainMLP
from dsconfig.memory.models.vision_tower import VisionTower
from dsconfig.memory.rotary import rotate, rotate_fused, rotate_part

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module
    from dsconfig.memory.models.architecture import Architecture, LatentAttention, MicroBatch


class Attention:
    """Attention with query, key, value and output projections."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str, number: int) -> None:
        self.arch, self.style = arch, arch.variant
        self.is_rotated = number not in arch.unrotated_layers
        self.module = tape.module(prefix, *self._sinks(), inputs_require_grad=False)
        hidden, queries, keys = (
            arch.hidden_size,
            arch.num_heads * arch.head_dim,
            arch.num_kv_heads * arch.head_dim,
        )
        names = self.style.names

        def projection(name: str, out: int, into: int, with_bias: bool) -> Module:
            return tape.projection(
                f"{prefix}.{names.get(name, name)}", out, into, *([out] if with_bias else [])
            )

        if self.style.fused_qkv:
            self.output = projection("o_proj", hidden, queries, False)
            self.qkv = projection("qkv_proj", queries + 2 * keys, hidden, arch.qkv_bias)
            return
        self.query = projection("q_proj", queries, hidden, arch.qkv_bias)
        self.key = projection("k_proj", keys, hidden, arch.qkv_bias)
        self.value = projection("v_proj", keys, hidden, arch.qkv_bias)
        self.output = projection("o_proj", hidden, queries, arch.o_proj_bias)
        if arch.has_qk_norms:
            self.norms = [
                tape.module(f"{prefix}.{name}", *norm_weights(self._norm_kind, self._norm_size(heads)))
                for name, heads in zip(
                    self.style.qk_norm_names, (arch.num_heads, arch.num_kv_heads), strict=True
                )
            ]

    def _sinks(self) -> tuple[int, ...]:
        moe = self.style.moe
        return (self.arch.num_heads,) if moe and moe.has_biases else ()

    @property
    def _norm_kind(self) -> str:
        return self.style.qk_norm_kind or self.style.norm

    def _norm_size(self, heads: int) -> int | tuple[int, int]:
        size = self.arch.head_dim
        if self.style.qk_norm == "each_head":
            return heads, size
        return heads * size if self.style.qk_norm == "all_heads" else size

    def compute(
        self,
        tape: ForwardTape,
        heads: AttentionHeads,
        batch: MicroBatch,
        y: ActivationTensor,
        mask: ActivationTensor | None,
    ) -> ActivationTensor:
        """Record the attention layer."""
        rows, arch = heads.num_tokens, self.arch
        with tape.record_module(self.module, y):
            if self.style.fused_qkv:
                qkv = linear(
                    tape, self.qkv, y, rows, (heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim
                )
                query, key, value = rotate_fused(tape, heads, qkv, arch.rotary_dim or heads.head_dim)
            else:
                query, key, value = self._separate(tape, heads, y)
            if self.module.weights:  # sinks
                tape.op([], tape.tensor(0), weights=self.module.weights)
            if batch.sp_size > 1:
                output = ulysses_attention(tape, batch, heads, query, key, value)
            else:
                output = attention(
                    tape, batch.attn_implementation, heads, query, key, value, mask, arch.caps_attn_scores
                )
            y = linear(tape, self.output, output, rows, arch.hidden_size)
            if batch.sp_size > 1:
                tape.keep_alive(query, key, value)
            if self.style.residual_dropout == "residual_dropout" and self.style.mlp == "gated":
                y = dropout(tape, y, arch.dropout)
        return y

    def _separate(
        self, tape: ForwardTape, heads: AttentionHeads, y: ActivationTensor
    ) -> tuple[ActivationTensor, ActivationTensor, ActivationTensor]:
        """Project queries, keys and values; normalize and rotate queries and keys as the model does."""
        rows = heads.num_tokens
        counts = heads.num_heads, heads.num_kv_heads
        query, key = (
            linear(tape, module, y, rows, count * heads.head_dim)
            if self.style.normalizes_rotated
            else self._normalized(tape, linear(tape, module, y, rows, count * heads.head_dim), rows, index)
            for index, (module, count) in enumerate(zip((self.query, self.key), counts, strict=True))
        )
        value = linear(tape, self.value, y, rows, heads.num_kv_heads * heads.head_dim)
        if self.is_rotated and self.style.partial_rotary_factor:
            query, key = (
                rotate_part(tape, heads, x, count, self.arch.rotary_dim)
                for x, count in zip((query, key), counts, strict=True)
            )
        elif self.is_rotated:
            query, key = rotate(tape, heads, query, key, self.style.rotary)
        if self.style.normalizes_rotated:
            query, key = (self._normalized(tape, x, rows, index) for index, x in enumerate((query, key)))
        return query, key, value

    def _normalized(self, tape: ForwardTape, x: ActivationTensor, rows: int, index: int) -> ActivationTensor:
        if not self.arch.has_qk_norms:
            return x
        count = (self.arch.num_heads, self.arch.num_kv_heads)[index]
        norm_rows = rows if self.style.qk_norm == "all_heads" else rows * count
        return normalize(tape, self.norms[index], x, norm_rows, self._norm_kind)


class MultiHeadLatentAttention:
    """Attention with low-rank queries, and keys and values from one latent vector (DeepSeek)."""

    def __init__(self, tape: ForwardTape, arch: Architecture, latent: LatentAttention, prefix: str) -> None:
        self.arch, self.latent = arch, latent
        self.module = tape.module(prefix, inputs_require_grad=False)
        hidden, heads, biased = arch.hidden_size, arch.num_heads, arch.o_proj_bias

        def projection(name: str, out: int, into: int, with_bias: bool = False) -> Module:
            return tape.projection(f"{prefix}.{name}", out, into, *([out] if with_bias else []))

        if latent.q_lora_rank:
            self.query_down = projection("q_a_proj", latent.q_lora_rank, hidden, biased)
            self.query_norm = tape.module(f"{prefix}.q_a_layernorm", latent.q_lora_rank)
            self.query = projection("q_b_proj", heads * arch.head_dim, latent.q_lora_rank)
        else:
            self.query = projection("q_proj", heads * arch.head_dim, hidden)
        width = latent.kv_lora_rank + latent.qk_rope_head_dim
        self.latents = projection("kv_a_proj_with_mqa", width, hidden, biased)
        self.latent_norm = tape.module(f"{prefix}.kv_a_layernorm", latent.kv_lora_rank)
        both = heads * (latent.qk_nope_head_dim + latent.v_head_dim)
        self.keys_values = projection("kv_b_proj", both, latent.kv_lora_rank)
        self.output = projection("o_proj", hidden, heads * latent.v_head_dim, biased)

    def compute(
        self,
        tape: ForwardTape,
        heads: AttentionHeads,
        batch: MicroBatch,
        y: ActivationTensor,
        mask: ActivationTensor | None,
    ) -> ActivationTensor:
        """Record the attention layer."""
        rows, latent = heads.num_tokens, self.latent
        with tape.record_module(self.module, y):
            query = y
            if latent.q_lora_rank:
                query = linear(tape, self.query_down, y, rows, latent.q_lora_rank)
                query = normalize(tape, self.query_norm, query, rows)
            query = linear(tape, self.query, query, rows, heads.num_heads * heads.head_dim)
            width = latent.kv_lora_rank + latent.qk_rope_head_dim
            latents = linear(tape, self.latents, y, rows, width)
            # The norm casts the slice of the latent vector, and the rest is the rotated part of all keys.
            sliced = tape.tensor(rows * latent.kv_lora_rank, latents.itemsize)
            sliced = tape.op([latents], sliced, shares_grad=True)
            normalized = normalize(tape, self.latent_norm, sliced, rows)
            query = self._rotated(tape, heads, query, heads.num_heads)
            rotated_key = tape.tensor(rows * latent.qk_rope_head_dim, latents.itemsize)
            tape.op([latents], rotated_key)
            both = heads.num_heads * (latent.qk_nope_head_dim + latent.v_head_dim)
            value = linear(tape, self.keys_values, normalized, rows, both)
            key = tape.op([value, rotated_key], tape.tensor(query.numel, query.itemsize))
            output = attention(tape, batch.attn_implementation, heads, query, key, value, mask)
            tape.keep_alive(latents)
            return linear(tape, self.output, output, rows, self.arch.hidden_size)

    def _rotated(
        self, tape: ForwardTape, heads: AttentionHeads, query: ActivationTensor, count: int
    ) -> ActivationTensor:
        """Rotate the last elements of each head, and concatenate them with the others."""
        part = heads.num_tokens * count * self.latent.qk_rope_head_dim
        halves = []
        for _ in range(2):
            products = [tape.op([query], tape.tensor(part // 2, query.itemsize)) for _ in range(2)]
            halves.append(tape.op(products, tape.tensor(part // 2, query.itemsize), shares_grad=True))
        rotated = tape.op(halves, tape.tensor(part, query.itemsize), shares_grad=True)
        return tape.op([query, rotated], tape.tensor(query.numel, query.itemsize))


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Create the model's modules and, unless only parameters are needed, record the forward pass."""
    tape = batch.new_tape()
    rows, is_sequence_parallel, variant = (
        batch.micro_batch_size * batch.local_sequence_length,
        batch.sp_size > 1,
        arch.variant,
    )
    root, model = tape.module("", inputs_require_grad=False), tape.module("model", inputs_require_grad=False)
    towers = [VisionTower(tape, arch, tower, batch) for tower in arch.towers]
    embedding = tape.module(
        "model.embed_tokens",
        (arch.vocab_size, arch.hidden_size),
        inputs_require_grad=False,
        casts=arch.tie_word_embeddings,
    )
    layers = [DecoderLayer(tape, arch, batch, index) for index in range(arch.num_layers)]
    norm = tape.module("model.norm", *norm_weights(variant.norm, arch.hidden_size))
    rotary = tape.module("model.rotary_emb", inputs_require_grad=False)
    head = lm_head(tape, embedding, arch)
    tape.input_bytes = (24 if is_sequence_parallel else 8) * rows  # position ids and shifted labels
    if not batch.records_pass:
        return tape
    sizes = arch.num_heads, arch.num_kv_heads, arch.head_dim
    heads = AttentionHeads(
        *sizes,
        batch.micro_batch_size,
        batch.local_sequence_length,
        arch.attention_dropout,
        is_concatenated=variant.fused_qkv or variant.partial_rotary_factor > 0 or variant.is_latent,
        has_sinks=variant.moe is not None and variant.moe.has_biases,
        value_head_dim=arch.latent.v_head_dim if arch.latent else 0,
    )
    rotary_numel = (
        batch.local_sequence_length
        * (batch.micro_batch_size if is_sequence_parallel else 1)
        * (arch.latent.qk_rope_head_dim if arch.latent else arch.rotary_dim or arch.head_dim)
    )
    with tape.record_module(root):
        with tape.record_module(model):
            x = embed_tokens(tape, embedding, rows * arch.hidden_size, batch, variant.scales_embeddings)
            x = dropout(tape, x, arch.embedding_dropout)
            for tower in towers:
                x = tower.record(tape, batch, x)
            masks = AttentionMasks(tape, arch, batch)
            cos_sin = []
            for _ in range(variant.rotary_tables):
                with tape.record_module(rotary):
                    itemsize = 4 if variant.rotary in ("fp32_product", "fp32_interleaved") else 0
                    cos_sin.append(tape.op([], tape.tensor(2 * rotary_numel, itemsize, False)))
            for layer in layers:
                x = layer.record(tape, heads, batch, x, masks.for_layer(layer.number))
            x = normalize(tape, norm, x, rows, variant.norm)
            masks.release()
        language_loss(
            tape,
            head,
            head.weights,
            x,
            rows,
            arch.vocab_size,
            arch.lm_head_shards,
            arch.caps_logits,
            variant.scales_logits,
            variant.keeps_logits_dtype,
        )
    tape.keep_alive(*cos_sin)
    return tape


NORM_NAMES = {
    "pre": ("input_layernorm", "post_attention_layernorm"),
    "post": ("post_attention_layernorm", "post_feedforward_layernorm"),
    "sandwich": (
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    ),
    "sandwich_glm4": (
        "input_layernorm",
        "post_attention_layernorm",
        "post_self_attn_layernorm",
        "post_mlp_layernorm",
    ),
    "parallel": ("input_layernorm",),
    "parallel_pair": ("ln_attn", "ln_mlp"),
}
"""Names of a layer's norms, in the order of the layer's parameters."""
NORM_ORDER = {
    "pre": (0, None, 1, None),
    "post": (None, 0, None, 1),
    "sandwich": (0, 1, 2, 3),
    "sandwich_glm4": (0, 2, 1, 3),
    "parallel": (0, None, None, None),
    "parallel_pair": (0, None, 1, None),
}
"""Indexes of the norms before attention, after attention, before the MLP, and after the MLP."""


class DecoderLayer:
    """A decoder layer: norms, attention, and an MLP or experts."""

    def __init__(self, tape: ForwardTape, arch: Architecture, batch: MicroBatch, number: int) -> None:
        self.number, self.arch, self.style = number, arch, arch.variant
        prefix, position = f"model.layers.{number}", self.style.norm_position
        if arch.use_parallel_residual and position == "pre":  # StableLM 2 12B
            position = "parallel"
        self.order = NORM_ORDER[position]
        self.module = tape.module(prefix)
        self.attention = (
            MultiHeadLatentAttention(tape, arch, arch.latent, f"{prefix}.self_attn")
            if arch.latent
            else Attention(tape, arch, f"{prefix}.self_attn", number)
        )
        self.mlp: MoEBlock | GatedMLP | PlainMLP
        if self.style.mlp == "plain":
            self.mlp = PlainMLP(tape, arch, self.style, f"{prefix}.mlp")
        elif arch.num_experts and number not in arch.mlp_only_layers:
            self.mlp = MoEBlock(tape, arch, self.style, batch, f"{prefix}.mlp")
        else:
            self.mlp = GatedMLP(tape, arch, self.style, f"{prefix}.mlp", arch.intermediate_size)
        self.norms = [
            tape.module(f"{prefix}.{name}", *norm_weights(self.style.norm, arch.hidden_size))
            for name in self.style.norm_names or NORM_NAMES[position]
        ]

    def record(
        self,
        tape: ForwardTape,
        heads: AttentionHeads,
        batch: MicroBatch,
        x: ActivationTensor,
        mask: ActivationTensor | None,
    ) -> ActivationTensor:
        """Record the decoder layer and return its output."""
        rows, arch = heads.num_tokens, self.arch

        def normed(position: int, y: ActivationTensor) -> ActivationTensor:
            index = self.order[position]
            return y if index is None else normalize(tape, self.norms[index], y, rows, self.style.norm)

        def scaled(y: ActivationTensor) -> ActivationTensor:
            y = tape.op([y], tape.tensor(y.numel, y.itemsize)) if self.style.scales_residuals else y
            return dropout(tape, y, arch.dropout)

        with tape.record_module(self.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
            y = normed(0, x)
            attended = self.attention.compute(tape, heads, batch, y, mask)
            if arch.use_parallel_residual:
                parallel = normed(2, x) if self.order[2] is not None else y
                output = self._mlp(tape, batch, parallel, rows)
                return add_residual(tape, add_residual(tape, x, scaled(attended)), scaled(output))
            x = add_residual(tape, x, scaled(normed(1, attended)))
            return add_residual(tape, x, scaled(normed(3, self._mlp(tape, batch, normed(2, x), rows))))

    def _mlp(self, tape: ForwardTape, batch: MicroBatch, y: ActivationTensor, rows: int) -> ActivationTensor:
        if isinstance(self.mlp, MoEBlock):
            return self.mlp.compute(tape, self.arch, batch, y, rows)
        return self.mlp.compute(tape, y, rows, self.arch.hidden_size)
