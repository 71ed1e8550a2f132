"""The `expert_parallel` section, where it is on."""

from __future__ import annotations

from dsconfig.core.json_types import Json
from dsconfig.evaluation.context import Context, SkipRule

EP = "expert_parallel"
TP = "tensor_parallel.autotp_size"


def requires_autoep(ctx: Context) -> None:
    """Go on only where AutoEP is switched on.

    Raises:
        SkipRule: it is not.
    """
    if EP not in ctx.data or not isinstance(ctx.data[EP], dict) or not ctx.on(f"{EP}.enabled"):
        raise SkipRule


def on_here() -> tuple[str, str]:
    """The switch, as a related place."""
    return "expert parallelism is switched on here", f"{EP}.enabled"


def value_of(ctx: Context, key: str) -> Json:
    """The value of a key of the section."""
    return ctx.value(f"{EP}.{key}")


def bad_integer(value: Json, least: int) -> bool:
    """Whether the engine refuses the value as a size."""
    return not isinstance(value, int) or value < least


def tensor_parallel_size(ctx: Context) -> int:
    """Ranks that share each layer, 1 where AutoTP is off."""
    size = ctx.value(TP)
    return max(size, 1) if isinstance(size, int) else 1
