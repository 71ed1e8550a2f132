"""Sums of whole numbers, as `$((8 * 2))` in a script, and what `${name%.*}` takes off a value."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping

_LARGEST = 1 << 63
_LONGEST = 10_000
"""Characters that take the place of others; nobody keeps a longer value."""


def whole(text: str) -> int | None:
    """The value of a short expression; None where it has none."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if abs(found := _OPERATORS[type(node.op)](left, right)) < _LARGEST:
            return found
    raise ValueError("no sum of whole numbers")


def _quotient(left: int, right: int) -> int:
    """A shell rounds toward zero."""
    return left // right if (left < 0) == (right < 0) else -(-left // right)


def _remainder(left: int, right: int) -> int:
    return left - _quotient(left, right) * right


_OPERATORS: Mapping[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: _remainder,
}


def trimmed(value: str, operation: str) -> str | None:
    """A value as `${name%.*}` and its like have it; None where the pattern is more than one `*` at its end.

    `operation`: all that follows the name.
    """
    sign = operation[0]
    pattern = operation.lstrip(sign)
    greedy = len(operation) - len(pattern) > 1
    text = pattern.strip("*")
    if sign == "/":
        old, _, new = pattern.partition("/")
        if not old or any(char in _WILD for char in old) or value.count(old) * len(new) > _LONGEST:
            return None
        return value.replace(old, new, -greedy or 1)
    if not text or any(char in _WILD for char in text) or len(pattern) - len(text) > 1:
        return None
    if sign == "#":
        if pattern == text:
            return value.removeprefix(text)
        at = value.rfind(text) if greedy else value.find(text)
        return value if at < 0 or pattern[0] != "*" else value[at + len(text) :]
    if pattern == text:
        return value.removesuffix(text)
    at = value.find(text) if greedy else value.rfind(text)
    return value if at < 0 or pattern[-1] != "*" else value[:at]


_WILD = "*?[]\\$"
