"""`Document`: a config's text, its value according to each parser, and the location of each path."""

from __future__ import annotations

import json
import re

from dsconfig.core.diagnostic import Location, NotebookCell
from dsconfig.document.located_tree import (
    ALL_PARSERS,
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_VALUES,
    YAML_TEXT,
    Format,
    LocatedTree,
    Parser,
    Part,
    TextPosition,
    TextProblem,
    TextSpan,
    TreeNode,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from dsconfig.core.json_types import KeyPath
    from dsconfig.document.notebook import NotebookCode


LINE_END: Final = re.compile(r"\r\n?|\n")
_NOT_PARSED: Final = object()


def line_starts(text: str) -> list[int]:
    """Return the offset at which each line of a text starts."""
    return [0, *[match.end() for match in LINE_END.finditer(text)]]


def line_start(text: str, at: int) -> int:
    """Return the offset at which the line that contains the offset `at` starts."""
    return max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1


class Document:
    """A parsed config, whose values are shared and must not be modified.

    For plain JSON, the tree is built only when a location is first needed, because most files have no diagnostics.
    """

    __slots__ = (
        "_index", "_json", "_lines", "_tree", "_value", "cell", "embedded_at", "format", "has_unknown_values",
        "is_data", "name", "reread", "selected_job", "text",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        text: str,
        format: Format,
        tree: LocatedTree | Callable[[], LocatedTree],
        *,
        value: object = _NOT_PARSED,
        is_data: bool = False,
        embedded_at: KeyPath | None = None,
    ) -> None:
        self.name, self.text, self.format = name, text, format
        self._tree, self._value = tree, value
        self.is_data = is_data
        """Whether the document was created from a mapping rather than from text."""
        self.embedded_at = embedded_at
        """The path of the config within the text, or None if the whole text is the config."""
        self.reread: Callable[[str], Document] | None = None
        """Function that finds this config in an edited text of its program; raises `ValueError` if it is not there."""
        self.cell: NotebookCode | None = None
        """The notebook cell whose source is the text of this document, if there is one."""
        self.selected_job: int | None = None
        """Index of the selected job in a file that starts several jobs, or None if no job was selected."""
        self.has_unknown_values = is_data or format == "yaml"
        """Whether values may be `UNKNOWN`, as for flags and variables of a script, or OmegaConf interpolations."""
        self._json: object = _NOT_PARSED
        self._lines: list[int] = []
        self._index: dict[int, dict[str, int]] = {}

    def __repr__(self) -> str:
        return f"Document({self.name!r}, {len(self.text)} characters of {self.format})"

    @property
    def is_in_program(self) -> bool:
        """Whether the document is a config in a Python source or notebook, which may contain other configs too."""
        return self.format == "python" or self.reread is not None

    @property
    def file_text(self) -> str:
        """Text of the whole file, which is the notebook if the document is a notebook cell."""
        return self.text if self.cell is None else self.cell.notebook.text

    def file_text_with(self, text: str) -> str:
        """Return the text of the whole file with this document's part replaced by `text`."""
        return text if self.cell is None else self.cell.notebook_text_with(text)

    # -- what was read -----------------------------------------------------------------------------

    @property
    def tree(self) -> LocatedTree:
        """The document's tree with locations, built on first access."""
        if not isinstance(self._tree, LocatedTree):
            self._tree = self._tree()
        return self._tree

    @property
    def root(self) -> TreeNode | None:
        """Root node of the tree, or None if nothing could be parsed."""
        return self.tree.root

    @property
    def problems(self) -> tuple[TextProblem, ...]:
        """All problems in the document's text, ordered by location."""
        return self._tree.problems if isinstance(self._tree, LocatedTree) else ()  # plain JSON has none

    @property
    def comments(self) -> tuple[tuple[TextSpan, str], ...]:
        """All comments in the document's text, including their comment markers."""
        return self._tree.comments if isinstance(self._tree, LocatedTree) else ()

    def is_readable(self, parser: Parser = "hjson") -> bool:
        """Return whether a parser accepts the document's text; for YAML that is always the YAML parser."""
        parser = "yaml" if self.format == "yaml" else parser
        return not any(parser in problem.rejected_by for problem in self.problems)

    def value(self, parser: Parser = "hjson") -> object:
        """Return the value that a parser reads (the last one of duplicate keys), or the recovered value if it fails."""
        if self._value is _NOT_PARSED:
            root = self.tree.root
            self._value = None if root is None else root.value
        if parser != "json" or self.format == "yaml" or self.is_data or self.embedded_at is not None:
            return self._value
        if self._json is _NOT_PARSED:
            self._json = value_read_by_json(
                self.text, self._tree.root if isinstance(self._tree, LocatedTree) else None
            )
        return self._json

    def subdocument(self, path: KeyPath) -> Document | None:
        """Return the object at a path as a document with paths relative to it and unchanged locations.

        The new document has none of the problems and comments of this one.
        """
        node = self.node(path)
        if node is None or node.kind != "object":
            return None
        full_path = (*(self.embedded_at or ()), *path)
        return Document(
            self.name, self.text, self.format, LocatedTree(node, ()), value=node.value, embedded_at=full_path
        )

    def passed_as_json(self) -> Document:
        """Return a copy for a job that passes this YAML text to a JSON or Hjson parser, which fails."""
        end = len(self.text) - len(LINE_END.split(self.text.lstrip(), 1)[-1]) if self.text else 0
        start = len(self.text) - len(self.text.lstrip())
        problem = TextProblem(YAML_TEXT, TextSpan(start, max(start, end)), (), "", ALL_PARSERS)
        tree = self.tree._replace(problems=(problem, *self.tree.problems))
        return Document(self.name, self.text, self.format, tree)

    @property
    def is_passed_as_json(self) -> bool:
        """Whether this is a YAML document whose text is passed to a JSON or Hjson parser."""
        return any(problem.kind == YAML_TEXT for problem in self.problems)

    def with_value(self, value: object) -> Document:
        """Return a copy of the document whose value is the one that another parser reads."""
        return Document(
            self.name,
            self.text,
            self.format,
            self.tree,
            value=value,
            is_data=self.is_data,
            embedded_at=self.embedded_at,
        )

    # -- from a path to its location --------------------------------------------------------------

    def node(self, path: KeyPath) -> TreeNode | None:
        """Return the node at a path, or None if the text does not contain the path."""
        entry = self._find_entry(path)
        return entry[1] if entry else None

    def has_path(self, path: KeyPath) -> bool:
        """Return whether the text contains exactly this path."""
        return self._find_entry(path) is not None

    def span(self, path: KeyPath, part: Part = "value") -> TextSpan:
        """Return the span of a path; for an absent path, return the span of its nearest existing parent's key."""
        while (entry := self._find_entry(path)) is None:
            if not path:
                return TextSpan(0, 0)
            path, part = path[:-1], "key"
        key, node = entry
        if part == "value" or (part == "entry" and key is None):
            return node.span
        if key is not None:
            return key if part == "key" else TextSpan(key.start, max(key.end, node.span.end))
        if path:
            return node.span
        return TextSpan(
            node.span.start, min(node.span.start + 1, node.span.end)
        )  # the root's opening bracket

    def _find_entry(self, path: KeyPath) -> tuple[TextSpan | None, TreeNode] | None:
        node, key = self.root, None
        for step in path:
            if node is None:
                return None
            if node.kind == "object" and isinstance(step, str):
                index = self.member_index(node, step)
                if index is None:
                    return None
                _, key, node = node.members[index]
            elif node.kind == "array" and isinstance(step, int) and 0 <= step < len(node.items):
                node, key = node.items[step], None
            else:
                return None
        return None if node is None else (key, node)

    def member_index(self, node: TreeNode, key: str) -> int | None:
        """Return the index of a key among an object's members (of its last occurrence), or None if absent."""
        keys = self._index.get(id(node))
        if keys is None:
            keys = self._index[id(node)] = {member.key: index for index, member in enumerate(node.members)}
        return keys.get(key)

    # -- lines -------------------------------------------------------------------------------------

    def position(self, offset: int) -> TextPosition:
        """Return the line and column at an offset in the document's text."""
        from bisect import bisect_right

        starts = self._line_starts()
        offset = max(0, min(offset, len(self.text)))
        line = bisect_right(starts, offset)
        if self.text[offset - 1 : offset + 1] == "\r\n":  # inside of one line end
            offset -= 1
        return TextPosition(line, offset - starts[line - 1] + 1)

    def line(self, number: int) -> str:
        """Return the text of a line without its line ending; lines count from 1."""
        starts = self._line_starts()
        if not 1 <= number <= len(starts):
            return ""
        end = starts[number] if number < len(starts) else len(self.text)
        return self.text[starts[number - 1] : end].rstrip("\r\n")

    def _line_starts(self) -> list[int]:
        if not self._lines:
            self._lines = line_starts(self.text)
        return self._lines


# Locations of diagnostics: spans and paths with lines and columns.


def location_of_span(document: Document, span: TextSpan) -> Location | None:
    """Return the location of a span in a document, or None for a dict without text."""
    if document.is_data:
        return None
    start, end = document.position(span.start), document.position(span.end)
    place = Location(span.start, span.end, start.line, start.column, end.line, end.column)
    if (cell := document.cell) is None:
        return place
    return place._replace(
        cell=NotebookCell(cell.number, cell.line_in_file(start.line), cell.line_in_file(end.line))
    )


def location_of_path(document: Document, path: KeyPath, part: Part = "value") -> Location | None:
    """Return the location of the value, key or entry at a path, or None for a dict without text."""
    return None if document.is_data else location_of_span(document, document.span(path, part))


# Plain JSON, which json and hjson read alike, parsed by json's C scanner. Most configs are plain.


class NotPlainJsonError(Exception):
    """The text is not an object in the subset of JSON that `parse_plain_json` accepts."""


def parse_plain_json(text: str) -> dict[str, object]:
    """Parse strict JSON if hjson is certain to read the same value from it.

    Raises:
        NotPlainJsonError: hjson may read the text differently, or reject it.
        ValueError: the text is not JSON.
        RecursionError: the text is nested too deeply.
    """
    brackets = text.count("{") + text.count("[")
    if text.count(",") + brackets >= MAX_VALUES or "\\ud" in text or "\\uD" in text:
        raise NotPlainJsonError  # possibly too many values, or an unpaired surrogate
    if not text.isascii():
        text.encode()  # raises on a lone surrogate
    value = _DECODER.decode(text)
    if type(value) is not dict:
        raise NotPlainJsonError
    if brackets > MAX_DEPTH:
        from dsconfig.document.located_tree import exceeded_limit

        if exceeded_limit(value) is not None:
            raise NotPlainJsonError
    return value


def parse_hjson_number(word: str) -> int | float:
    """Return the number that hjson 3.1.0 reads from a word; an integral float below 1e10 becomes an int.

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


def value_read_by_json(text: str, root: TreeNode | None) -> object:
    """Return the value that `json.load` reads from a text, or the recovered value if it rejects the text."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return _use_json_numbers(text, root)


def _use_json_numbers(text: str, node: TreeNode | None) -> object:
    """Convert the numbers in a recovered value to those of json, where `1e3` is a float."""
    if node is None:
        return None
    if node.kind == "object":
        return {member.key: _use_json_numbers(text, member.node) for member in node.members}
    if node.kind == "array":
        return [_use_json_numbers(text, item) for item in node.items]
    if node.kind == "number" and isinstance(node.value, int):
        raw = text[node.span.start : node.span.end]
        return node.value if raw.lstrip("-").isdigit() else float(raw)
    return node.value


def _object_without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise NotPlainJsonError  # duplicate keys
    return value


def _parse_plain_float(word: str) -> int | float:
    try:
        return parse_hjson_number(word)
    except OverflowError:
        raise NotPlainJsonError from None  # json reads infinity, hjson raises


def _reject_json_constant(word: str) -> object:
    raise NotPlainJsonError(word)  # hjson reads NaN and Infinity as strings


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_without_duplicates,
    parse_float=_parse_plain_float,
    parse_constant=_reject_json_constant,
)
