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


def tamed(mapping: Mapping[str, object]) -> Mapping[str, object]:
    """The data with its keys as text, and a stand-in for each array or tensor; the very data mostly.

    A comparison of an array has a value for each element, and its truth value raises.
    """
    held: list[object] = [mapping]
    for each in held:
        inner = each.values() if isinstance(each, Mapping) else each if isinstance(each, list | tuple) else ()
        if any(map(_is_array, inner)) or (isinstance(each, Mapping) and not all(map(_is_text, each))):
            return {str(key): _tamed(value) for key, value in mapping.items()}
        held += [value for value in inner if isinstance(value, Mapping | list | tuple)]
    return mapping


def _tamed(value: object) -> object:
    if _is_array(value):
        text = str(value)
        return type(type(value).__name__, (), {"__repr__": lambda _: text})()
    if isinstance(value, dict):
        return {str(key): _tamed(item) for key, item in value.items()}
    return [_tamed(item) for item in value] if isinstance(value, list | tuple) else value


def _is_text(key: object) -> bool:
    return isinstance(key, str)


def _is_array(value: object) -> bool:
    return hasattr(value, "__array__") and bool(getattr(value, "shape", ()))
