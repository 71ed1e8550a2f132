"""Llama and similar decoders: Mistral, Mixtral, Qwen 2 and 3, Phi 3, Gemma 1 to 3, OLMo 2 and 3."""

from __future__ import annotations

from dsconfig.memory.autoep import autoep_block, dispatch
from dsconfig.memory.graph import Module, Tape, Tensor
from dsconfig.memory.layers import (
    AttentionMasks,
    Heads,
    activation,
    add,
    attention,
    cast,
    embed,
    gated_activation,
    language_loss,
    linear,
    lm_head,
    multiply,
    rms_norm,
    rotate,
    rotate_fused,
    saved_inputs,
)
from dsconfig.memory.models.architecture import Architecture, DecoderVariant, MicroBatch
from dsconfig.memory.ulysses import ulysses_attention

# Llama and what is built like it: Mistral, Mixtral, Qwen 2 and 3, Phi 3, Gemma 1 to 3, OLMo 2 and 3.


def build(arch: Architecture, batch: MicroBatch) -> Tape:
    """The modules and the pass of a model."""
    tape = batch.new_tape()
    rows, shares, variant = (
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
    norm = tape.module("model.norm", arch.hidden_size)
    turning = tape.module("model.rotary_emb", inputs_require_grad=False)
    head = lm_head(tape, embedding, arch)
    tape.input_bytes = (24 if shares else 8) * rows  # places, and labels that are shifted
    if not batch.records_pass:
        return tape
    sizes = arch.num_heads, arch.num_kv_heads, arch.head_dim
    heads = Heads(
        *sizes,
        batch.micro_batch_size,
        batch.local_sequence_length,
        arch.attention_dropout,
        is_concatenated=variant.fused_projections,
    )
    turned = (
        batch.local_sequence_length
        * (batch.micro_batch_size if shares else 1)
        * (arch.rotary_dim or arch.head_dim)
    )
    with tape.scope(root):
        with tape.scope(model):
            x = embed(tape, embedding, rows * arch.hidden_size, batch, variant.scales_embeddings)
            masks = AttentionMasks(tape, arch, batch)
            turns = []
            for _ in range(variant.rotary_tables):
                with tape.scope(turning):
                    turns.append(
                        tape.op([], tape.tensor(2 * turned, 4 if variant.rotary_in_fp32 else 0, False))
                    )
            for layer in layers:
                x = record_layer(tape, arch, layer, heads, batch, x, masks.for_layer(layer.number))
            x = rms_norm(tape, norm, x, rows, variant.rms_norm)
            masks.release()
        language_loss(
            tape, head, head.weights, x, rows, arch.vocab_size, arch.lm_head_shards, arch.caps_logits
        )
    tape.keep_alive(*turns)
    return tape


# One layer of a decoder: its modules, and its pass.


class DecoderLayer:
    """The modules of one decoder layer."""

    def __init__(self, tape: Tape, arch: Architecture, batch: MicroBatch, number: int) -> None:
        self.number, self.style, hidden = number, arch.variant, arch.hidden_size
        prefix = f"model.layers.{number}"
        self.module = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attn", inputs_require_grad=False)
        self._projections(tape, arch, f"{prefix}.self_attn")
        self.mlp: MoEBlock | GatedMLP
        if arch.num_experts and number not in arch.mlp_only_layers:
            self.mlp = MoEBlock(tape, arch, self.style, batch, f"{prefix}.mlp")
        else:
            self.mlp = GatedMLP(tape, arch, self.style, f"{prefix}.mlp", arch.intermediate_size)
        self.norms = {
            name: tape.module(f"{prefix}.{name}_layernorm", hidden)
            for name in NORM_NAMES[self.style.norm_position]
        }

    def _projections(self, tape: Tape, arch: Architecture, prefix: str) -> None:
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
            whole = self.style.qk_norm == "whole"
            sizes = {"q": queries, "k": keys} if whole else dict.fromkeys("qk", size)
            self.head_norms = {
                name: tape.module(f"{prefix}.{name}_norm", count) for name, count in sizes.items()
            }


NORM_NAMES = {
    "before": ("input", "post_attention"),
    "after": ("post_attention", "post_feedforward"),
    "around": ("input", "post_attention", "pre_feedforward", "post_feedforward"),
}
"""Names of a layer's norms, in the order of its parameters."""
NORM_ORDER = {
    "before": ("input", "", "post_attention", ""),
    "after": ("", "post_attention", "", "post_feedforward"),
    "around": NORM_NAMES["around"],
}
"""The norm before attention, after it, before the MLP and after it."""


def record_layer(
    tape: Tape,
    arch: Architecture,
    layer: DecoderLayer,
    heads: Heads,
    batch: MicroBatch,
    x: Tensor,
    mask: Tensor | None,
) -> Tensor:
    """One layer."""
    rows, places = heads.num_tokens, NORM_ORDER[layer.style.norm_position]

    def normed(place: int, y: Tensor) -> Tensor:
        name = places[place]
        return rms_norm(tape, layer.norms[name], y, rows, layer.style.rms_norm) if name else y

    with tape.scope(layer.module, x), tape.checkpoint(x, batch.gradient_checkpointing):
        y = normed(0, x)
        with tape.scope(layer.attention, y):
            y = _attention(tape, arch, layer, heads, batch, y, mask)
        x = add(tape, x, normed(1, y))
        y = normed(2, x)
        if isinstance(layer.mlp, MoEBlock):
            y = layer.mlp.compute(tape, arch, batch, y, rows)
        else:
            y = layer.mlp.compute(tape, y, rows, arch.hidden_size)
        return add(tape, x, normed(3, y))


def _attention(
    tape: Tape,
    arch: Architecture,
    layer: DecoderLayer,
    heads: Heads,
    batch: MicroBatch,
    y: Tensor,
    mask: Tensor | None,
) -> Tensor:
    rows = heads.num_tokens
    if layer.style.fused_projections:
        joint = linear(tape, layer.qkv, y, rows, (heads.num_heads + 2 * heads.num_kv_heads) * heads.head_dim)
        query, key, value = rotate_fused(tape, heads, joint, arch.rotary_dim or heads.head_dim)
    else:
        query, key, value = _separate(tape, layer, heads, y)
        query, key = rotate(tape, query, key, layer.style.rotary_in_fp32)
    if batch.sp_size > 1:
        mixed = ulysses_attention(tape, batch, heads, query, key, value)
    else:
        mixed = attention(
            tape, batch.attn_implementation, heads, query, key, value, mask, arch.caps_attn_scores
        )
    y = linear(tape, layer.output, mixed, rows, arch.hidden_size)
    if batch.sp_size > 1:
        tape.keep_alive(query, key, value)
    return y


def _separate(tape: Tape, layer: DecoderLayer, heads: Heads, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, the first two normalised where the family does that."""
    rows, variant = heads.num_tokens, layer.style
    found = []
    for name, module, count in (("q", layer.query, heads.num_heads), ("k", layer.key, heads.num_kv_heads)):
        x = linear(tape, module, y, rows, count * heads.head_dim)
        if variant.qk_norm:
            parts = rows if variant.qk_norm == "whole" else rows * count
            x = rms_norm(tape, layer.head_norms[name], x, parts, variant.rms_norm)
        found.append(x)
    return found[0], found[1], linear(tape, layer.value, y, rows, heads.num_kv_heads * heads.head_dim)


# What stands behind attention in a decoder's layer: a gated MLP, or experts that tokens go to.


class GatedMLP:
    """The modules of an MLP with a gate."""

    def __init__(
        self, tape: Tape, arch: Architecture, variant: DecoderVariant, prefix: str, wide: int
    ) -> None:
        self.intermediate_size, self.is_fused, hidden = wide, variant.fused_projections, arch.hidden_size
        bias = arch.mlp_bias
        self.module = tape.module(prefix)
        if variant.fused_projections:
            self.gate = tape.projection(f"{prefix}.gate_up_proj", 2 * wide, hidden)
        else:
            self.gate = tape.projection(f"{prefix}.gate_proj", wide, hidden, *([wide] if bias else []))
            self.up = tape.projection(f"{prefix}.up_proj", wide, hidden, *([wide] if bias else []))
        self.down = tape.projection(f"{prefix}.down_proj", hidden, wide, *([hidden] if bias else []))
        self.act = tape.module(f"{prefix}.act_fn")

    def compute(self, tape: Tape, y: Tensor, rows: int, hidden: int) -> Tensor:
        """The pass; gate and up may be halves of one tensor, which stays whole for both."""
        wide = self.intermediate_size
        with tape.scope(self.module, y):
            gate = linear(tape, self.gate, y, rows, (1 + self.is_fused) * wide)
            if self.is_fused:
                product = gated_activation(tape, self.act, gate)
            else:
                made = activation(tape, self.act, gate)
                product = multiply(tape, made, linear(tape, self.up, y, rows, wide))
            return linear(tape, self.down, product, rows, hidden)


class MoEBlock:
    """The modules of a block of experts."""

    def __init__(
        self, tape: Tape, arch: Architecture, variant: DecoderVariant, batch: MicroBatch, prefix: str
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

    def _build_local(self, tape: Tape, arch: Architecture, variant: DecoderVariant, prefix: str) -> None:
        self.module.class_name = variant.moe_block
        for name in ("experts", "gate") if variant.experts_before_gate else ("gate", "experts"):
            if name == "gate":
                self.gate = tape.module(f"{prefix}.gate", (arch.num_experts, arch.hidden_size))
            else:
                self._build_experts(tape, arch, prefix)

    def _build_experts(self, tape: Tape, arch: Architecture, prefix: str) -> None:
        count, hidden, wide = arch.num_experts, arch.hidden_size, arch.moe_intermediate_size
        self.experts = tape.module(
            f"{prefix}.experts", (count, 2 * wide, hidden), (count, hidden, wide), casts=True
        )
        for weight in self.experts.weights:
            weight.is_linear = weight.is_autocast = False  # autocast knows no `grouped_mm`
        self.act = tape.module(f"{prefix}.experts.act_fn")

    def compute(self, tape: Tape, arch: Architecture, batch: MicroBatch, y: Tensor, rows: int) -> Tensor:
        """The pass, with that of the expert for all tokens where there is one."""
        with tape.scope(self.module, y):
            common = None
            if self.shared_expert and not batch.ep_size:
                common = self.shared_expert.compute(tape, y, rows, arch.hidden_size)
            if batch.ep_size:
                out = dispatch(tape, arch, batch, self.autoep, y, rows)
            else:
                out = self._compute_experts(tape, arch, y, rows)
            if not self.shared_expert:
                return out
            if common is None:  # AutoEP computes it last
                common = self.shared_expert.compute(tape, y, rows, arch.hidden_size)
            part = linear(tape, self.shared_expert_gate, y, rows, 1)
            weight = tape.tensor(rows, part.itemsize)
            tape.op([part], weight, [weight])
            weighed = tape.tensor(common.numel, common.itemsize)
            tape.op([weight, common], weighed, [weight, common])
            return add(tape, out, weighed)

    def _route(self, tape: Tape, arch: Architecture, y: Tensor, rows: int) -> Tensor:
        many = rows * arch.num_experts_per_tok
        with tape.scope(self.gate):
            chooser = self.gate.weights
            scores = tape.op(
                [y], tape.tensor(rows * arch.num_experts), saved_inputs(tape, y, chooser), chooser
            )
            odds = tape.tensor(rows * arch.num_experts, 4)
            tape.op([cast(tape, scores, 4)], odds, [odds])
            best = tape.tensor(many, 4)
            tape.op([odds], best, [best])
            return best if self.router_dtype == "wide" else cast(tape, best, scores.itemsize)

    def _compute_experts(self, tape: Tape, arch: Architecture, y: Tensor, rows: int) -> Tensor:
        """`grouped_mm` over tokens sorted by expert; each token is there once for each expert it goes to."""
        many, hidden, wide = rows * arch.num_experts_per_tok, arch.hidden_size, arch.moe_intermediate_size
        best = self._route(tape, arch, y, rows)
        itemsize = tape.itemsize
        first, second = self.experts.weights
        with tape.scope(self.experts):
            sent = tape.op([y], tape.tensor(many * hidden, itemsize))
            both = tape.tensor(2 * many * wide, itemsize)
            tape.op([sent], both, [sent] if first.requires_grad else [], [first])
            product = gated_activation(tape, self.act, both)
            out = tape.tensor(many * hidden, itemsize)
            tape.op([product], out, [product] if second.requires_grad else [], [second])
            weighed = tape.op([out, best], tape.tensor(many * hidden, itemsize), [out, best])
            return tape.op(
                [weighed], tape.tensor(rows * hidden, itemsize), temporary=many * hidden * itemsize
            )
