"""The ZeRO stage that a config ends up with, and where it says so."""

from __future__ import annotations

from dsconfig.core.json_types import JsonObject
from dsconfig.core.wording import compact
from dsconfig.evaluation.context import Context, SkipRule

ZERO = "zero_optimization"
STAGE = f"{ZERO}.stage"


def stage(ctx: Context) -> float:
    """The ZeRO stage that the release ends up with; 0 where ZeRO is off.

    Raises:
        SkipRule: the stage is not a number, or the consumer fills it.
    """
    return ctx.once(_stage)


def _stage(ctx: Context) -> float:
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
    return f"the stage is {compact(stage(ctx))}" if stage(ctx) > 0 else "ZeRO is off"


def stage_set_here(ctx: Context) -> list[tuple[str, str]]:
    """The place of the stage as a related one, where it is written."""
    return [("the stage is set here", stage_place(ctx))] if ctx.has(stage_place(ctx)) else []


def zero(ctx: Context) -> JsonObject:
    """The section's values by canonical names.

    Raises:
        SkipRule: there is no such object.
    """
    section = ctx.value(ZERO)
    if not isinstance(section, dict) or not section:
        raise SkipRule
    return section


def stage_place_if_written(ctx: Context) -> list[tuple[str, str]]:
    """Where the stage is said, as a related place."""
    return [("the stage is set here", STAGE)] if ctx.has(STAGE) else []


def zero_stage(ctx: Context) -> float:
    """The stage; 0 where the section is not written, without asking further."""
    return stage(ctx) if ctx.has("zero_optimization") else 0
