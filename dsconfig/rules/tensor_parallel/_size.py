"""How many ranks share each layer."""

from __future__ import annotations

from dsconfig.evaluation.context import Context

AUTOTP = "tensor_parallel.autotp_size"


def tensor_parallel(ctx: Context) -> int:
    """Ranks that share each layer; 0 or 1 where AutoTP is off."""
    section = ctx.data.get("tensor_parallel")
    size = ctx.value(AUTOTP) if isinstance(section, dict) and "autotp_size" in section else 0
    return size if isinstance(size, int) else 0
