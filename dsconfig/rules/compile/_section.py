"""The `compile` section, where DeepCompile is on."""

from __future__ import annotations

from dsconfig.core.json_types import Json, JsonObject
from dsconfig.evaluation.context import Context, SkipRule

_DEEP = "compile.deepcompile"
_PASSES = "compile.passes"


def section_of(ctx: Context) -> JsonObject:
    """The section as written.

    Raises:
        SkipRule: it is absent, or not an object.
    """
    section = ctx.data.get("compile")
    if not isinstance(section, dict):
        raise SkipRule
    return section


def requires_deepcompile(ctx: Context) -> None:
    """Go on only where DeepCompile is on.

    Raises:
        SkipRule: it is not.
    """
    if not section_of(ctx).get("deepcompile") or not ctx.on(_DEEP):
        raise SkipRule


def on_here() -> tuple[str, str]:
    """The switch, as a related place."""
    return "DeepCompile is switched on here", _DEEP


def passes_of(ctx: Context) -> list[str]:
    """The passes that are listed; empty where there is no list."""
    passes = ctx.value(_PASSES) if "passes" in section_of(ctx) else None
    return passes if isinstance(passes, list) else []


def device_of(ctx: Context, path: str) -> Json:
    """The device of one of ZeRO's offload sections; "none" where it is not an object."""
    return ctx.value(f"{path}.device") if isinstance(ctx.written(path), dict) else "none"
