"""One layer of a decoder: its modules, and its pass."""

from __future__ import annotations

from dsconfig.memory.attention import Heads, attend, turn, turn_joined
from dsconfig.memory.graph import Module, Tape, Tensor
from dsconfig.memory.layers import add, linear, rms_norm
from dsconfig.memory.models.mlp import Experts, Gated
from dsconfig.memory.models.shape import Shape, Work
from dsconfig.memory.ulysses import attend_shared


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
