"""Operations on interpreted values, some of which may be unknown: comparisons, conversions and tests."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Sequence

from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.python.interpreted_values import Container

MAX_TEXT = 1000
"""Maximum length of a string that is computed."""
CONVERSIONS: dict[str, Callable[..., object]] = {
    "int": int, "float": float, "str": str, "bool": bool, "abs": abs, "round": round,
}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., object]] = {"min": min, "max": max}
_COMPARISONS: dict[type[ast.cmpop], Callable[..., object]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.eq, ast.IsNot: operator.ne,
}  # fmt: skip


def convert_values(function: Callable[..., object], values: Sequence[object]) -> object:
    """Return the result of a builtin such as `int`, or `UNKNOWN` if a value is unknown or the builtin raises."""
    if not all(isinstance(each, str | int | float) for each in values):
        return UNKNOWN
    try:
        result = function(*values)
    except (ValueError, TypeError, OverflowError):
        return UNKNOWN
    return result if not isinstance(result, str) or len(result) <= MAX_TEXT else UNKNOWN


def change_entry(method: str, container: Container, key: object, default: object) -> object:
    """Apply `setdefault` or `pop` to a dict, and return the result."""
    if not isinstance(key, str | int):
        container.forget_values()
        return UNKNOWN
    if method == "pop":
        value = container.entries.get(key, default)
        remove_key(container, key)
        return value
    if key not in container.entries:
        container.entries[key] = UNKNOWN if container.has_other_keys else default
    elif container.entries[key] is UNKNOWN:
        return UNKNOWN
    return container.entries[key]


def remove_key(container: Container, key: object) -> None:
    """Remove a key from a dict; if the key or container is unknown, mark all values as unknown."""
    if isinstance(key, str | int) and container.kind == "dict":
        container.entries.pop(key, None)
    else:
        container.forget_values()


def compare_values(op: ast.cmpop, left: object, right: object) -> object:
    """Compare two values; return `UNKNOWN` if either is unknown."""
    if isinstance(op, ast.In | ast.NotIn):
        if not isinstance(right, Container) or isinstance(left, Container) or left is UNKNOWN:
            return UNKNOWN
        # The key of a dict with the value `UNKNOWN` may be absent.
        values = right.entries if right.kind == "dict" else dict.fromkeys(_plain_values(right))
        is_open = right.has_other_keys or len(values) < len(right.entries)
        is_member = left in values and values[left] is not UNKNOWN
        if not is_member and (is_open or left in values):
            return UNKNOWN
        return is_member is isinstance(op, ast.In)
    if isinstance(left, Container) or isinstance(right, Container):
        is_equality = isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq)
        # A container is never None.
        is_none = is_equality and (left is None or right is None)
        return isinstance(op, ast.IsNot | ast.NotEq) if is_none else UNKNOWN
    plain = isinstance(left, str | int | float) or left is None
    if not plain or not (isinstance(right, str | int | float) or right is None):
        return UNKNOWN
    try:
        return _COMPARISONS[type(op)](left, right)
    except TypeError:
        return UNKNOWN


def _plain_values(container: Container) -> list[object]:
    return [
        each for each in container.entries.values() if isinstance(each, str | int | float) or each is None
    ]


def compute_unary(op: ast.unaryop, value: object) -> object:
    """Return the result of a unary operator such as `-`, or `UNKNOWN` if the value is unknown."""
    if isinstance(op, ast.Not):
        truth = truth_of(value)
        return UNKNOWN if truth is None else not truth
    if isinstance(value, int | float) and isinstance(op, ast.USub | ast.UAdd):
        return -value if isinstance(op, ast.USub) else +value
    return UNKNOWN


def truth_of(value: object) -> bool | None:
    """Return whether a value is true in a condition, or None if only the run can tell."""
    if value is None or isinstance(value, str | bool | int | float):
        return bool(value)
    if isinstance(value, Container) and value.kind in ("dict", "list"):
        if any(each is not UNKNOWN for each in value.entries.values()):
            return True
        return None if value.entries or value.has_other_keys else False
    return None


def forget_container(value: object) -> None:
    """Mark the contents of a container as unknown because other code receives it."""
    if isinstance(value, Container) and value.kind in ("dict", "list"):
        value.forget_values()
