"""Profilers and timers: what DeepSpeed does with their switches while it loads a config."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.rules._context import MISSING, Context, Finding
from dsconfig.rules._rule import rule
from dsconfig.words import kind, quoted

_SWITCHES = ("wall_clock_breakdown", "flops_profiler.enabled")


@rule(
    "DSC912",
    effect="rejected",
    since="0.4.0",
    source="runtime/config.py:DeepSpeedConfig._initialize_params",
)
def timer_switch_not_a_boolean(ctx: Context) -> Iterator[Finding]:
    """`wall_clock_breakdown` or `flops_profiler.enabled` is neither a boolean nor an integer.

    The profiler needs the timers, so DeepSpeed combines the two with a bitwise or, which takes no text, no
    null and no fractions. An "auto" is text.

    Bad:

        {"train_batch_size": 8, "wall_clock_breakdown": "auto"}

    Good:

        {"train_batch_size": 8, "wall_clock_breakdown": false}
    """
    values = [ctx.value(path) for path in _SWITCHES]
    if _combine(*values):
        return
    for path, value in zip(_SWITCHES, values, strict=True):
        if not _combine(value, False):
            yield ctx.at(
                path,
                f"`{path.rsplit('.', 1)[-1]}` is {kind(value)}"
                + (f", {quoted(value)}," if value is not None else "")
                + f" and DeepSpeed combines `{_SWITCHES[0]}` and `{_SWITCHES[1]}` with a bitwise or",
                help="write `true` or `false`",
            )


def _combine(left: Any, right: Any) -> bool:
    try:
        left | right
    except TypeError:
        return False
    return True


@rule("DSC913", effect="rejected", since="0.14.3", source="utils/config.py:get_timers_config")
def throughput_outside_an_object(ctx: Context) -> Iterator[Finding]:
    """`timers` is a list or a text that contains the word "throughput".

    DeepSpeed asks whether "throughput" is in `timers`, which a list and a text can answer too, and then looks
    it up as a key, which they cannot.

    Bad:

        {"train_batch_size": 8, "timers": ["throughput"]}

    Good:

        {"train_batch_size": 8, "timers": {"throughput": {"enabled": true}}}
    """
    timers = ctx.written("timers")
    if timers is not MISSING and isinstance(timers, list | str) and "throughput" in timers:
        yield ctx.at(
            "timers",
            f"`timers` is {kind(timers)}, {quoted(timers)}, where DeepSpeed expects an object",
            help='write `{"throughput": {"enabled": true}}`',
        )
