"""Whether ZenFlow is on."""

from __future__ import annotations

from dsconfig.evaluation.context import Context
from dsconfig.rules._stage import ZERO

ZENFLOW = f"{ZERO}.zenflow"


def zenflow(ctx: Context) -> bool:
    """Whether ZenFlow is on: its section is there, even if empty."""
    return ctx.has(ZENFLOW) and isinstance(ctx.value(ZENFLOW), dict)
