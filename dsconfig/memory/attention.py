"""Attention: one fused operation, or the products and the softmax one by one."""

from __future__ import annotations

from typing import NamedTuple

from dsconfig.memory.graph import Tape, Tensor
from dsconfig.memory.layers import cast, dropout, rotary


class Heads(NamedTuple):
    """Query heads, key and value heads, elements of each; batch and length of a sequence."""

    queries: int
    keys: int
    size: int
    batch: int
    length: int
    dropout: float = 0.0
    """The rate at which attention step by step leaves something out."""
    bare: bool = False
    """Whether attention step by step has no mask (BERT)."""
    upcast: bool = True
    """Whether its softmax is in fp32, whatever the scores are; of BERT's and GPT-2's only under autocast."""
    apart: bool = False
    """Whether queries lie head by head, as `torch.cat` leaves them: what comes of them is copied."""

    @property
    def rows(self) -> int:
        """Tokens."""
        return self.batch * self.length

    @property
    def elements(self) -> int:
        """Those of all queries."""
        return self.rows * self.queries * self.size


def attend(
    tape: Tape,
    kind: str,
    heads: Heads,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    capped: bool = False,
) -> Tensor:
    """The output of attention, of these queries, keys and values; `capped`: its scores go through a tanh."""
    width = 2 if tape.autocast else tape.width
    if kind == "eager":
        return _eager(tape, heads, query, key, value, width, capped)
    more: list[Tensor] = []
    if mask is not None:  # it is there as numbers too, and keys and values as often as queries
        if heads.keys > 1:  # one alone is only seen as often
            key, value = _repeated(tape, heads, key), _repeated(tape, heads, value)
        more = [tape.step([mask], tape.tensor(heads.batch * heads.length**2, width, needs=False))]
    query, key, value = (cast(tape, x, width) for x in (query, key, value))
    rows = tape.tensor(heads.rows * heads.queries, 4, needs=False)
    tape.step([], rows)
    made = tape.tensor(heads.elements, width)
    tape.step([query, key, value, rows, *more], made, [query, key, value, rows, made, *more])
    if heads.apart:
        made = tape.step([made], tape.tensor(made.elements, width))
    return made


def _repeated(tape: Tape, heads: Heads, x: Tensor) -> Tensor:
    """`repeat_kv`: heads of keys or values that many queries share, once for each."""
    if heads.keys == heads.queries:
        return x
    return tape.step([x], tape.tensor(heads.elements, x.width))


def turn(tape: Tape, query: Tensor, key: Tensor, wide: bool = False) -> tuple[Tensor, Tensor]:
    """Queries and keys with their positions; cos and sin have the type of the residual stream, or fp32."""
    if not wide:
        return rotary(tape, query, tape.width), rotary(tape, key, tape.width)
    turned = rotary(tape, query, 4), rotary(tape, key, 4)
    return cast(tape, turned[0], query.width), cast(tape, turned[1], key.width)


def turn_joined(tape: Tape, heads: Heads, joint: Tensor, turned: int) -> tuple[Tensor, Tensor, Tensor]:
    """The same of slices of one tensor: a part of each head is turned, the whole put together anew.

    The values stay a slice of it.
    """
    width, found = tape.width, []
    for count in (heads.queries, heads.keys):
        own = heads.rows * count * turned
        straight = tape.step([], tape.tensor(own, width))
        half = tape.tensor(own, joint.width)
        tape.step([joint], half, temporary=half.bytes // 2, back=half.bytes)
        other = tape.step([half], tape.tensor(own, width))
        part = tape.step([straight, other], tape.tensor(own, width), shares=True)
        found.append(tape.step([part], tape.tensor(heads.rows * count * heads.size, width), shares=True))
    return found[0], found[1], joint


def _eager(
    tape: Tape, heads: Heads, query: Tensor, key: Tensor, value: Tensor, width: int, capped: bool
) -> Tensor:
    """`eager_attention_forward`: a square of the length for each head, in fp32 and once more."""
    count = heads.batch * heads.queries * heads.length**2
    key, value = _repeated(tape, heads, key), _repeated(tape, heads, value)
    query, key, value = (cast(tape, x, width) for x in (query, key, value))
    scores = tape.step([query, key], tape.tensor(count, width), [query, key])
    scaled = tape.step([scores], tape.tensor(count, width))
    if capped:
        curve = tape.tensor(count, width)
        tape.step([tape.step([scaled], tape.tensor(count, width))], curve, [curve])
        scaled = tape.step([curve], tape.tensor(count, width))
    masked = scaled if heads.bare else tape.step([scaled], tape.tensor(count, width), shares=True)
    full = tape.tensor(count, 4 if heads.upcast or tape.autocast else width)
    copy = 4 * count if width != full.width else 0  # ATen's `softmax` casts first
    tape.step([masked], full, [full], temporary=copy)
    narrow = dropout(tape, cast(tape, full, width), heads.dropout)
    mixed = tape.step([narrow, value], tape.tensor(query.elements, width), [narrow, value])
    return tape.step([mixed], tape.tensor(query.elements, width))
