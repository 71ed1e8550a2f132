"""Llama and similar decoders, from Mistral and Qwen to Gemma, OLMo, Granite, GLM and StarCoder 2."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ActivationTensor, ForwardTape, Module
from dsconfig.memory.features.autoep import autoep_block, dispatch
from dsconfig.memory.features.ulysses import ulysses_attention
from dsconfig.memory.layers import (
    AttentionHeads,
    AttentionMasks,
    activation,
    add,
    attention,
    cast,
    embed,
    gated_activation,
    language_loss,
    layer_norm,
    linear,
    lm_head,
    multiply,
    rms_norm,
    rotate,
    rotate_fused,
    rotate_part,
    saved_inputs,
)
from dsconfig.memory.models.architecture import Architecture, DecoderVariant, MicroBatch


def build(arch: Architecture, batch: MicroBatch) -> ForwardTape:
    """Build the modules and, unless only parameters are needed, record the pass."""
    tape = batch.new_tape()
    rows, is_sequence_parallel, variant = (
        batch.micro_batch_size * batch.local_sequence_length,
        batch.sp_size > 1,
        arch.variant,
    )
    root, model = tape.module("", inputs_require_grad=False), tape.module("model", inputs_require_grad=False)
    embedding = tape.module(
        "model.embed_tokens",
        (arch.vocab_size, arch.hidden_size),
        inputs_require_grad=False,
        casts=arch.tie_word_embeddings,
    )
    layers = [DecoderLayer(tape, arch, batch, index) for index in range(arch.num_layers)]
    norm = tape.module("model.norm", *_norm_sizes(arch))
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
        is_concatenated=variant.fused_projections or variant.partial_rotary_factor > 0,
    )
    rotary_numel = (
        batch.local_sequence_length
        * (batch.micro_batch_size if is_sequence_parallel else 1)
        * (arch.rotary_dim or arch.head_dim)
    )
    with tape.scope(root):
        with tape.scope(model):
            x = embed(tape, embedding, rows * arch.hidden_size, batch, variant.scales_embeddings)
            masks = AttentionMasks(tape, arch, batch)
            cos_sin = []
            for _ in range(variant.rotary_tables):
                with tape.scope(rotary):
                    cos_sin.append(
                        tape.op([], tape.tensor(2 * rotary_numel, 4 if variant.rotary_in_fp32 else 0, False))
                    )
            for layer in layers:
                x = record_layer(tape, arch, layer, heads, batch, x, masks.for_layer(layer.number))
            x = _norm(tape, variant, norm, x, rows)
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
            variant.scales_residuals,
        )
    tape.keep_alive(*cos_sin)
    return tape


# One decoder layer.


class DecoderLayer:
    """Modules of one layer."""

    def __init__(self, tape: ForwardTape, arch: Architecture, batch: MicroBatch, number: int) -> None:
        self.number, self.style = number, arch.variant
        prefix = f"model.layers.{number}"
        self.module = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attn", inputs_require_grad=False)
        self._projections(tape, arch, f"{prefix}.self_attn")
        self.mlp: MoEBlock | GatedMLP | PlainMLP
        if self.style.plain_mlp:
            self.mlp = PlainMLP(tape, arch, f"{prefix}.mlp")
        elif arch.num_experts and number not in arch.mlp_only_layers:
            self.mlp = MoEBlock(tape, arch, self.style, batch, f"{prefix}.mlp")
        else:
            self.mlp = GatedMLP(tape, arch, self.style, f"{prefix}.mlp", arch.intermediate_size)
        self.norms = {
            name: tape.module(f"{prefix}.{name}_layernorm", *_norm_sizes(arch))
            for name in NORM_NAMES[self.style.norm_position]
        }

    def _projections(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        hidden, size = arch.hidden_size, arch.head_dim
        queries, keys = arch.num_heads * size, arch.num_kv_heads * size

        def projection(name: str, out: int, into: int, with_bias: bool) -> Module:
            return tape.projection(f"{prefix}.{name}", out, into, *([out] if with_bias else []))

        if self.style.fused_projections:
            self.output = projection("o_proj", hidden, queries, False)
            self.qkv = projection("qkv_proj", queries + 2 * keys, hidden, False)
            return
        self.query = projection("q_proj", queries, hidden, arch.qkv_bias)
        self.key = projection("k_proj", keys, hidden, arch.qkv_bias)
        self.value = projection("v_proj", keys, hidden, arch.qkv_bias)
        self.output = projection("o_proj", hidden, queries, arch.o_proj_bias)
        if self.style.qk_norm:
            whole = self.style.qk_norm == "all_heads"
            sizes = {"q": queries, "k": keys} if whole else dict.fromkeys("qk", size)
            self.head_norms = {
                name: tape.module(f"{prefix}.{name}_norm", count) for name, count in sizes.items()
            }


def _norm_sizes(arch: Architecture) -> list[int]:
    """Sizes of a norm's parameters."""
    return [arch.hidden_size] * (2 if arch.variant.layer_norms else 1)


def _norm(
    tape: ForwardTape, variant: DecoderVariant, module: Module, x: ActivationTensor, rows: int
) -> ActivationTensor:
    if variant.layer_norms:
        return layer_norm(tape, module, x, rows)
    return rms_norm(tape, module, x, rows, variant.rms_norm)


NORM_NAMES = {
    "pre": ("input", "post_attention"),
    "post": ("post_attention", "post_feedforward"),
    "sandwich": ("input", "post_attention", "pre_feedforward", "post_feedforward"),
    "sandwich_glm4": ("input", "post_attention", "post_self_attn", "post_mlp"),
}
"""Names of a layer's norms, in the order of its parameters."""
NORM_ORDER = {
    "pre": ("input", "", "post_attention", ""),
    "post": ("", "post_attention", "", "post_feedforward"),
    "sandwich": NORM_NAMES["sandwich"],
    "sandwich_glm4": ("input", "post_self_attn", "post_attention", "post_mlp"),
}
"""Norms before attention, after it, before the MLP, and after it."""


def record_layer(
    tape: ForwardTape,
    arch: Architecture,
    layer: DecoderLayer,
    heads: AttentionHeads,
    batch: MicroBatch,
    x: ActivationTensor,
    mask: ActivationTensor | None,
) -> ActivationTensor:
    """Record one layer and return its output."""
    rows, norm_names = heads.num_tokens, NORM_ORDER[layer.style.norm_position]

    def normed(position: int, y: ActivationTensor) -> ActivationTensor:
        name = norm_names[position]
        return _norm(tape, layer.style, layer.norms[name], y, rows) if name else y

    def scaled(y: ActivationTensor) -> ActivationTensor:
        return tape.op([y], tape.tensor(y.numel, y.itemsize)) if layer.style.scales_residuals else y

    with tape.scope(layer.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        y = normed(0, x)
        with tape.scope(layer.attention, y):
            y = _attention(tape, arch, layer, heads, batch, y, mask)
        x = add(tape, x, scaled(normed(1, y)))
        y = normed(2, x)
        if isinstance(layer.mlp, MoEBlock):
            y = layer.mlp.compute(tape, arch, batch, y, rows)
        else:
            y = layer.mlp.compute(tape, y, rows, arch.hidden_size)
        return add(tape, x, scaled(normed(3, y)))


def _attention(
    tape: ForwardTape,
    arch: Architecture,
    layer: DecoderLayer,
    heads: AttentionHeads,
    batch: MicroBatch,
    y: ActivationTensor,
    mask: ActivationTensor | None,
) -> ActivationTensor:
    rows = heads.num_tokens
    if layer.style.fused_projections:
        qkv = linear(tape, layer.qkv, y, rows, (heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim)
        query, key, value = rotate_fused(tape, heads, qkv, arch.rotary_dim or heads.head_dim)
    else:
        query, key, value = _separate(tape, layer, heads, y)
        if layer.style.partial_rotary_factor:
            query = rotate_part(tape, heads, query, heads.num_heads, arch.rotary_dim)
            key = rotate_part(tape, heads, key, heads.num_kv_heads, arch.rotary_dim)
        else:
            query, key = rotate(tape, query, key, layer.style.rotary_in_fp32)
    if batch.sp_size > 1:
        output = ulysses_attention(tape, batch, heads, query, key, value)
    else:
        output = attention(
            tape, batch.attn_implementation, heads, query, key, value, mask, arch.caps_attn_scores
        )
    y = linear(tape, layer.output, output, rows, arch.hidden_size)
    if batch.sp_size > 1:
        tape.keep_alive(query, key, value)
    return y


def _separate(
    tape: ForwardTape, layer: DecoderLayer, heads: AttentionHeads, y: ActivationTensor
) -> tuple[ActivationTensor, ActivationTensor, ActivationTensor]:
    """Project queries, keys and values; normalize the first two if the model does."""
    rows, variant = heads.num_tokens, layer.style
    projected = []
    for name, module, count in (("q", layer.query, heads.num_heads), ("k", layer.key, heads.num_kv_heads)):
        x = linear(tape, module, y, rows, count * heads.head_dim)
        if variant.qk_norm:
            norm_rows = rows if variant.qk_norm == "all_heads" else rows * count
            x = rms_norm(tape, layer.head_norms[name], x, norm_rows, variant.rms_norm)
        projected.append(x)
    return projected[0], projected[1], linear(tape, layer.value, y, rows, heads.num_kv_heads * heads.head_dim)


# MLP and MoE blocks.


class GatedMLP:
    """MLP with a gate (SwiGLU or GeGLU)."""

    def __init__(
        self, tape: ForwardTape, arch: Architecture, variant: DecoderVariant, prefix: str, wide: int
    ) -> None:
        self.intermediate_size, hidden, bias = wide, arch.hidden_size, arch.mlp_bias
        self.is_fused = variant.fused_projections or variant.fused_gate_up
        self.module = tape.module(prefix)
        if self.is_fused:
            self.gate = tape.projection(f"{prefix}.gate_up_proj", 2 * wide, hidden)
        else:
            self.gate = tape.projection(f"{prefix}.gate_proj", wide, hidden, *([wide] if bias else []))
            self.up = tape.projection(f"{prefix}.up_proj", wide, hidden, *([wide] if bias else []))
        self.down = tape.projection(f"{prefix}.down_proj", hidden, wide, *([hidden] if bias else []))
        self.act = tape.module(f"{prefix}.act_fn")

    def compute(self, tape: ForwardTape, y: ActivationTensor, rows: int, hidden: int) -> ActivationTensor:
        """Record the MLP; gate and up can be halves of one tensor."""
        intermediate_size = self.intermediate_size
        with tape.scope(self.module, y):
            gate = linear(tape, self.gate, y, rows, (1 + self.is_fused) * intermediate_size)
            if self.is_fused:
                product = gated_activation(tape, self.act, gate)
            elif tape.kernels.fused_mlp:  # `LigerSiLUMulFunction` saves its two inputs
                up = linear(tape, self.up, y, rows, intermediate_size)
                product = tape.op([gate, up], tape.tensor(gate.numel, gate.itemsize), [gate, up])
            else:
                activated = activation(tape, self.act, gate)
                product = multiply(tape, activated, linear(tape, self.up, y, rows, intermediate_size))
            return linear(tape, self.down, product, rows, hidden)


class PlainMLP:
    """MLP without a gate (StarCoder2)."""

    def __init__(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        self.intermediate_size, hidden, wide = (
            arch.intermediate_size,
            arch.hidden_size,
            arch.intermediate_size,
        )
        self.module = tape.module(prefix)
        self.up = tape.projection(f"{prefix}.c_fc", wide, hidden, *([wide] if arch.mlp_bias else []))
        self.down = tape.projection(f"{prefix}.c_proj", hidden, wide, *([hidden] if arch.mlp_bias else []))
        self.act = tape.module(f"{prefix}.act")

    def compute(self, tape: ForwardTape, y: ActivationTensor, rows: int, hidden: int) -> ActivationTensor:
        """Record the MLP."""
        with tape.scope(self.module, y):
            y = activation(tape, self.act, linear(tape, self.up, y, rows, self.intermediate_size))
            return linear(tape, self.down, y, rows, hidden)


class MoEBlock:
    """MoE block with router, experts and an optional shared expert."""

    def __init__(
        self, tape: ForwardTape, arch: Architecture, variant: DecoderVariant, batch: MicroBatch, prefix: str
    ) -> None:
        self.module, self.router_dtype = tape.module(prefix), variant.router_dtype
        self.shared_expert = None
        if batch.ep_size:
            self.autoep = autoep_block(tape, arch, batch, prefix)
        else:
            self._build_local(tape, arch, variant, prefix)
        if arch.shared_expert_intermediate_size:
            name = f"{prefix}.shared_expert"
            self.shared_expert = GatedMLP(tape, arch, variant, name, arch.shared_expert_intermediate_size)
            self.shared_expert_gate = tape.projection(f"{name}_gate", 1, arch.hidden_size)

    def _build_local(
        self, tape: ForwardTape, arch: Architecture, variant: DecoderVariant, prefix: str
    ) -> None:
        self.module.class_name = variant.moe_block
        for name in ("experts", "gate") if variant.experts_before_gate else ("gate", "experts"):
            if name == "gate":
                self.gate = tape.module(f"{prefix}.gate", (arch.num_experts, arch.hidden_size))
            else:
                self._build_experts(tape, arch, prefix)

    def _build_experts(self, tape: ForwardTape, arch: Architecture, prefix: str) -> None:
        count, hidden, wide = arch.num_experts, arch.hidden_size, arch.moe_intermediate_size
        self.experts = tape.module(
            f"{prefix}.experts", (count, 2 * wide, hidden), (count, hidden, wide), casts=True
        )
        for weight in self.experts.weights:
            weight.is_linear = weight.is_autocast = False  # autocast does not cast inputs of `grouped_mm`
        self.act = tape.module(f"{prefix}.experts.act_fn")

    def compute(
        self, tape: ForwardTape, arch: Architecture, batch: MicroBatch, y: ActivationTensor, rows: int
    ) -> ActivationTensor:
        """Record the block, including the shared expert."""
        with tape.scope(self.module, y):
            shared = None
            if self.shared_expert and not batch.ep_size:
                shared = self.shared_expert.compute(tape, y, rows, arch.hidden_size)
            if batch.ep_size:
                out = dispatch(tape, arch, batch, self.autoep, y, rows)
            else:
                out = self._compute_experts(tape, arch, y, rows)
            if not self.shared_expert:
                return out
            if shared is None:  # AutoEP computes the shared expert last
                shared = self.shared_expert.compute(tape, y, rows, arch.hidden_size)
            gate = linear(tape, self.shared_expert_gate, y, rows, 1)
            weight = tape.tensor(rows, gate.itemsize)
            tape.op([gate], weight, [weight])
            weighted = tape.tensor(shared.numel, shared.itemsize)
            tape.op([weight, shared], weighted, [weight, shared])
            return add(tape, out, weighted)

    def _route(
        self, tape: ForwardTape, arch: Architecture, y: ActivationTensor, rows: int
    ) -> ActivationTensor:
        num_routed = rows * arch.num_experts_per_tok
        with tape.scope(self.gate):
            weights = self.gate.weights
            scores = tape.op(
                [y], tape.tensor(rows * arch.num_experts), saved_inputs(tape, y, weights), weights
            )
            probs = tape.tensor(rows * arch.num_experts, 4)
            tape.op([cast(tape, scores, 4)], probs, [probs])
            top_probs = tape.tensor(num_routed, 4)
            tape.op([probs], top_probs, [top_probs])
            return top_probs if self.router_dtype == "fp32" else cast(tape, top_probs, scores.itemsize)

    def _compute_experts(
        self, tape: ForwardTape, arch: Architecture, y: ActivationTensor, rows: int
    ) -> ActivationTensor:
        """`grouped_mm` over tokens sorted by expert; each token is copied once per expert."""
        num_routed, hidden, intermediate_size = (
            rows * arch.num_experts_per_tok,
            arch.hidden_size,
            arch.moe_intermediate_size,
        )
        top_probs = self._route(tape, arch, y, rows)
        itemsize = tape.itemsize
        gate_up_proj, down_proj = self.experts.weights
        with tape.scope(self.experts):
            dispatched = tape.op([y], tape.tensor(num_routed * hidden, itemsize))
            gate_up = tape.tensor(2 * num_routed * intermediate_size, itemsize)
            tape.op([dispatched], gate_up, [dispatched] if gate_up_proj.requires_grad else [], [gate_up_proj])
            product = gated_activation(tape, self.act, gate_up)
            out = tape.tensor(num_routed * hidden, itemsize)
            tape.op([product], out, [product] if down_proj.requires_grad else [], [down_proj])
            weighted = tape.op([out, top_probs], tape.tensor(num_routed * hidden, itemsize), [out, top_probs])
            return tape.op(
                [weighted], tape.tensor(rows * hidden, itemsize), temporary=num_routed * hidden * itemsize
            )
