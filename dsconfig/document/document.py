"""`Document`: a text, the value each parser makes of it, and the location of each path."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from dsconfig.core.diagnostic import Location
from dsconfig.document.tree import (
    EVERYBODY,
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    YAML_TEXT,
    Format,
    Node,
    Parser,
    Part,
    Position,
    Problem,
    Span,
    Tree,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.core.json_types import KeyPath


# `Document`: a text, the value each parser makes of it, and the way from a path to its place.

LINE_END: Final = re.compile(r"\r\n?|\n")
_UNREAD: Final = object()


def line_starts(text: str) -> list[int]:
    """Where each line of the text starts."""
    return [0, *[match.end() for match in LINE_END.finditer(text)]]


def line_start(text: str, at: int) -> int:
    """Where the line of the offset starts."""
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


class Document:
    """A config that was read. Its values are shared, not copied: do not change them.

    For plain JSON the tree is built when a place is first asked for: most files have no findings.
    """

    __slots__ = (
        "_index", "_json", "_lines", "_tree", "_value", "format", "is_data", "name", "text", "within",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        text: str,
        format: Format,
        tree: Tree | Callable[[], Tree],
        *,
        value: object = _UNREAD,
        is_data: bool = False,
        within: KeyPath | None = None,
    ) -> None:
        self.name, self.text, self.format = name, text, format
        self._tree, self._value = tree, value
        self.is_data = is_data
        """Whether this was a mapping, and never text."""
        self.within = within
        """Where the config stands in the text; None where the text is all of it."""
        self._json: object = _UNREAD
        self._lines: list[int] = []
        self._index: dict[int, dict[str, int]] = {}

    def __repr__(self) -> str:
        return f"Document({self.name!r}, {len(self.text)} characters of {self.format})"

    # -- what was read -----------------------------------------------------------------------------

    @property
    def tree(self) -> Tree:
        """The located tree."""
        if not isinstance(self._tree, Tree):
            self._tree = self._tree()
        return self._tree

    @property
    def root(self) -> Node | None:
        """The root's node; None where nothing could be read."""
        return self.tree.root

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Every oddity of the text, by place."""
        return self._tree.problems if isinstance(self._tree, Tree) else ()  # plain JSON has none

    @property
    def comments(self) -> tuple[tuple[Span, str], ...]:
        """Every comment, with its marks."""
        return self._tree.comments if isinstance(self._tree, Tree) else ()

    def readable(self, parser: Parser = "hjson") -> bool:
        """Whether this parser takes the text. YAML text has one parser, whichever is asked for."""
        parser = "yaml" if self.format == "yaml" else parser
        return not any(parser in problem.refused_by for problem in self.problems)

    def value(self, parser: Parser = "hjson") -> object:
        """What this parser gives, the last duplicate winning; where it refuses, what could be read."""
        if self._value is _UNREAD:
            root = self.tree.root
            self._value = None if root is None else root.value
        if parser != "json" or self.format == "yaml" or self.is_data or self.within is not None:
            return self._value
        if self._json is _UNREAD:
            self._json = json_value(self.text, self._tree.root if isinstance(self._tree, Tree) else None)
        return self._json

    def part(self, path: KeyPath) -> Document | None:
        """The object at a path as a document of its own: its paths count from there, its places stay.

        What is odd in the text around it, comments among that, stays with this document.
        """
        node = self.node(path)
        if node is None or node.kind != "object":
            return None
        whole = (*(self.within or ()), *path)
        return Document(self.name, self.text, self.format, Tree(node, ()), value=node.value, within=whole)

    def passed_as_json(self) -> Document:
        """The document of a YAML text that its job parses as JSON or Hjson, and that fails there."""
        end = len(self.text) - len(LINE_END.split(self.text.lstrip(), 1)[-1]) if self.text else 0
        start = len(self.text) - len(self.text.lstrip())
        problem = Problem(YAML_TEXT, Span(start, max(start, end)), (), "", EVERYBODY)
        tree = self.tree._replace(problems=(problem, *self.tree.problems))
        return Document(self.name, self.text, self.format, tree)

    @property
    def is_passed_as_json(self) -> bool:
        """Whether it is such a text."""
        return any(problem.kind == YAML_TEXT for problem in self.problems)

    def read_as(self, value: object) -> Document:
        """The document with the value that another reader makes of the same text."""
        return Document(
            self.name,
            self.text,
            self.format,
            self.tree,
            value=value,
            is_data=self.is_data,
            within=self.within,
        )

    # -- from a path to its place ------------------------------------------------------------------

    def node(self, path: KeyPath) -> Node | None:
        """The node at a path, if the text has it."""
        found = self._entry(path)
        return found[1] if found else None

    def located(self, path: KeyPath) -> bool:
        """Whether the text has exactly this path."""
        return self._entry(path) is not None

    def span(self, path: KeyPath, part: Part = "value") -> Span:
        """The place of a path. One that the text lacks gets the key of its nearest parent that it has."""
        while (found := self._entry(path)) is None:
            if not path:
                return Span(0, 0)
            path, part = path[:-1], "key"
        key, node = found
        if part == "value" or (part == "entry" and key is None):
            return node.span
        if key is not None:
            return key if part == "key" else Span(key.start, max(key.end, node.span.end))
        if path:
            return node.span
        return Span(node.span.start, min(node.span.start + 1, node.span.end))  # the root's opening bracket

    def _entry(self, path: KeyPath) -> tuple[Span | None, Node] | None:
        node, key = self.root, None
        for step in path:
            if node is None:
                return None
            if node.kind == "object" and isinstance(step, str):
                index = self.index(node, step)
                if index is None:
                    return None
                _, key, node = node.members[index]
            elif node.kind == "array" and isinstance(step, int) and 0 <= step < len(node.items):
                node, key = node.items[step], None
            else:
                return None
        return None if node is None else (key, node)

    def index(self, node: Node, key: str) -> int | None:
        """Where the key stands among the members of an object; the last duplicate wins."""
        keys = self._index.get(id(node))
        if keys is None:
            keys = self._index[id(node)] = {member.key: index for index, member in enumerate(node.members)}
        return keys.get(key)

    # -- lines -------------------------------------------------------------------------------------

    def position(self, offset: int) -> Position:
        """The line and column of an offset."""
        from bisect import bisect_right

        starts = self._line_starts()
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(starts, offset)
        if self.text[offset - 1 : offset + 1] == "\r\n":  # one line end, which nothing stands within
            offset -= 1
        return Position(line, offset - starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """The text of a line, counted from 1, without its end."""
        starts = self._line_starts()
        if not 1 <= number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")

    def _line_starts(self) -> list[int]:
        if not self._lines:
            self._lines = line_starts(self.text)
        return self._lines


# Where in the text a finding is: spans and paths become locations with lines and columns.


def location(document: Document, span: Span) -> Location | None:
    """The location of a span; None where the source is a dict, which has no text."""
    if document.is_data:
        return None
    start, end = document.position(span.start), document.position(span.end)
    return Location(span.start, span.end, start.line, start.column, end.line, end.column)


def location_of(document: Document, path: KeyPath, part: Part = "value") -> Location | None:
    """The location of the value at a path, or of its key; see `location`."""
    return None if document.is_data else location(document, document.span(path, part))


# Plain JSON, which most configs are: the kind that json and hjson read alike, by json's own C scanner.


class NotPlainError(Exception):
    """The text is JSON, but not of the plain kind."""


def plain(text: str) -> dict[str, object]:
    """The value of strict JSON that hjson reads alike.

    Raises:
        NotPlainError: hjson may read it otherwise, or not at all.
        ValueError: it is not JSON.
        RecursionError: it is nested too deep.
    """
    brackets = text.count("{") + text.count("[")
    if text.count(",") + brackets >= MAX_VALUES or "\\ud" in text or "\\uD" in text:
        raise NotPlainError  # perhaps too many values, perhaps half a surrogate pair
    if not text.isascii():
        text.encode()  # raises on a lone surrogate
    value = _DECODER.decode(text)
    if type(value) is not dict:
        raise NotPlainError
    if brackets > MAX_DEPTH:
        from dsconfig.document.tree import excess

        if excess(value) is not None:
            raise NotPlainError
    return value


def number(word: str) -> int | float:
    """The number that hjson 3.1.0 makes of its text: a whole float below 1e10 becomes an int.

    Raises:
        OverflowError: the number is too large.
    """
    if word.lstrip("-").isdigit():
        if len(word) > MAX_DIGITS and len(word.lstrip("-")) > MAX_DIGITS:
            raise OverflowError(word)
        return int(word)
    value = float(word)
    if value in (float("inf"), float("-inf")):
        raise OverflowError(word)
    return int(value) if abs(value) < 1e10 and int(value) == value else value


def json_value(text: str, root: Node | None) -> object:
    """What `json.load` gives: json's own reading where it accepts the text, else the recovered tree."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _with_json_numbers(text, root)


def _with_json_numbers(text: str, node: Node | None) -> object:
    """A recovered value with json's numbers: `1e3` is a float to it. The depth is bounded by MAX_DEPTH."""
    if node is None:
        return None
    if node.kind == "object":
        return {member.key: _with_json_numbers(text, member.node) for member in node.members}
    if node.kind == "array":
        return [_with_json_numbers(text, item) for item in node.items]
    if node.kind == "number" and isinstance(node.value, int):
        raw = text[node.span.start : node.span.end]
        return node.value if raw.lstrip("-").isdigit() else float(raw)
    return node.value


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotPlainError  # duplicate keys
    return value


def _float(word: str) -> int | float:
    try:
        return number(word)
    except OverflowError:
        raise NotPlainError from None  # json gives infinity, hjson fails


def _constant(word: str) -> object:
    raise NotPlainError(word)  # NaN and Infinity: words to hjson


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=_float, parse_constant=_constant)
