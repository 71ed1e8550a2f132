"""Sums of whole numbers, as `$((8 * 2))` in a script."""

from __future__ import annotations

import ast
import operator

_LARGEST = 1 << 63
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
}


def whole(text: str) -> int | None:
    """The value of a short expression; None where it has none."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError):
        return None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left), _value(node.right)
        if abs(found := int(_OPERATORS[type(node.op)](left, right))) < _LARGEST:
            return found
    raise ValueError("no sum of whole numbers")
