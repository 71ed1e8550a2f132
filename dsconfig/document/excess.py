"""What is more than a config's data may be: nested too deep, too many values, an integer too long."""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.document.tree import MAX_DEPTH, MAX_DIGITS, MAX_VALUES

_BITS = MAX_DIGITS * 3321928 // 1_000_000
"""The length of the longest integer, in bits: `str` refuses a longer one."""


def excess(value: object) -> str | None:
    """The kind of problem that the data is, by name; None where it is within the limits.

    Nothing here recurs, so that data which holds itself is only too deep.
    """
    level, count = [value], 0
    for _ in range(MAX_DEPTH):
        inner: list[object] = []
        for each in level:
            inner += (
                each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()
            )
        count += len(inner)
        if count > MAX_VALUES:
            return "too-large"
        if any(isinstance(each, int) and each.bit_length() > _BITS for each in inner):
            return "huge-number"
        level = [each for each in inner if isinstance(each, Mapping | list | tuple)]
        if not level:
            return None
    return "too-deep"
