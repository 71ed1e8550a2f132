"""AutoEP: ranks share the experts of a mixture, and send them tokens (DeepSpeed's `auto_ep_layer.py`).

How many tokens reach a rank is known in training alone: as many as it sends, times what is asked for.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.graph import Exchange, Module, Tape, Tensor
from dsconfig.memory.layers import cast, kept
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.memory.models.shape import Shape, Work

KEY = "expert_parallel.enabled"
DISPATCHED = "dispatched tokens"
SECTION = "expert_parallel."
SINCE = 19008
SHARED = {"mixtral": "mixtral", "qwen3_moe": "qwen3_moe", "qwen2_moe": "qwen3_moe"}
"""Families whose engines were measured with it, and the preset of each."""
KNOWN = {
    "comm_backend": ("comm",),
    "combine_impl": ("auto", "weighted_sum"),
    "score_apply": ("auto", "post"),
    "gate_up_impl": ("separate",),
    "use_grouped_mm": (True,),
    "preset_model": (None, *dict.fromkeys(SHARED.values())),
}
"""Values of keys of the section with which engines were measured."""
ALIGNED = 8
"""Rows of an expert are filled up to a multiple (`TOKEN_GROUP_ALIGN_SIZE_M`)."""


def refuse(shape: Shape, work: Work) -> None:
    """Refuse what AutoEP does not do, and what was not measured.

    Raises:
        NotModelledError: it is one of these.
    """
    ranks = work.experts
    if not shape.experts:
        raise NotModelledError(f"`{KEY}` needs a model with experts: Mixtral's and Qwen's are modelled")
    if shape.name not in SHARED:
        raise NotModelledError(f"`{KEY}` is not modelled for {shape.name}: no engine was measured with it")
    if shape.experts % ranks:
        raise NotModelledError(f"AutoEP refuses {shape.experts} experts for {ranks} ranks")
    for name, there in (("adapters", work.adapter), ("sequence parallelism", work.sequence > 1)):
        if there:
            raise NotModelledError(f"`{KEY}` with {name} is not modelled: no engine was measured with it")


class Grouped(NamedTuple):
    """The modules that AutoEP puts in the place of a mixture."""

    router: Module
    gate: Module
    experts: Module


def grouped(tape: Tape, shape: Shape, work: Work, prefix: str) -> Grouped:
    """A router, and the three weights of this rank's experts."""
    count = shape.experts // work.experts * shape.hidden * shape.expert_wide
    router = tape.module(f"{prefix}.router")
    gate = tape.module(f"{prefix}.router.gate", shape.experts * shape.hidden, casts=True)
    experts = tape.module(f"{prefix}.experts", count, count, count, casts=True)
    gate.weights[0].late = True
    for weight in experts.weights:
        weight.linear, weight.expert = False, True
    tape.experts = work.experts
    return Grouped(router, gate, experts)


def dispatch(tape: Tape, shape: Shape, work: Work, layer: Grouped, y: Tensor, rows: int) -> Tensor:
    """Tokens go to the ranks of their experts, through them, and back."""
    many, hidden, width = rows * shape.chosen, shape.hidden, tape.width
    top = _route(tape, shape, layer, y, rows)
    order, places, told = (tape.step([], tape.tensor(many, 8, needs=False)) for _ in range(3))
    scores = tape.step([], tape.tensor(many, 4, needs=False))
    sent = tape.step([y, places], tape.tensor(many * hidden, width, label=DISPATCHED), [places])
    got = many
    if work.experts > 1:
        got = ceil(many * work.imbalance)
        sent = _exchange(tape, work, sent, got * hidden)
    rows_held, out = _compute(tape, shape, work, layer, sent, got)
    if work.experts > 1:
        out = _exchange(tape, work, out, many * hidden)
    placed = tape.step([out, order], tape.tensor(many * hidden, width), [order])
    weighed = tape.tensor(many * hidden, 4)
    tape.step([placed, top], weighed, [placed, top], back=8 * many * hidden)
    summed = tape.step([weighed], tape.tensor(rows * hidden, 4), shares=True)
    found = cast(tape, summed, width)
    tape.hold(order, places, told, scores, top, out, rows_held, *([sent] if work.experts == 1 else []))
    return found


def _route(tape: Tape, shape: Shape, layer: Grouped, y: Tensor, rows: int) -> Tensor:
    """`TokenChoiceTopKRouter`: odds in fp32, and of the chosen ones again."""
    many, all_ = rows * shape.chosen, rows * shape.experts
    with tape.inside(layer.router):
        with tape.inside(layer.gate):
            weights = layer.gate.weights
            scores = tape.step([y], tape.tensor(all_), kept(tape, y, weights), weights)
        odds = tape.tensor(all_, 4)
        tape.step([cast(tape, scores, 4)], odds, [odds])
        chosen = tape.step([], tape.tensor(many, 8, needs=False))
        best = tape.step([odds, chosen], tape.tensor(many, 4), [chosen])
        total = tape.step([best], tape.tensor(rows, 4))
        whole = tape.step([total], tape.tensor(rows, 4), shares=True)
        normal = tape.step([best, whole], tape.tensor(many, 4), [best, whole])
        return tape.step([normal], tape.tensor(many, 4))


def _compute(
    tape: Tape, shape: Shape, work: Work, layer: Grouped, x: Tensor, many: int
) -> tuple[Tensor, Tensor]:
    """`permute_rows`, `GroupedExperts`, `unpermute_rows`: its input, and what it makes."""
    width, own = tape.width, shape.experts // work.experts
    padded = -(-(many + own * ALIGNED) // ALIGNED) * ALIGNED
    index = tape.step([], tape.tensor(padded, 4, needs=False))
    first, second = (tape.step([], tape.tensor(many + padded, 8, needs=False)) for _ in range(2))
    rows = tape.step([x, index, first], tape.tensor(padded * shape.hidden, width), [index, first])
    with tape.inside(layer.experts):
        gate, down, up = layer.experts.weights
        wide = padded * shape.expert_wide
        both = [tape.step([rows], tape.tensor(wide, width), [rows], [weight]) for weight in (gate, up)]
        product = tape.step(both, tape.tensor(wide, width), both)
        made = tape.step([product], tape.tensor(padded * shape.hidden, width), [product], [down])
        tape.hold(*both, product)
    return rows, tape.step([made, second], tape.tensor(many * shape.hidden, width), [index, second])


def _exchange(tape: Tape, work: Work, x: Tensor, count: int) -> Tensor:
    """`_AllToAllV`; counted is the larger of what is sent and what is received."""
    most, back = max(count, x.elements), 1 + work.checkpointing
    tape.exchanged.append(Exchange("all_to_all", "forward", 1, most, x.width, work.experts))
    tape.exchanged.append(Exchange("all_to_all", "backward", back, most, x.width, work.experts))
    return tape.step([x], tape.tensor(count, x.width, label=DISPATCHED))
