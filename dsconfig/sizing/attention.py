"""Attention: one fused operation, or the products and the softmax one by one."""

from __future__ import annotations

from typing import NamedTuple

from dsconfig.sizing.layers import cast, rotary
from dsconfig.sizing.tape import Tape, Tensor


class Heads(NamedTuple):
    """Query heads, key and value heads, elements of each; batch and length of a sequence."""

    queries: int
    keys: int
    size: int
    batch: int
    length: int

    @property
    def rows(self) -> int:
        """Tokens."""
        return self.batch * self.length


def attend(tape: Tape, kind: str, heads: Heads, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The output of attention, of these queries, keys and values."""
    width = 2 if tape.autocast else tape.width
    if kind == "eager":
        return _eager(tape, heads, query, key, value, width)
    query, key, value = (cast(tape, x, width) for x in (query, key, value))
    rows = tape.tensor(heads.rows * heads.queries, 4, needs=False)
    tape.step([], rows)
    made = tape.tensor(query.elements, width)
    return tape.step([query, key, value, rows], made, [query, key, value, rows, made])


def turn(tape: Tape, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Queries and keys with their positions; cos and sin have the type of the residual stream."""
    return rotary(tape, query, tape.width), rotary(tape, key, tape.width)


def _eager(tape: Tape, heads: Heads, query: Tensor, key: Tensor, value: Tensor, width: int) -> Tensor:
    """`eager_attention_forward`: a square of the length for each head, in fp32 and once more."""
    count = heads.batch * heads.queries * heads.length**2
    if heads.keys != heads.queries:
        wide = heads.rows * heads.queries * heads.size
        key = tape.step([key], tape.tensor(wide, key.width))
        value = tape.step([value], tape.tensor(wide, value.width))
    query, key, value = (cast(tape, x, width) for x in (query, key, value))
    scores = tape.step([query, key], tape.tensor(count, width), [query, key])
    scaled = tape.step([scores], tape.tensor(count, width))
    masked = tape.step([scaled], tape.tensor(count, width), shares=True)
    full = tape.tensor(count, 4)
    copy = 4 * count if width != 4 else 0  # ATen's `softmax` casts first
    tape.step([masked], full, [full], temporary=copy)
    narrow = cast(tape, full, width)
    mixed = tape.step([narrow, value], tape.tensor(query.elements, width), [narrow, value])
    return tape.step([mixed], tape.tensor(query.elements, width))
