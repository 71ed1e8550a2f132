"""Llama and similar decoders: Mistral, Mixtral, Qwen 2 and 3, Phi 3, Gemma 1 to 3, OLMo 2 and 3."""

from __future__ import annotations

from dsconfig.memory.autoep import dispatch, grouped
from dsconfig.memory.graph import Module, Tape, Tensor
from dsconfig.memory.layers import (
    Heads,
    Masks,
    activation,
    add,
    attend,
    cast,
    embedded,
    gated_halves,
    head_of,
    kept,
    language_loss,
    linear,
    multiply,
    rms_norm,
    turn,
    turn_joined,
)
from dsconfig.memory.models.shape import Architecture, DecoderVariant, MicroBatch
from dsconfig.memory.ulysses import attend_shared

# Llama and what is built like it: Mistral, Mixtral, Qwen 2 and 3, Phi 3, Gemma 1 to 3, OLMo 2 and 3.


def build(shape: Architecture, work: MicroBatch) -> Tape:
    """The modules and the pass of a model."""
    tape = work.new_tape()
    rows, shares, style = work.micro_batch_size * work.local_sequence_length, work.sp_size > 1, shape.variant
    root, model = tape.module("", inputs_require_grad=False), tape.module("model", inputs_require_grad=False)
    embedding = tape.module(
        "model.embed_tokens",
        (shape.vocab_size, shape.hidden_size),
        inputs_require_grad=False,
        casts=shape.tie_word_embeddings,
    )
    layers = [Layer(tape, shape, work, index) for index in range(shape.num_layers)]
    norm = tape.module("model.norm", shape.hidden_size)
    turning = tape.module("model.rotary_emb", inputs_require_grad=False)
    head = head_of(tape, embedding, shape)
    tape.input_bytes = (24 if shares else 8) * rows  # places, and labels that are shifted
    if not work.records_pass:
        return tape
    sizes = shape.num_heads, shape.num_kv_heads, shape.head_dim
    heads = Heads(
        *sizes,
        work.micro_batch_size,
        work.local_sequence_length,
        shape.attention_dropout,
        apart=style.fused_projections,
    )
    turned = (
        work.local_sequence_length
        * (work.micro_batch_size if shares else 1)
        * (shape.rotary_dim or shape.head_dim)
    )
    with tape.scope(root):
        with tape.scope(model):
            x = embedded(tape, embedding, rows * shape.hidden_size, work, style.scales_embeddings)
            masks = Masks(tape, shape, work)
            turns = []
            for _ in range(style.rotary_tables):
                with tape.scope(turning):
                    turns.append(
                        tape.op([], tape.tensor(2 * turned, 4 if style.rotary_in_fp32 else 0, False))
                    )
            for layer in layers:
                x = decoder_layer(tape, shape, layer, heads, work, x, masks.of(layer.number))
            x = rms_norm(tape, norm, x, rows, style.rms_norm)
            masks.drop()
        language_loss(
            tape, head, head.weights, x, rows, shape.vocab_size, shape.lm_head_shards, shape.caps_logits
        )
    tape.keep_alive(*turns)
    return tape


# One layer of a decoder: its modules, and its pass.


class Layer:
    """The modules of one decoder layer."""

    def __init__(self, tape: Tape, shape: Architecture, work: MicroBatch, number: int) -> None:
        self.number, self.style, hidden = number, shape.variant, shape.hidden_size
        prefix = f"model.layers.{number}"
        self.whole = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attn", inputs_require_grad=False)
        self._projections(tape, shape, f"{prefix}.self_attn")
        self.mlp: Experts | Gated
        if shape.num_experts and number not in shape.mlp_only_layers:
            self.mlp = Experts(tape, shape, self.style, work, f"{prefix}.mlp")
        else:
            self.mlp = Gated(tape, shape, self.style, f"{prefix}.mlp", shape.intermediate_size)
        self.norms = {
            name: tape.module(f"{prefix}.{name}_layernorm", hidden)
            for name in NORMS[self.style.norm_position]
        }

    def _projections(self, tape: Tape, shape: Architecture, prefix: str) -> None:
        hidden, size = shape.hidden_size, shape.head_dim
        queries, keys = shape.num_heads * size, shape.num_kv_heads * size

        def projection(name: str, out: int, into: int, with_bias: bool) -> Module:
            return tape.projection(f"{prefix}.{name}", out, into, *([out] if with_bias else []))

        if self.style.fused_projections:
            self.output = projection("o_proj", hidden, queries, False)
            self.joint = projection("qkv_proj", queries + 2 * keys, hidden, False)
            return
        self.query = projection("q_proj", queries, hidden, shape.qkv_bias)
        self.key = projection("k_proj", keys, hidden, shape.qkv_bias)
        self.value = projection("v_proj", keys, hidden, shape.qkv_bias)
        self.output = projection("o_proj", hidden, queries, shape.o_proj_bias)
        if self.style.qk_norm:
            whole = self.style.qk_norm == "whole"
            sizes = {"q": queries, "k": keys} if whole else dict.fromkeys("qk", size)
            self.head_norms = {
                name: tape.module(f"{prefix}.{name}_norm", count) for name, count in sizes.items()
            }


NORMS = {
    "before": ("input", "post_attention"),
    "after": ("post_attention", "post_feedforward"),
    "around": ("input", "post_attention", "pre_feedforward", "post_feedforward"),
}
"""Names of a layer's norms, in the order of its parameters."""
PLACES = {
    "before": ("input", "", "post_attention", ""),
    "after": ("", "post_attention", "", "post_feedforward"),
    "around": NORMS["around"],
}
"""The norm before attention, after it, before the MLP and after it."""


def decoder_layer(
    tape: Tape,
    shape: Architecture,
    layer: Layer,
    heads: Heads,
    work: MicroBatch,
    x: Tensor,
    mask: Tensor | None,
) -> Tensor:
    """One layer."""
    rows, places = heads.rows, PLACES[layer.style.norm_position]

    def normed(place: int, y: Tensor) -> Tensor:
        name = places[place]
        return rms_norm(tape, layer.norms[name], y, rows, layer.style.rms_norm) if name else y

    with tape.scope(layer.whole, x), tape.checkpoint(x, work.gradient_checkpointing):
        y = normed(0, x)
        with tape.scope(layer.attention, y):
            y = _attention(tape, shape, layer, heads, work, y, mask)
        x = add(tape, x, normed(1, y))
        y = normed(2, x)
        if isinstance(layer.mlp, Experts):
            y = layer.mlp.compute(tape, shape, work, y, rows)
        else:
            y = layer.mlp.compute(tape, y, rows, shape.hidden_size)
        return add(tape, x, normed(3, y))


def _attention(
    tape: Tape,
    shape: Architecture,
    layer: Layer,
    heads: Heads,
    work: MicroBatch,
    y: Tensor,
    mask: Tensor | None,
) -> Tensor:
    rows = heads.rows
    if layer.style.fused_projections:
        joint = linear(tape, layer.joint, y, rows, (heads.queries + 2 * heads.keys) * heads.size)
        query, key, value = turn_joined(tape, heads, joint, shape.rotary_dim or heads.size)
    else:
        query, key, value = _separate(tape, layer, heads, y)
        query, key = turn(tape, query, key, layer.style.rotary_in_fp32)
    if work.sp_size > 1:
        mixed = attend_shared(tape, work, heads, query, key, value)
    else:
        mixed = attend(tape, work.attn_implementation, heads, query, key, value, mask, shape.caps_attn_scores)
    y = linear(tape, layer.output, mixed, rows, shape.hidden_size)
    if work.sp_size > 1:
        tape.keep_alive(query, key, value)
    return y


def _separate(tape: Tape, layer: Layer, heads: Heads, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, the first two normalised where the family does that."""
    rows, style = heads.rows, layer.style
    found = []
    for name, module, count in (("q", layer.query, heads.queries), ("k", layer.key, heads.keys)):
        x = linear(tape, module, y, rows, count * heads.size)
        if style.qk_norm:
            parts = rows if style.qk_norm == "whole" else rows * count
            x = rms_norm(tape, layer.head_norms[name], x, parts, style.rms_norm)
        found.append(x)
    return found[0], found[1], linear(tape, layer.value, y, rows, heads.keys * heads.size)


# What stands behind attention in a decoder's layer: a gated MLP, or experts that tokens go to.


class Gated:
    """The modules of an MLP with a gate."""

    def __init__(
        self, tape: Tape, shape: Architecture, style: DecoderVariant, prefix: str, wide: int
    ) -> None:
        self.wide, self.joined, hidden = wide, style.fused_projections, shape.hidden_size
        bias = shape.mlp_bias
        self.whole = tape.module(prefix)
        if style.fused_projections:
            self.gate = tape.projection(f"{prefix}.gate_up_proj", 2 * wide, hidden)
        else:
            self.gate = tape.projection(f"{prefix}.gate_proj", wide, hidden, *([wide] if bias else []))
            self.up = tape.projection(f"{prefix}.up_proj", wide, hidden, *([wide] if bias else []))
        self.down = tape.projection(f"{prefix}.down_proj", hidden, wide, *([hidden] if bias else []))
        self.act = tape.module(f"{prefix}.act_fn")

    def compute(self, tape: Tape, y: Tensor, rows: int, hidden: int) -> Tensor:
        """The pass; gate and up may be halves of one tensor, which stays whole for both."""
        wide = self.wide
        with tape.scope(self.whole, y):
            gate = linear(tape, self.gate, y, rows, (1 + self.joined) * wide)
            if self.joined:
                product = gated_halves(tape, self.act, gate)
            else:
                made = activation(tape, self.act, gate)
                product = multiply(tape, made, linear(tape, self.up, y, rows, wide))
            return linear(tape, self.down, product, rows, hidden)


class Experts:
    """The modules of a block of experts."""

    def __init__(
        self, tape: Tape, shape: Architecture, style: DecoderVariant, work: MicroBatch, prefix: str
    ) -> None:
        self.whole, self.router = tape.module(prefix), style.router_dtype
        self.shared = None
        if work.ep_size:
            self.grouped = grouped(tape, shape, work, prefix)
        else:
            self._local(tape, shape, style, prefix)
        if shape.shared_expert_intermediate_size:
            name = f"{prefix}.shared_expert"
            self.shared = Gated(tape, shape, style, name, shape.shared_expert_intermediate_size)
            self.shared_gate = tape.projection(f"{name}_gate", 1, shape.hidden_size)

    def _local(self, tape: Tape, shape: Architecture, style: DecoderVariant, prefix: str) -> None:
        self.whole.class_name = style.moe_block
        for name in ("experts", "gate") if style.experts_before_gate else ("gate", "experts"):
            if name == "gate":
                self.gate = tape.module(f"{prefix}.gate", (shape.num_experts, shape.hidden_size))
            else:
                self._experts(tape, shape, prefix)

    def _experts(self, tape: Tape, shape: Architecture, prefix: str) -> None:
        count, hidden, wide = shape.num_experts, shape.hidden_size, shape.moe_intermediate_size
        self.experts = tape.module(
            f"{prefix}.experts", (count, 2 * wide, hidden), (count, hidden, wide), casts=True
        )
        for weight in self.experts.weights:
            weight.is_linear = weight.is_autocast = False  # autocast knows no `grouped_mm`
        self.act = tape.module(f"{prefix}.experts.act_fn")

    def compute(self, tape: Tape, shape: Architecture, work: MicroBatch, y: Tensor, rows: int) -> Tensor:
        """The pass, with that of the expert for all tokens where there is one."""
        with tape.scope(self.whole, y):
            common = None
            if self.shared and not work.ep_size:
                common = self.shared.compute(tape, y, rows, shape.hidden_size)
            if work.ep_size:
                out = dispatch(tape, shape, work, self.grouped, y, rows)
            else:
                out = self._grouped(tape, shape, y, rows)
            if not self.shared:
                return out
            if common is None:  # AutoEP computes it last
                common = self.shared.compute(tape, y, rows, shape.hidden_size)
            part = linear(tape, self.shared_gate, y, rows, 1)
            weight = tape.tensor(rows, part.itemsize)
            tape.op([part], weight, [weight])
            weighed = tape.tensor(common.numel, common.itemsize)
            tape.op([weight, common], weighed, [weight, common])
            return add(tape, out, weighed)

    def _route(self, tape: Tape, shape: Architecture, y: Tensor, rows: int) -> Tensor:
        many = rows * shape.num_experts_per_tok
        with tape.scope(self.gate):
            chooser = self.gate.weights
            scores = tape.op([y], tape.tensor(rows * shape.num_experts), kept(tape, y, chooser), chooser)
            odds = tape.tensor(rows * shape.num_experts, 4)
            tape.op([cast(tape, scores, 4)], odds, [odds])
            best = tape.tensor(many, 4)
            tape.op([odds], best, [best])
            return best if self.router == "wide" else cast(tape, best, scores.itemsize)

    def _grouped(self, tape: Tape, shape: Architecture, y: Tensor, rows: int) -> Tensor:
        """`grouped_mm` over tokens sorted by expert; each token is there once for each expert it goes to."""
        many, hidden, wide = rows * shape.num_experts_per_tok, shape.hidden_size, shape.moe_intermediate_size
        best = self._route(tape, shape, y, rows)
        itemsize = tape.itemsize
        first, second = self.experts.weights
        with tape.scope(self.experts):
            sent = tape.op([y], tape.tensor(many * hidden, itemsize))
            both = tape.tensor(2 * many * wide, itemsize)
            tape.op([sent], both, [sent] if first.requires_grad else [], [first])
            product = gated_halves(tape, self.act, both)
            out = tape.tensor(many * hidden, itemsize)
            tape.op([product], out, [product] if second.requires_grad else [], [second])
            weighed = tape.op([out, best], tape.tensor(many * hidden, itemsize), [out, best])
            return tape.op(
                [weighed], tape.tensor(rows * hidden, itemsize), temporary=many * hidden * itemsize
            )
