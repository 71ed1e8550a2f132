"""Learning rates: which of the written ones are used, and which way they go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.diagnostic import Fix, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._types import Chosen, optimizer, params, scheduler
from dsconfig.words import quoted

_FILE = "runtime/lr_schedules.py"
_LR = "optimizer.params.lr"
_MAX = "scheduler.params.warmup_max_lr"
_PAIRS = (("warmup_min_lr", "warmup_max_lr"), ("cycle_min_lr", "cycle_max_lr"))


def _number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@rule("DSC570", effect="altered", source=f"{_FILE}:WarmupLR.__init__")
def learning_rate_replaced_by_schedule(ctx: Context) -> Iterator[Finding]:
    """The schedule rises to another learning rate than the optimizer's, which is then never used.

    `warmup_max_lr` decides. Left out, it is the optimizer's `lr` in `WarmupLR` from 0.17.2 on, and 0.001
    before; in `WarmupDecayLR` it is 0.001 to this day. Written as null (0.17.2 and later) it is the
    optimizer's in both.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.00002}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 5000}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.00002}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 5000,
        "warmup_max_lr": 0.00002}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.00002}},
        "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 5000,
        "warmup_max_lr": 0.00002}}}
    """
    lr = _number(params(ctx, "optimizer").get("lr"))
    chosen = scheduler(ctx) if lr is not None and "scheduler" in ctx.data else None
    if chosen is None or chosen.kind is None or "warmup_max_lr" not in chosen.params:
        return
    written = ctx.has(_MAX)
    peak = _number(ctx.value(_MAX) if written else chosen.params["warmup_max_lr"].default)
    if peak is not None and peak != lr and peak >= 0:  # -1 stands where a script puts a number
        by = f"`warmup_max_lr` is {quoted(peak)}" + (
            "" if written else f" in {chosen.built} unless it is written"
        )
        yield ctx.at(
            _LR,
            f"`lr` is {quoted(lr)} and never used: the schedule rises to another rate, for {by}",
            help=f"write {quoted(lr)} for `warmup_max_lr`, or the same in both places",
            related=[("the schedule's rate is set here", _MAX if written else "scheduler.type")],
            fix=Fix("take the optimizer's rate", (Set(("scheduler", "params", "warmup_max_lr"), lr),))
            if isinstance(ctx.written("scheduler.params"), dict)
            else None,
        )


@rule("DSC571", effect="wasteful", source=f"{_FILE}:WarmupLR.__init__")
def warm_up_that_falls(ctx: Context) -> Iterator[Finding]:
    """The learning rate begins above the one that it is to rise to.

    DeepSpeed does not compare them: warm-up then leads down.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.01,
        "warmup_max_lr": 0.001}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001,
        "warmup_max_lr": 0.01}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.001,
        "warmup_max_lr": 0.01}}}
    """
    written = params(ctx, "scheduler")
    for low, high in _PAIRS:
        first, last = _number(written.get(low)), _number(written.get(high))
        if first is None or last is None or not 0 <= last < first or not _takes(scheduler(ctx), low):
            continue
        yield ctx.at(
            f"scheduler.params.{low}",
            f"`{low}` is {quoted(first)}, more than `{high}`, {quoted(last)}: the way up leads down",
            help="swap the two",
            related=[("the other end is set here", f"scheduler.params.{high}")],
            fix=Fix(
                "swap the two",
                (Set(("scheduler", "params", low), last), Set(("scheduler", "params", high), first)),
            ),
        )


def _takes(chosen: Chosen | None, word: str) -> bool:
    return chosen is not None and chosen.kind is not None and word in chosen.accepts


@rule("DSC572", effect="crashes", source=f"{_FILE}:_format_param")
def rates_for_different_groups(ctx: Context) -> Iterator[Finding]:
    """Lists of learning rates that cannot both fit the optimizer's parameter groups.

    A list needs one number for each group. Two lists of different lengths never both fit, an empty one never
    at all.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": [0.0],
        "warmup_max_lr": [0.001, 0.0001]}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": 0.0,
        "warmup_max_lr": 0.001}}}
    """
    written = params(ctx, "scheduler")
    lists = {key: value for key, value in written.items() if isinstance(value, list)}
    if not lists:
        return
    chosen = scheduler(ctx)
    for key, value in lists.items():
        if not value and key in _RATES and _takes(chosen, key):
            yield ctx.at(
                f"scheduler.params.{key}",
                f"`{key}` is an empty list, and there is at least one parameter group",
                help="write one number for all groups",
            )
    for low, high in _PAIRS:
        first, last = lists.get(low), lists.get(high)
        if first and last and len(first) != len(last) and _takes(chosen, low):
            yield ctx.at(
                f"scheduler.params.{high}",
                f"`{high}` holds {len(last)} rates and `{low}` {len(first)}, and each needs one for each"
                " parameter group",
                help="write one number for all groups, or lists of one length",
                related=[("the other list is here", f"scheduler.params.{low}")],
            )


_RATES = ("warmup_min_lr", "warmup_max_lr", "cycle_min_lr", "cycle_max_lr", "lr_range_test_min_lr")


@rule("DSC573", effect="wasteful", since="0.12.3", source=f"{_FILE}:WarmupCosineLR.__init__")
def cosine_of_unwritten_rate(ctx: Context) -> Iterator[Finding]:
    """`WarmupCosineLR` scales the optimizer's learning rate, and none is written.

    It has no rate of its own: what it rises to is the optimizer's `lr`, and where that is absent the default
    of the optimizer's class, 0.001 for most.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 5000}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.0001}},
        "scheduler": {"type": "WarmupCosineLR", "params": {"total_num_steps": 5000}}}
    """
    if ctx.written("scheduler.type") != "WarmupCosineLR" or "lr" in params(ctx, "optimizer"):
        return
    chosen = optimizer(ctx)
    if chosen is None or chosen.kind is None or chosen.name == "Muon":
        return
    default = chosen.params["lr"].default if "lr" in chosen.params else None
    yield ctx.at(
        "optimizer.params",
        f"`lr` is not written, and `WarmupCosineLR` scales it: it rises to {chosen.built}'s own default"
        + (f", {default:g}" if default is not None else ""),
        help="write `lr`",
        related=[("the schedule is chosen here", "scheduler.type")],
        part="key",
    )
