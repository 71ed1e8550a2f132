"""Learning rates at both ends of a schedule."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import Chosen, params, scheduler
from dsconfig.rules._numbers import as_number

_FILE = "runtime/lr_schedules.py"
_PAIRS = (("warmup_min_lr", "warmup_max_lr"), ("cycle_min_lr", "cycle_max_lr"))


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
        first, last = as_number(written.get(low)), as_number(written.get(high))
        if first is None or last is None or not 0 <= last < first or not _takes(scheduler(ctx), low):
            continue
        yield ctx.at(
            f"scheduler.params.{low}",
            f"`{low}` is {quoted(first)}, more than `{high}`, {quoted(last)}: the way up leads down",
            help=f"swap `{low}` and `{high}`",
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
