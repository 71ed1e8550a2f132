"""The `expert_parallel` section, where it is on."""

from __future__ import annotations

from typing import Any

from dsconfig.evaluation.context import Context, SkipRule

EP = "expert_parallel"


def enabled(ctx: Context) -> None:
    """Go on only where AutoEP is switched on.

    Raises:
        SkipRule: it is not.
    """
    if EP not in ctx.data or not isinstance(ctx.data[EP], dict) or not ctx.on(f"{EP}.enabled"):
        raise SkipRule


def on_here() -> tuple[str, str]:
    """The switch, as a related place."""
    return "expert parallelism is switched on here", f"{EP}.enabled"


def value(ctx: Context, key: str) -> Any:
    """The value of a key of the section."""
    return ctx.value(f"{EP}.{key}")


def bad_integer(value: Any, least: int) -> bool:
    return not isinstance(value, int) or value < least
