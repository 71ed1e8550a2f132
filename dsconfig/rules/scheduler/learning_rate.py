"""Learning rates: which of the optimizer's and the schedule's is used."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import optimizer, params, scheduler
from dsconfig.rules._numbers import as_number

_FILE = "runtime/lr_schedules.py"
_LR = "optimizer.params.lr"
_MAX = "scheduler.params.warmup_max_lr"


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
    lr = as_number(params(ctx, "optimizer").get("lr"))
    chosen = scheduler(ctx) if lr is not None and "scheduler" in ctx.data else None
    if chosen is None or chosen.kind is None or "warmup_max_lr" not in chosen.params:
        return
    written = ctx.has(_MAX)
    peak = as_number(ctx.value(_MAX) if written else chosen.params["warmup_max_lr"].default)
    if peak is not None and peak != lr and peak >= 0:  # -1 stands where a script puts a number
        by = f"`warmup_max_lr` is {quoted(peak)}" + (
            "" if written else f" in {chosen.built} unless it is written"
        )
        yield ctx.at(
            _LR,
            f"`lr` is {quoted(lr)} and never used: the schedule rises to another rate, for {by}",
            help=f"set `scheduler.params.warmup_max_lr` to {quoted(lr)}, or write the same in both places",
            related=[("the schedule's rate is set here", _MAX if written else "scheduler.type")],
            fix=Fix("take the optimizer's rate", (Set(("scheduler", "params", "warmup_max_lr"), lr),))
            if isinstance(ctx.written("scheduler.params"), dict)
            else None,
        )


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
        help="add `lr`",
        related=[("the schedule is chosen here", "scheduler.type")],
        part="key",
    )
