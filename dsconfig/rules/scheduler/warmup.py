"""Warm-up: how long it is, and the shape of its curve."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isqrt

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import params, scheduler
from dsconfig.rules._numbers import as_number, is_number

_FILE = "runtime/lr_schedules.py"
_PARAMS = "scheduler.params"
_WARM_UP = f"{_PARAMS}.warmup_num_steps"
_CURVE = f"{_PARAMS}.warmup_type"
_NOTABLE = 500
"""Warm-ups of fewer steps are over before the shape of their curve matters."""


def _warm_up(ctx: Context) -> Json:
    """The steps of warm-up as a number, written or by default.

    Raises:
        SkipRule: the consumer fills them.
    """
    chosen = scheduler(ctx)
    if chosen is None or chosen.kind is None or "warmup_num_steps" not in chosen.accepts:
        return None
    steps = ctx.value(_WARM_UP) if ctx.has(_WARM_UP) else chosen.params["warmup_num_steps"].default
    return as_number(steps)


@rule("DSC561", effect="altered", since="0.3.12", source=f"{_FILE}:WarmupLR.__init__")
def single_warm_up_step(ctx: Context) -> Iterator[Finding]:
    """`warmup_num_steps` is less than 2, and counts as 2.

    From 0.19.3 on only 1 does; 0 and less are refused.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 2}}}
    """
    if "scheduler" not in ctx.data or not ctx.has(_WARM_UP):
        return
    steps = _warm_up(ctx)
    if steps is not None and steps < 2 and (steps == 1 or ctx.before("0.19.3")):
        yield ctx.at(
            _WARM_UP,
            f"`warmup_num_steps` is {quoted(steps)} and counts as 2",
            help="write 2",
            fix=Fix("write 2", (Set(("scheduler", "params", "warmup_num_steps"), 2),), safe=True),
        )


@rule("DSC562", effect="wasteful", since="0.3.1", source=f"{_FILE}:WarmupDecayLR.__init__")
def schedule_shorter_than_warm_up(ctx: Context) -> Iterator[Finding]:
    """`total_num_steps` is less than the steps of warm-up.

    Training is over before the learning rate is up. Left out, `warmup_num_steps` is 1000.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 500}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 500,
        "warmup_num_steps": 50}}}
    """
    total = params(ctx, "scheduler").get("total_num_steps")
    chosen = scheduler(ctx)
    if not is_number(total) or (chosen and "total_num_steps" not in chosen.accepts):
        return
    steps = _warm_up(ctx)
    if steps is not None and total < steps:
        default = "" if ctx.has(_WARM_UP) else " (the default of `warmup_num_steps`)"
        yield ctx.at(
            f"{_PARAMS}.total_num_steps",
            f"`total_num_steps` is {quoted(total)}, and warm-up alone takes {steps}{default}",
            help=f"set `warmup_num_steps` to less than {quoted(total)}, or set `total_num_steps` to "
            f"more than {steps}",
            related=[("warm-up is set here", _WARM_UP)] if ctx.has(_WARM_UP) else [],
        )


@rule("DSC563", effect="altered", since="0.5.7", source=f"{_FILE}:WarmupLR.__init__")
def unknown_warm_up_curve(ctx: Context) -> Iterator[Finding]:
    """`warmup_type` is neither "log" nor "linear", and counts as "log".

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_type": "cosine"}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_type": "linear"}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_type": "log"}}}
    """
    curve = params(ctx, "scheduler").get("warmup_type", "log")
    if curve in ("log", "linear"):
        return
    chosen = scheduler(ctx)
    if chosen is None or chosen.kind is None or "warmup_type" not in chosen.accepts:
        return
    stops = isinstance(curve, list | dict)  # looked up in a set, which only takes what can be hashed
    meant = curve.strip().lower() if isinstance(curve, str) else ""
    yield ctx.at(
        _CURVE,
        f"`warmup_type` is {quoted(curve)}, "
        + ("which is not the name of a curve" if stops else 'and counts as `"log"`')
        + ': DeepSpeed knows `"log"` and `"linear"`',
        help='write `"linear"` or `"log"`',
        effect="crashes" if stops else "altered",
        fix=Fix(
            'write the `"log"` that applies', (Set(("scheduler", "params", "warmup_type"), "log"),), safe=True
        )
        if not stops and meant != "linear"
        else Fix('write `"linear"`', (Set(("scheduler", "params", "warmup_type"), "linear"),))
        if meant == "linear"
        else None,
    )


@rule("DSC564", effect="wasteful", since="0.5.7", source=f"{_FILE}:WarmupLR._get_gamma")
def logarithmic_warm_up(ctx: Context) -> Iterator[Finding]:
    """`warmup_type` is left out, and warm-up is steep: logarithmic, not linear.

    Most frameworks warm up linearly. DeepSpeed's default has half of the way behind it after the square root
    of the steps, and so spends most of a long warm-up near the top. Said of warm-ups of 500 steps and more.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1000}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1000,
        "warmup_type": "linear"}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 1000,
        "warmup_type": "log"}}}
    """
    written = params(ctx, "scheduler")
    if "warmup_num_steps" not in written or "warmup_type" in written:
        return
    steps = _warm_up(ctx)
    if steps is not None and _NOTABLE <= steps < inf:
        yield ctx.at(
            _WARM_UP,
            f"warm-up is logarithmic unless `warmup_type` says otherwise: half of the way is done by step"
            f" {isqrt(int(steps))} of {quoted(steps)}",
            help='add `"warmup_type": "linear"`, or `"log"` if that is meant',
            fix=Fix(
                'write the `"log"` that applies',
                (Set(("scheduler", "params", "warmup_type"), "log"),),
            ),
        )
