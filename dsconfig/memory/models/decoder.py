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
from dsconfig.memory.models.shape import Shape, Style, Work
from dsconfig.memory.ulysses import attend_shared

# Llama and what is built like it: Mistral, Mixtral, Qwen 2 and 3, Phi 3, Gemma 1 to 3, OLMo 2 and 3.


def build(shape: Shape, work: Work) -> Tape:
    """The modules and the pass of a model."""
    tape = work.tape()
    rows, shares, style = work.micro * work.part, work.sequence > 1, shape.style
    root, model = tape.module("", returns=False), tape.module("model", returns=False)
    embedding = tape.module(
        "model.embed_tokens", (shape.vocabulary, shape.hidden), returns=False, casts=shape.tied
    )
    layers = [Layer(tape, shape, work, index) for index in range(shape.layers)]
    norm = tape.module("model.norm", shape.hidden)
    turning = tape.module("model.rotary_emb", returns=False)
    head = head_of(tape, embedding, shape)
    tape.extra = (24 if shares else 8) * rows  # places, and labels that are shifted
    if not work.computes:
        return tape
    sizes = shape.heads, shape.key_heads, shape.head_size
    heads = Heads(*sizes, work.micro, work.part, shape.attention_dropout, apart=style.joined)
    turned = work.part * (work.micro if shares else 1) * (shape.turned or shape.head_size)
    with tape.inside(root):
        with tape.inside(model):
            x = embedded(tape, embedding, rows * shape.hidden, work, style.scaled)
            masks = Masks(tape, shape, work)
            turns = []
            for _ in range(style.turns):
                with tape.inside(turning):
                    turns.append(tape.step([], tape.tensor(2 * turned, 4 if style.turns_wide else 0, False)))
            for layer in layers:
                x = decoder_layer(tape, shape, layer, heads, work, x, masks.of(layer.number))
            x = rms_norm(tape, norm, x, rows, style.norm)
            masks.drop()
        language_loss(tape, head, head.weights, x, rows, shape.vocabulary, shape.parts, shape.caps_logits)
    tape.hold(*turns)
    return tape


# One layer of a decoder: its modules, and its pass.


class Layer:
    """The modules of one decoder layer."""

    def __init__(self, tape: Tape, shape: Shape, work: Work, number: int) -> None:
        self.number, self.style, hidden = number, shape.style, shape.hidden
        prefix = f"model.layers.{number}"
        self.whole = tape.module(prefix)
        self.attention = tape.module(f"{prefix}.self_attn", returns=False)
        self._projections(tape, shape, f"{prefix}.self_attn")
        self.mlp: Experts | Gated
        if shape.experts and number not in shape.dense:
            self.mlp = Experts(tape, shape, self.style, work, f"{prefix}.mlp")
        else:
            self.mlp = Gated(tape, shape, self.style, f"{prefix}.mlp", shape.wide)
        self.norms = {
            name: tape.module(f"{prefix}.{name}_layernorm", hidden) for name in NORMS[self.style.norms]
        }

    def _projections(self, tape: Tape, shape: Shape, prefix: str) -> None:
        hidden, size = shape.hidden, shape.head_size
        queries, keys = shape.heads * size, shape.key_heads * size

        def projection(name: str, out: int, into: int, with_bias: bool) -> Module:
            return tape.projection(f"{prefix}.{name}", out, into, *([out] if with_bias else []))

        if self.style.joined:
            self.output = projection("o_proj", hidden, queries, False)
            self.joint = projection("qkv_proj", queries + 2 * keys, hidden, False)
            return
        self.query = projection("q_proj", queries, hidden, shape.query_bias)
        self.key = projection("k_proj", keys, hidden, shape.query_bias)
        self.value = projection("v_proj", keys, hidden, shape.query_bias)
        self.output = projection("o_proj", hidden, queries, shape.output_bias)
        if self.style.head_norms:
            whole = self.style.head_norms == "whole"
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
    tape: Tape, shape: Shape, layer: Layer, heads: Heads, work: Work, x: Tensor, mask: Tensor | None
) -> Tensor:
    """One layer."""
    rows, places = heads.rows, PLACES[layer.style.norms]

    def normed(place: int, y: Tensor) -> Tensor:
        name = places[place]
        return rms_norm(tape, layer.norms[name], y, rows, layer.style.norm) if name else y

    with tape.inside(layer.whole, x), tape.segment(x, work.checkpointing):
        y = normed(0, x)
        with tape.inside(layer.attention, y):
            y = _attention(tape, shape, layer, heads, work, y, mask)
        x = add(tape, x, normed(1, y))
        y = normed(2, x)
        if isinstance(layer.mlp, Experts):
            y = layer.mlp.compute(tape, shape, work, y, rows)
        else:
            y = layer.mlp.compute(tape, y, rows, shape.hidden)
        return add(tape, x, normed(3, y))


def _attention(
    tape: Tape, shape: Shape, layer: Layer, heads: Heads, work: Work, y: Tensor, mask: Tensor | None
) -> Tensor:
    rows = heads.rows
    if layer.style.joined:
        joint = linear(tape, layer.joint, y, rows, (heads.queries + 2 * heads.keys) * heads.size)
        query, key, value = turn_joined(tape, heads, joint, shape.turned or heads.size)
    else:
        query, key, value = _separate(tape, layer, heads, y)
        query, key = turn(tape, query, key, layer.style.turns_wide)
    if work.sequence > 1:
        mixed = attend_shared(tape, work, heads, query, key, value)
    else:
        mixed = attend(tape, work.attention, heads, query, key, value, mask, shape.caps_scores)
    y = linear(tape, layer.output, mixed, rows, shape.hidden)
    if work.sequence > 1:
        tape.hold(query, key, value)
    return y


def _separate(tape: Tape, layer: Layer, heads: Heads, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values, the first two normalised where the family does that."""
    rows, style = heads.rows, layer.style
    found = []
    for name, module, count in (("q", layer.query, heads.queries), ("k", layer.key, heads.keys)):
        x = linear(tape, module, y, rows, count * heads.size)
        if style.head_norms:
            parts = rows if style.head_norms == "whole" else rows * count
            x = rms_norm(tape, layer.head_norms[name], x, parts, style.norm)
        found.append(x)
    return found[0], found[1], linear(tape, layer.value, y, rows, heads.keys * heads.size)


# What stands behind attention in a decoder's layer: a gated MLP, or experts that tokens go to.


class Gated:
    """The modules of an MLP with a gate."""

    def __init__(self, tape: Tape, shape: Shape, style: Style, prefix: str, wide: int) -> None:
        self.wide, self.joined, hidden = wide, style.joined, shape.hidden
        bias = shape.mlp_bias
        self.whole = tape.module(prefix)
        if style.joined:
            self.gate = tape.projection(f"{prefix}.gate_up_proj", 2 * wide, hidden)
        else:
            self.gate = tape.projection(f"{prefix}.gate_proj", wide, hidden, *([wide] if bias else []))
            self.up = tape.projection(f"{prefix}.up_proj", wide, hidden, *([wide] if bias else []))
        self.down = tape.projection(f"{prefix}.down_proj", hidden, wide, *([hidden] if bias else []))
        self.act = tape.module(f"{prefix}.act_fn")

    def compute(self, tape: Tape, y: Tensor, rows: int, hidden: int) -> Tensor:
        """The pass; gate and up may be halves of one tensor, which stays whole for both."""
        wide = self.wide
        with tape.inside(self.whole, y):
            gate = linear(tape, self.gate, y, rows, (1 + self.joined) * wide)
            if self.joined:
                product = gated_halves(tape, self.act, gate)
            else:
                made = activation(tape, self.act, gate)
                product = multiply(tape, made, linear(tape, self.up, y, rows, wide))
            return linear(tape, self.down, product, rows, hidden)


class Experts:
    """The modules of a block of experts."""

    def __init__(self, tape: Tape, shape: Shape, style: Style, work: Work, prefix: str) -> None:
        self.whole, self.router = tape.module(prefix), style.router
        self.shared = None
        if work.experts:
            self.grouped = grouped(tape, shape, work, prefix)
        else:
            self._local(tape, shape, style, prefix)
        if shape.shared_wide:
            name = f"{prefix}.shared_expert"
            self.shared = Gated(tape, shape, style, name, shape.shared_wide)
            self.shared_gate = tape.projection(f"{name}_gate", 1, shape.hidden)

    def _local(self, tape: Tape, shape: Shape, style: Style, prefix: str) -> None:
        self.whole.kind = style.block
        for name in ("experts", "gate") if style.experts_first else ("gate", "experts"):
            if name == "gate":
                self.gate = tape.module(f"{prefix}.gate", (shape.experts, shape.hidden))
            else:
                self._experts(tape, shape, prefix)

    def _experts(self, tape: Tape, shape: Shape, prefix: str) -> None:
        count, hidden, wide = shape.experts, shape.hidden, shape.expert_wide
        self.experts = tape.module(
            f"{prefix}.experts", (count, 2 * wide, hidden), (count, hidden, wide), casts=True
        )
        for weight in self.experts.weights:
            weight.linear = weight.casts = False  # autocast knows no `grouped_mm`
        self.act = tape.module(f"{prefix}.experts.act_fn")

    def compute(self, tape: Tape, shape: Shape, work: Work, y: Tensor, rows: int) -> Tensor:
        """The pass, with that of the expert for all tokens where there is one."""
        with tape.inside(self.whole, y):
            common = None
            if self.shared and not work.experts:
                common = self.shared.compute(tape, y, rows, shape.hidden)
            if work.experts:
                out = dispatch(tape, shape, work, self.grouped, y, rows)
            else:
                out = self._grouped(tape, shape, y, rows)
            if not self.shared:
                return out
            if common is None:  # AutoEP computes it last
                common = self.shared.compute(tape, y, rows, shape.hidden)
            part = linear(tape, self.shared_gate, y, rows, 1)
            weight = tape.tensor(rows, part.width)
            tape.step([part], weight, [weight])
            weighed = tape.tensor(common.elements, common.width)
            tape.step([weight, common], weighed, [weight, common])
            return add(tape, out, weighed)

    def _route(self, tape: Tape, shape: Shape, y: Tensor, rows: int) -> Tensor:
        many = rows * shape.chosen
        with tape.inside(self.gate):
            chooser = self.gate.weights
            scores = tape.step([y], tape.tensor(rows * shape.experts), kept(tape, y, chooser), chooser)
            odds = tape.tensor(rows * shape.experts, 4)
            tape.step([cast(tape, scores, 4)], odds, [odds])
            best = tape.tensor(many, 4)
            tape.step([odds], best, [best])
            return best if self.router == "wide" else cast(tape, best, scores.width)

    def _grouped(self, tape: Tape, shape: Shape, y: Tensor, rows: int) -> Tensor:
        """`grouped_mm` over tokens sorted by expert; each token is there once for each expert it goes to."""
        many, hidden, wide = rows * shape.chosen, shape.hidden, shape.expert_wide
        best = self._route(tape, shape, y, rows)
        width = tape.width
        first, second = self.experts.weights
        with tape.inside(self.experts):
            sent = tape.step([y], tape.tensor(many * hidden, width))
            both = tape.tensor(2 * many * wide, width)
            tape.step([sent], both, [sent] if first.trains else [], [first])
            product = gated_halves(tape, self.act, both)
            out = tape.tensor(many * hidden, width)
            tape.step([product], out, [product] if second.trains else [], [second])
            weighed = tape.step([out, best], tape.tensor(many * hidden, width), [out, best])
            return tape.step([weighed], tape.tensor(rows * hidden, width), temporary=many * hidden * width)
