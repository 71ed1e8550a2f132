"""AutoEP: ranks share the experts of a mixture, and send them tokens (DeepSpeed's `auto_ep_layer.py`).

How many tokens reach a rank is known in training alone: as many as it sends, times what is asked for.
"""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.graph import ModelCollective, Module, Tape, Tensor
from dsconfig.memory.layers import cast, saved_inputs
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.memory.models.architecture import Architecture, MicroBatch

KEY = "expert_parallel.enabled"
DISPATCHED = "dispatched tokens"
SECTION = "expert_parallel."
SINCE = 19008
SUPPORTED_MODELS = {"mixtral": "mixtral", "qwen3_moe": "qwen3_moe", "qwen2_moe": "qwen3_moe"}
"""Families whose engines were measured with it, and the preset of each."""
SUPPORTED_VALUES = {
    "comm_backend": ("comm",),
    "combine_impl": ("auto", "weighted_sum"),
    "score_apply": ("auto", "post"),
    "gate_up_impl": ("separate",),
    "use_grouped_mm": (True,),
    "preset_model": (None, *dict.fromkeys(SUPPORTED_MODELS.values())),
}
"""Values of keys of the section with which engines were measured."""
ROW_ALIGNMENT = 8
"""Rows of an expert are filled up to a multiple (`TOKEN_GROUP_ALIGN_SIZE_M`)."""


def reject_model(arch: Architecture, batch: MicroBatch) -> None:
    """Refuse what AutoEP does not do, and what was not measured.

    Raises:
        NotModelledError: it is one of these.
    """
    ranks = batch.ep_size
    if not arch.num_experts:
        raise NotModelledError(f"`{KEY}` needs a model with experts: Mixtral's and Qwen's are modelled")
    if arch.name not in SUPPORTED_MODELS:
        raise NotModelledError(f"`{KEY}` is not modelled for {arch.name}: no engine was measured with it")
    if arch.num_experts % ranks:
        raise NotModelledError(f"AutoEP refuses {arch.num_experts} experts for {ranks} ranks")
    for name, there in (("adapters", batch.adapter), ("sequence parallelism", batch.sp_size > 1)):
        if there:
            raise NotModelledError(f"`{KEY}` with {name} is not modelled: no engine was measured with it")


class AutoEPBlock(NamedTuple):
    """The modules that AutoEP puts in the place of a mixture."""

    router: Module
    gate: Module
    experts: Module


def autoep_block(tape: Tape, arch: Architecture, batch: MicroBatch, prefix: str) -> AutoEPBlock:
    """A router, and the three weights of this rank's experts."""
    count = arch.num_experts // batch.ep_size * arch.hidden_size * arch.moe_intermediate_size
    router = tape.module(f"{prefix}.router")
    gate = tape.module(f"{prefix}.router.gate", arch.num_experts * arch.hidden_size, casts=True)
    experts = tape.module(f"{prefix}.experts", count, count, count, casts=True)
    gate.weights[0].created_after_init = True
    for weight in experts.weights:
        weight.is_linear, weight.is_expert = False, True
    tape.ep_size = batch.ep_size
    return AutoEPBlock(router, gate, experts)


def dispatch(
    tape: Tape, arch: Architecture, batch: MicroBatch, layer: AutoEPBlock, y: Tensor, rows: int
) -> Tensor:
    """Tokens go to the ranks of their experts, through them, and back."""
    many, hidden, itemsize = rows * arch.num_experts_per_tok, arch.hidden_size, tape.itemsize
    top = _route(tape, arch, layer, y, rows)
    order, places, told = (tape.op([], tape.tensor(many, 8, requires_grad=False)) for _ in range(3))
    scores = tape.op([], tape.tensor(many, 4, requires_grad=False))
    sent = tape.op([y, places], tape.tensor(many * hidden, itemsize, label=DISPATCHED), [places])
    got = many
    if batch.ep_size > 1:
        got = ceil(many * batch.expert_imbalance)
        sent = _exchange(tape, batch, sent, got * hidden)
    rows_held, out = _compute(tape, arch, batch, layer, sent, got)
    if batch.ep_size > 1:
        out = _exchange(tape, batch, out, many * hidden)
    placed = tape.op([out, order], tape.tensor(many * hidden, itemsize), [order])
    weighed = tape.tensor(many * hidden, 4)
    tape.op([placed, top], weighed, [placed, top], backward_temporary=8 * many * hidden)
    summed = tape.op([weighed], tape.tensor(rows * hidden, 4), passes_grad_through=True)
    found = cast(tape, summed, itemsize)
    tape.keep_alive(order, places, told, scores, top, out, rows_held, *([sent] if batch.ep_size == 1 else []))
    return found


def _route(tape: Tape, arch: Architecture, layer: AutoEPBlock, y: Tensor, rows: int) -> Tensor:
    """`TokenChoiceTopKRouter`: odds in fp32, and of the chosen ones again."""
    many, all_ = rows * arch.num_experts_per_tok, rows * arch.num_experts
    with tape.scope(layer.router):
        with tape.scope(layer.gate):
            weights = layer.gate.weights
            scores = tape.op([y], tape.tensor(all_), saved_inputs(tape, y, weights), weights)
        odds = tape.tensor(all_, 4)
        tape.op([cast(tape, scores, 4)], odds, [odds])
        chosen = tape.op([], tape.tensor(many, 8, requires_grad=False))
        best = tape.op([odds, chosen], tape.tensor(many, 4), [chosen])
        total = tape.op([best], tape.tensor(rows, 4))
        whole = tape.op([total], tape.tensor(rows, 4), passes_grad_through=True)
        normal = tape.op([best, whole], tape.tensor(many, 4), [best, whole])
        return tape.op([normal], tape.tensor(many, 4))


def _compute(
    tape: Tape, arch: Architecture, batch: MicroBatch, layer: AutoEPBlock, x: Tensor, many: int
) -> tuple[Tensor, Tensor]:
    """`permute_rows`, `GroupedExperts`, `unpermute_rows`: its input, and what it makes."""
    itemsize, own = tape.itemsize, arch.num_experts // batch.ep_size
    padded = -(-(many + own * ROW_ALIGNMENT) // ROW_ALIGNMENT) * ROW_ALIGNMENT
    index = tape.op([], tape.tensor(padded, 4, requires_grad=False))
    first, second = (tape.op([], tape.tensor(many + padded, 8, requires_grad=False)) for _ in range(2))
    rows = tape.op([x, index, first], tape.tensor(padded * arch.hidden_size, itemsize), [index, first])
    with tape.scope(layer.experts):
        gate, down, up = layer.experts.weights
        wide = padded * arch.moe_intermediate_size
        both = [tape.op([rows], tape.tensor(wide, itemsize), [rows], [weight]) for weight in (gate, up)]
        product = tape.op(both, tape.tensor(wide, itemsize), both)
        made = tape.op([product], tape.tensor(padded * arch.hidden_size, itemsize), [product], [down])
        tape.keep_alive(*both, product)
    return rows, tape.op([made, second], tape.tensor(many * arch.hidden_size, itemsize), [index, second])


def _exchange(tape: Tape, batch: MicroBatch, x: Tensor, count: int) -> Tensor:
    """`_AllToAllV`; counted is the larger of what is sent and what is received."""
    most, back = max(count, x.numel), 1 + batch.gradient_checkpointing
    tape.collectives.append(ModelCollective("all_to_all", "forward", 1, most, x.itemsize, batch.ep_size))
    tape.collectives.append(ModelCollective("all_to_all", "backward", back, most, x.itemsize, batch.ep_size))
    return tape.op([x], tape.tensor(count, x.itemsize, label=DISPATCHED))
