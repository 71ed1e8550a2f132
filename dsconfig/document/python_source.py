"""Convert config dicts in Python sources to documents, with the spans, values and comments of the expressions.

Each literal keeps its location in the source, so diagnostics and fixes apply to the source itself. A value that is
known only at run time (a name, a call, an f-string) is `UNKNOWN`.

Edits use the same brackets and commas as in JSON, but Python's literals and quotes.
"""

from __future__ import annotations

import ast
import io
import keyword
import re
import tokenize
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from dsconfig.document.document import LINE_END
from dsconfig.document.json_editor import JsonEditor, add_entry, entry_to_add, find_entry
from dsconfig.document.located_tree import (
    MAX_DEPTH,
    MAX_VALUES,
    UNKNOWN,
    NodeKind,
    ObjectMember,
    TextSpan,
    TreeNode,
)
from dsconfig.document.text_edit import EditError, TextEdit
from dsconfig.document.text_layout import entry_style_of, format_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document

BYTE_ORDER_MARK = "\ufeff"


class PythonSourceText:
    """A Python source with the offsets of its lines, used to convert syntax nodes to spans."""

    def __init__(self, text: str) -> None:
        self.text = text
        starts = [0, *[match.end() for match in LINE_END.finditer(text)]]
        self._lines = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
        # `ast` does not count a byte order mark, which stays in the text so that it is written back.
        mark = len(text) - len(text.removeprefix(BYTE_ORDER_MARK))
        self._lines[0] = self._lines[0][mark:]
        self._starts = [mark, *starts[1:]]

    def parse_syntax_tree(self) -> ast.Module:
        """Parse the source into a syntax tree.

        Raises:
            SyntaxError: the source is not valid for the running version of Python.
            ValueError: an integer has too many digits, or the source contains a null character.
            RecursionError, MemoryError: the source is nested too deeply.
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
        """Convert a line and column from `ast`, whose columns count bytes, to an offset in the source."""
        text = self._lines[line - 1]
        return self._starts[line - 1] + (
            column if text.isascii() else len(text.encode()[:column].decode("utf-8", "ignore"))
        )

    def comments_on_lines(self, span: TextSpan) -> Iterator[tuple[TextSpan, str]]:
        """Yield the comments on the lines that a span covers, with their spans."""
        first, last = (bisect_right(self._starts, offset) for offset in span)
        for line, comment in self._all_comments:
            if first <= line <= last:
                yield comment

    @cached_property
    def _all_comments(self) -> list[tuple[int, tuple[TextSpan, str]]]:
        """All comments of the source by line number, up to the first invalid token."""
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
    """Converts dict expressions to nodes, using `evaluate` for expressions that are not containers."""

    def __init__(self, text: PythonSourceText, evaluate: Callable[[ast.expr], Json]) -> None:
        self._text, self._evaluate, self._count = text, evaluate, 0

    def build_node(self, value: ast.expr, path: KeyPath = ()) -> TreeNode:
        """Convert the expression at a path of the config to a node with its value and span."""
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
    """Return whether a dict expression itself has keys that the source does not show, such as `**other`."""
    if isinstance(value, ast.Dict):
        return any(not (isinstance(key, ast.Constant) and isinstance(key.value, str)) for key in value.keys)
    return isinstance(value, ast.Call) and (
        bool(value.args) or any(each.arg is None for each in value.keywords)
    )


def is_dict_expression(value: ast.expr) -> bool:
    """Return whether an expression is a dict literal or a call of `dict(...)`."""
    if isinstance(value, ast.Dict):
        return True
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "dict"


def literal_keys_of_dict(value: ast.expr) -> list[str]:
    """Return the keys that a dict expression spells as literals or keyword arguments."""
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
    """Return the value expression of a key in a dict expression; the last duplicate wins."""
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
    """Return a config value with `UNKNOWN` at a path, adding missing parent sections."""
    if not path or path[0] == "*":
        return value
    if not isinstance(value, dict):
        return UNKNOWN
    inner = value.get(str(path[0]), {})
    return {**value, str(path[0]): UNKNOWN if len(path) == 1 else make_path_unknown(inner, path[1:])}


class PythonEditor(JsonEditor):
    """Editor for a config dict in a Python source.

    In `dict(...)`, and in a call whose arguments are a config, a key is a keyword argument. A key that a statement sets
    (`ds_config["fp16"] = {...}`) is removed with its statement; new keys go into the literal.
    """

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self._literals: dict[int, TreeNode] = {}

    def rename_key(self, path: KeyPath, name: str) -> list[TextEdit]:
        """Rename the key at a path, keeping its quotes; a keyword argument has none."""
        parent, index = find_entry(self.document, path)
        span = parent.members[index].key_span
        is_argument = not any(quote in self.document.text[span.start : span.end] for quote in "\"'")
        if not is_argument and self.document.text[span.start] not in "\"'":
            raise EditError("the key has a string prefix")
        if is_argument and (not name.isidentifier() or keyword.iskeyword(name)):
            raise EditError(f"`{name}` is not a valid keyword argument of dict()")
        if is_argument:
            return [TextEdit(span.start, span.end, name)]
        if self.document.text[span.start : span.start + 3] in ('"""', "'''"):
            raise EditError("the key is in triple quotes")
        return super().rename_key(path, name)

    def remove_entries(self, parent: TreeNode, indexes: Sequence[int]) -> list[TextEdit]:
        """Remove entries, except the only literal one next to `**other` or a computed key."""
        literal = self._node_of_literal(parent)
        if len(literal.members) == 1 and _has_hidden_entries(
            self.document.text[parent.span.start : parent.span.end]
        ):
            raise EditError("the dict has keys that its source does not show")
        if parent.kind != "object":
            return super().remove_entries(parent, indexes)
        keys = [each.key_span for each in literal.members]
        removed = [parent.members[index] for index in indexes]
        inside = [keys.index(each.key_span) for each in removed if each.key_span in keys]
        edits = [self._remove_from_elsewhere(each) for each in removed if each.key_span not in keys]
        if not self._is_call(parent):
            return [*super().remove_entries(literal, inside), *edits]
        return [*(self._remove_argument(literal.members[each]) for each in inside), *edits]

    def _add_entry(self, path: KeyPath, value: Json) -> list[TextEdit]:
        section, key, value = entry_to_add(self.document, path, value)
        literal = self._node_of_literal(section)
        if not self._is_call(section):
            return add_entry(self.around, literal, key, value)
        if not literal.members or not key.isidentifier() or keyword.iskeyword(key):
            raise EditError(f"`{key}` cannot be added as a keyword argument")
        last = literal.members[-1]
        end, start = last.node.span.end, last.key_span.start
        starts_line = self.around.is_first_on_line(start)
        gap = f"{self.around.layout.newline}{self.around.indent_at(start)}" if starts_line else " "
        manner = entry_style_of(self.around, literal)._replace(key='"', colon=": ")
        return [TextEdit(end, end, f",{gap}{key}={format_value(value, self.around.layout, None, manner)}")]

    def _is_call(self, node: TreeNode) -> bool:
        """Return whether the keys of an object are the keyword arguments of a call."""
        return node.kind == "object" and self.document.text[node.span.start] != "{"

    def _remove_from_elsewhere(self, member: ObjectMember) -> TextEdit:
        """Remove a key that is not in the literal, but in a later statement or in the call that receives the dict."""
        is_argument = self.document.text[member.key_span.start] not in "\"'" and _ARGUMENT.match(
            self.document.text, member.key_span.end
        )
        return self._remove_argument(member) if is_argument else self._remove_statement(member)

    def _remove_argument(self, member: ObjectMember) -> TextEdit:
        """Remove a keyword argument with the comma before it, or if it is the first argument, after it."""
        start, end = member.key_span.start, member.node.span.end
        before = len(self.document.text[:start].rstrip())
        if self.document.text[before - 1] == "," and not self.around.has_comment(before, start):
            return TextEdit(before - 1, end, "")
        comma = self.around.comma_after(end)
        return TextEdit(start, end if comma is None else self.around.skip_blanks(comma + 1), "")

    def _node_of_literal(self, node: TreeNode) -> TreeNode:
        """Return the object node of a dict literal, with the names of variables in place of the dicts they hold."""
        if id(node) not in self._literals:
            members = tuple(
                self._member_as_written(each) for each in node.members if _is_inside(each.key_span, node.span)
            )
            self._literals[id(node)] = node._replace(members=members)
        return self._literals[id(node)]

    def _member_as_written(self, member: ObjectMember) -> ObjectMember:
        name = _NAME.match(self.document.text, member.key_span.end)
        if name is None or name.start(1) == member.node.span.start:
            return member
        return member._replace(node=TreeNode("unknown", TextSpan(*name.span(1)), UNKNOWN))

    def _remove_statement(self, member: ObjectMember) -> TextEdit:
        """Remove the statement `variable["key"] = value` together with its line."""
        text, start = self.document.text, self.around.line_start(member.key_span.start)
        end = self.around.skip_blanks(member.node.span.end)
        newline = self.around.line_break_end(end)
        if (newline is None and end < len(text)) or not _TARGET.fullmatch(
            text[start : member.key_span.start]
        ):
            raise EditError("the key is part of a statement that does more")
        return TextEdit(start, end if newline is None else newline, "")


_NAME = re.compile(r"\s*[:=]\s*([A-Za-z_]\w*(?:\.\w+)*)(?=\s*[,})#])")
"""The variable after a key: `"zero_optimization": zero`."""
_ARGUMENT = re.compile(r"\s*=(?!=)")
"""The equal sign after the name of a keyword argument."""
_TARGET = re.compile(r"""[ \t]*[A-Za-z_][\w.]*(?:\[["']\w+["']\])*\[""")
"""The part of an assignment before its last key: `ds_config["zero_optimization"][`."""


def _is_inside(inner: TextSpan, outer: TextSpan) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _has_hidden_entries(source: str) -> bool:
    """Return whether the source of a dict has entries that it does not show, such as `**other`."""
    try:
        value = ast.parse(f"({source})", mode="eval").body
    except SyntaxError:
        return True
    return has_hidden_entries(value)
