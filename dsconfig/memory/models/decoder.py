"""Llama and similar decoders, by the features in `decoder_model_types`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.layers import (
    AttentionHeads,
    AttentionMasks,
    add_residual,
    dropout,
    embed_tokens,
    lm_head,
)
from dsconfig.memory.losses import language_loss
from dsconfig.memory.models.decoder_attention import Attention, MultiHeadLatentAttention
from dsconfig.memory.models.moe import GatedMLP, MoEBlock, PlainMLP
from dsconfig.memory.models.vision_tower import VisionTower
from dsconfig.memory.norms import norm_weights, normalize

if TYPE_CHECKING:
    from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape
    from dsconfig.memory.models.architecture import Architecture, MicroBatch


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Build the modules and, unless only parameters are needed, record the pass."""
    tape = batch.new_tape()
    rows, is_sequence_parallel, variant = (
        batch.micro_batch_size * batch.local_sequence_length,
        batch.sp_size > 1,
        arch.variant,
    )
    root, model = tape.module("", inputs_require_grad=False), tape.module("model", inputs_require_grad=False)
    towers = [VisionTower(tape, arch, tower, batch.trains_towers) for tower in arch.towers]
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
"""Names of a layer's norms, in the order of its parameters."""
NORM_ORDER = {
    "pre": (0, None, 1, None),
    "post": (None, 0, None, 1),
    "sandwich": (0, 1, 2, 3),
    "sandwich_glm4": (0, 2, 1, 3),
    "parallel": (0, None, None, None),
    "parallel_pair": (0, None, 1, None),
}
"""Indexes of the norms before attention, after it, before the MLP, and after it."""


class DecoderLayer:
    """One decoder layer: attention, an MLP or experts, and norms."""

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
        """Record the layer and return its output."""
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
