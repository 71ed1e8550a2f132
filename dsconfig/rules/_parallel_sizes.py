"""Degrees of parallelism at the top level."""

from __future__ import annotations

from dsconfig.evaluation.context import Context
from dsconfig.rules._numbers import is_integer

_SEQUENCE = "sequence_parallel_size"
_DATA = "data_parallel_size"


def device_mesh(ctx: Context) -> bool:
    """Whether the config makes DeepSpeed build a device mesh; of a file it only asks the path up to 0.18.5.

    Source: __init__.py, initialize.
    """
    return ctx.has(_SEQUENCE) and ctx.has(_DATA) and (not ctx.from_file or ctx.since("0.18.6"))


_COUNTABLE = 2**53
"""Up to here, a true division of integers neither overflows nor comes to nothing."""


def size_of(ctx: Context, path: str) -> int | None:
    """A batch or degree of parallelism that is written as a positive integer, small enough to divide by."""
    value = ctx.value(path) if ctx.has(path) else None
    return value if is_integer(value) and 0 < value < _COUNTABLE else None
