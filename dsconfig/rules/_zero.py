"""What the ZeRO, offload and ZenFlow rules ask of a config: the stage, the devices, which keys differ from
their defaults.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dsconfig.diagnostic import Fix, Remove
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.words import one_of

ZERO = "zero_optimization"
STAGE = f"{ZERO}.stage"
OPTIMIZER, PARAM = f"{ZERO}.offload_optimizer", f"{ZERO}.offload_param"
ZENFLOW = f"{ZERO}.zenflow"
_SWITCHES = {
    OPTIMIZER: (f"{ZERO}.cpu_offload",),
    PARAM: (f"{ZERO}.cpu_offload_param", f"{ZERO}.cpu_offload_params"),
}
"""The first forms of the offload sections; DeepSpeed turns them into the device "cpu"."""


def stage(ctx: Context) -> float:
    """The ZeRO stage that the release ends up with; 0 where ZeRO is off.

    Raises:
        SkipRule: the stage is no number, or the consumer fills it.
    """
    section = ctx.value(ZERO)
    value = int(section) if isinstance(section, bool) else ctx.value(STAGE)
    if not isinstance(value, int | float):
        raise SkipRule
    return value


def stage_place(ctx: Context) -> str:
    """Where the stage is said."""
    return STAGE if isinstance(ctx.written(ZERO), dict) else ZERO


def stage_words(ctx: Context) -> str:
    """The stage, for messages: `the stage is 1`, or that there is none."""
    return f"the stage is {stage(ctx):g}" if stage(ctx) > 0 else "ZeRO is off"


def said_here(ctx: Context) -> list[tuple[str, str]]:
    """The place of the stage as a related one, where it is written."""
    return [("the stage is set here", stage_place(ctx))] if ctx.has(stage_place(ctx)) else []


def zero(ctx: Context) -> dict[str, Any]:
    """The section's values by canonical names.

    Raises:
        SkipRule: there is no such object.
    """
    section = ctx.value(ZERO)
    if not isinstance(section, dict) or not section:
        raise SkipRule
    return section


def device(ctx: Context, section: str) -> str:
    """Where an offload section (`OPTIMIZER`, `PARAM`) or its first form puts things; "none" without one.

    Raises:
        SkipRule: the device is refused, or the consumer fills it.
    """
    if isinstance(ctx.value(section), dict):
        found = ctx.value(f"{section}.device")
        if not isinstance(found, str):
            raise SkipRule
        return found
    return "cpu" if any(ctx.value(switch) is True for switch in _SWITCHES[section]) else "none"


def device_place(ctx: Context, section: str) -> str:
    """Where the device is said."""
    if isinstance(ctx.value(section), dict):
        return f"{section}.device"
    return next((switch for switch in _SWITCHES[section] if ctx.has(switch)), section)


def zenflow(ctx: Context) -> bool:
    """Whether ZenFlow is on: its section is there, and be it empty."""
    return ctx.has(ZENFLOW) and isinstance(ctx.value(ZENFLOW), dict)


def departs(ctx: Context, path: str) -> bool:
    """Whether the key is written with another value than the release would use anyhow."""
    if not ctx.has(path):
        return False
    try:
        return bool(ctx.value(path) != ctx.default(path))
    except SkipRule:  # filled by the consumer, or refused
        return False


def without_effect(
    ctx: Context,
    paths: Iterable[str],
    why: str,
    *,
    help: str,
    effect: str = "ignored",
    related: Iterable[tuple[str, str]] = (),
) -> Finding:
    """One finding for all the keys that one cause takes the effect from."""
    first, *others = paths
    places = [ctx.place(path) for path in (first, *others)]
    names = one_of((f"`{place[-1]}`" for place in places), "and")
    return ctx.at(
        first,
        f"{names} {'have' if others else 'has'} no effect: {why}",
        help=help,
        effect=effect,
        part="key",
        related=[*related, *(("so has this", path) for path in others)],
        fix=Fix(f"remove {names}", tuple(Remove(place) for place in places)),
    )
