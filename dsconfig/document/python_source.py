"""Config dicts in Python sources as documents: spans, values and comments of a dict expression.

Each literal keeps its location in the source, so diagnostics and fixes apply to the source itself. A value that is
only known at run time (a name, a call, an f-string) is `UNKNOWN`.
"""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from dsconfig.document.document import LINE_END
from dsconfig.document.tree import MAX_DEPTH, MAX_VALUES, UNKNOWN, NodeKind, ObjectMember, TextSpan, TreeNode

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath

BYTE_ORDER_MARK = "\ufeff"


class PythonSourceText:
    """A Python source with the offsets of its lines, which turn syntax nodes into spans."""

    def __init__(self, text: str) -> None:
        self.text = text
        starts = [0, *[match.end() for match in LINE_END.finditer(text)]]
        self._lines = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
        # `ast` does not count a byte order mark, which stays in the text so that it is written back.
        mark = len(text) - len(text.removeprefix(BYTE_ORDER_MARK))
        self._lines[0] = self._lines[0][mark:]
        self._starts = [mark, *starts[1:]]

    def parse_source(self) -> ast.Module:
        """Parse the source.

        Raises:
            SyntaxError: it is not valid Python for the version that runs this.
            ValueError: an integer has too many digits, or there is a null character.
            RecursionError, MemoryError: it is nested too deep.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the source may contain invalid escapes
            return ast.parse(self.text.removeprefix(BYTE_ORDER_MARK))

    def span_of_node(self, node: ast.expr) -> TextSpan:
        """Return the span of an expression."""
        return TextSpan(
            self._offset_of_position(node.lineno, node.col_offset),
            self._offset_of_position(node.end_lineno or node.lineno, node.end_col_offset or node.col_offset),
        )

    def span_of_argument_name(self, keyword: ast.keyword) -> TextSpan:
        """Return the span of the name of a keyword argument."""
        start = self._offset_of_position(keyword.lineno, keyword.col_offset)
        return TextSpan(start, start + len(keyword.arg or ""))

    def _offset_of_position(self, line: int, column: int) -> int:
        """Convert a position of `ast`, which counts bytes in a line, to an offset in the text."""
        text = self._lines[line - 1]
        return self._starts[line - 1] + (
            column if text.isascii() else len(text.encode()[:column].decode("utf-8", "ignore"))
        )

    def comments_on_lines(self, span: TextSpan) -> Iterator[tuple[TextSpan, str]]:
        """Yield the comments on the lines of a span."""
        first, last = (bisect_right(self._starts, offset) for offset in span)
        for line, comment in self._all_comments:
            if first <= line <= last:
                yield comment

    @cached_property
    def _all_comments(self) -> list[tuple[int, tuple[TextSpan, str]]]:
        """The comments of the source with their line numbers, up to the first invalid token."""
        comments: list[tuple[int, tuple[TextSpan, str]]] = []
        try:
            source = self.text.removeprefix(BYTE_ORDER_MARK)
            for token in tokenize.generate_tokens(io.StringIO(source).readline):
                if token.type == tokenize.COMMENT:
                    line, column = token.start
                    start = self._starts[line - 1] + column
                    comments.append((line, (TextSpan(start, start + len(token.string)), token.string)))
        except (tokenize.TokenError, SyntaxError):
            pass
        return comments


class DictNodeBuilder:
    """Converter of dict expressions to nodes. `evaluate`: value of an expression that is no container."""

    def __init__(self, text: PythonSourceText, evaluate: Callable[[ast.expr], Json]) -> None:
        self._text, self._evaluate, self._count = text, evaluate, 0

    def build_node(self, value: ast.expr, path: KeyPath = ()) -> TreeNode:
        """Convert an expression, which is at a path of the config, to a node with its value and span."""
        span = self._text.span_of_node(value)
        self._count += 1
        if len(path) > MAX_DEPTH or self._count > MAX_VALUES:
            return TreeNode("unknown", span, UNKNOWN)
        if isinstance(value, ast.Dict):
            members = tuple(
                ObjectMember(
                    key.value, self._text.span_of_node(key), self.build_node(item, (*path, key.value))
                )
                for key, item in zip(value.keys, value.values, strict=True)
                if isinstance(key, ast.Constant) and isinstance(key.value, str)
            )
            return TreeNode("object", span, {each.key: each.node.value for each in members}, members)
        if is_dict_expression(value) and isinstance(value, ast.Call):
            members = tuple(
                ObjectMember(
                    each.arg,
                    self._text.span_of_argument_name(each),
                    self.build_node(each.value, (*path, each.arg)),
                )
                for each in value.keywords
                if each.arg is not None
            )
            return TreeNode("object", span, {each.key: each.node.value for each in members}, members)
        if isinstance(value, ast.List | ast.Tuple) and not any(
            isinstance(each, ast.Starred) for each in value.elts
        ):
            items = tuple(self.build_node(each, (*path, index)) for index, each in enumerate(value.elts))
            return TreeNode("array", span, [each.value for each in items], items=items)
        constant = self._evaluate(value)
        return TreeNode(_node_kind(constant), span, constant)


def has_hidden_entries(value: ast.expr) -> bool:
    """Whether a dict expression itself has keys that the source does not show."""
    if isinstance(value, ast.Dict):
        return any(not (isinstance(key, ast.Constant) and isinstance(key.value, str)) for key in value.keys)
    return isinstance(value, ast.Call) and (
        bool(value.args) or any(each.arg is None for each in value.keywords)
    )


def is_dict_expression(value: ast.expr) -> bool:
    """Whether an expression is a dict literal or a call of `dict(...)`."""
    if isinstance(value, ast.Dict):
        return True
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict"


def literal_keys_of_dict(value: ast.expr) -> list[str]:
    """Return the literal keys of a dict expression."""
    if isinstance(value, ast.Dict):
        return [
            each.value
            for each in value.keys
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
    return [each.arg for each in value.keywords if each.arg] if isinstance(value, ast.Call) else []


def _node_kind(value: Json) -> NodeKind:
    if value is UNKNOWN:
        return "unknown"
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def value_of_literal_key(value: ast.expr, key: str) -> ast.expr | None:
    """Return the expression at a literal key of a dict expression; the last duplicate wins."""
    if isinstance(value, ast.Dict):
        pairs = zip(reversed(value.keys), reversed(value.values), strict=True)
        return next(
            (item for each, item in pairs if isinstance(each, ast.Constant) and each.value == key), None
        )
    if isinstance(value, ast.Call):
        return next((each.value for each in value.keywords if each.arg == key), None)
    return None


def walk_nodes(node: TreeNode, path: KeyPath = ()) -> Iterator[tuple[KeyPath, TreeNode]]:
    """Yield the nodes of a tree with their paths."""
    yield path, node
    for member in node.members:
        yield from walk_nodes(member.node, (*path, member.key))
    for index, item in enumerate(node.items):
        yield from walk_nodes(item, (*path, index))


def make_path_unknown(value: Json, path: KeyPath) -> Json:
    """Return the value with `UNKNOWN` at a path; missing parent sections are added."""
    if not path or path[0] == "*":
        return value
    if not isinstance(value, dict):
        return UNKNOWN
    inner = value.get(str(path[0]), {})
    return {**value, str(path[0]): UNKNOWN if len(path) == 1 else make_path_unknown(inner, path[1:])}
