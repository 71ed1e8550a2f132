"""Whether `torch_autocast` is on."""

from __future__ import annotations

from dsconfig.evaluation.context import Context

_ENABLED = "torch_autocast.enabled"


def autocasts(ctx: Context) -> bool:
    """Whether the section is there and enabled."""
    return isinstance(ctx.data.get("torch_autocast"), dict) and ctx.on(_ENABLED)
