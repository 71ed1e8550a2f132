"""Determine the layout of a text: indentation, tokens around an offset, and the style for new entries."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice

from dsconfig.core.json_types import NamedTuple
from dsconfig.document.document import LINE_END, line_start
from dsconfig.document.located_tree import TextSpan
from dsconfig.document.read_document import readable_json_string

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Final, TypeVar

    from dsconfig.core.json_types import Json
    from dsconfig.document.document import Document
    from dsconfig.document.located_tree import TreeNode


_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.$-]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,99})(?:\.\d{1,99})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_YAML_FLOAT: Final = re.compile(r"-?\d+\.\d+(?:[eE][+-]\d+)?")
_BLANKS: Final = re.compile(r"[ \t]*")
_MAX_VALUES: Final = 1000
"""Number of values that are searched for an indented entry."""
_YAML_WORDS: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"])


class TextLayout(NamedTuple):
    """The line endings and indentation of a text."""

    newline: str
    unit: str
    yaml: bool
    python: bool = False

    @classmethod
    def layout_of_document(cls, document: Document) -> TextLayout:
        """Return the layout of a document, indenting by two spaces if the text shows no indentation."""
        line_end_match = LINE_END.search(document.text)
        return cls(
            line_end_match.group() if line_end_match else "\n",
            _indent_unit(document),
            document.format == "yaml",
            document.format == "python",
        )


class RawValue(NamedTuple):
    """A value as source text; `indent` is the indentation of its lines."""

    text: str
    indent: str
    is_block: bool = False
    """Whether the text is YAML in block style, which cannot be inside brackets."""


class EntryStyle(NamedTuple):
    """The style of the entries around a position; `key` and `word` are samples that show how strings are quoted."""

    key: str = '"'
    word: str = '"'
    colon: str = ": "
    gap: str = " "
    """White space after a comma between entries on the same line."""
    padding: str = ""
    """White space inside the braces of an object that is on one line."""
    comma: str = ","
    """Separator of entries on separate lines; empty in Hjson without commas."""
    trailing: str = ""
    """Text after the last entry of an object, such as a trailing comma."""
    spread: bool = True
    """Whether objects extend over several lines."""
    flow: bool = True
    """Whether objects are written in brackets; block style in YAML uses no brackets."""


def _indent_unit(document: Document) -> str:
    """Return by how much the first indented entry is indented relative to its parent."""
    todo = deque([(document.root, 0)] if document.root else [])
    for _ in range(_MAX_VALUES):
        if not todo:
            break
        node, parent_start = todo.popleft()
        todo += ((member.node, member.key_span.start) for member in node.members)
        todo += ((item, item.span.start) for item in node.items)
        if node.members:
            start = node.members[0].key_span.start
            at = node.span.start if document.text[node.span.start] in "{[" else parent_start
            inner_indent, outer = _indent_of_line(document, start), _indent_of_line(document, at)
            starts_line = len(inner_indent) == document.position(start).column - 1
            if inner_indent and starts_line and inner_indent != outer and inner_indent.startswith(outer):
                return inner_indent[len(outer) :]
    return "  "


def _indent_of_line(document: Document, at: int) -> str:
    """Return the leading blanks of the line at an offset."""
    match = _BLANKS.match(document.text, at - document.position(at).column + 1)
    return match.group() if match else ""


def quote_like_sample(sample: str, name: str) -> str:
    """Quote a name like the sample; leave it unquoted if the sample is unquoted and the name permits."""
    if sample[:1] == "'" and name.isprintable() and "'" not in name and "\\" not in name:
        return f"'{name}'"
    if sample[:1] not in ('"', "'", "") and _PLAIN_KEY.fullmatch(name) and name.lower() not in _YAML_WORDS:
        return name
    return readable_json_string(name)


def format_value(value: Json, layout: TextLayout, indent: str | None, manner: EntryStyle) -> str:
    """Format a value on one line if `indent` is None; otherwise put its entries on lines below `indent`.

    Raises:
        ValueError: the value cannot be written so that it is parsed back unchanged.
    """
    if isinstance(value, RawValue):
        if value.is_block:
            raise ValueError("YAML in block style cannot be put inside brackets")
        return reindent_raw_value(value, layout, indent or "")
    if isinstance(value, dict) and value:
        pairs = [
            (f"{quote_like_sample(manner.key, str(key))}{manner.colon}", item) for key, item in value.items()
        ]
        if indent is None or not manner.spread:
            entries = [f"{key}{format_value(item, layout, None, manner)}" for key, item in pairs]
            return f"{{{manner.padding}{f',{manner.gap}'.join(entries)}{manner.padding}}}"
        inner = indent + layout.unit
        lines = [_format_object_line(key, item, layout, inner, manner) for key, item in pairs]
        return f"{{{layout.newline}{join_object_lines(lines, layout, manner)}{layout.newline}{indent}}}"
    if isinstance(value, list | tuple):
        return "[" + f",{manner.gap}".join(format_value(item, layout, None, manner) for item in value) + "]"
    return format_scalar(value, layout, manner.word if layout.yaml or manner.word in QUOTES else '"')


def _format_object_line(key: str, value: Json, layout: TextLayout, indent: str, manner: EntryStyle) -> str:
    """Format one line of an object, a key and its value, without the comma."""
    if isinstance(value, str) and not (manner.comma or manner.trailing):
        return f"{indent}{key}{format_scalar(value, layout, manner.word)}"
    return f"{indent}{key}{format_value(value, layout, indent, manner)}"


def join_object_lines(lines: list[str], layout: TextLayout, manner: EntryStyle) -> str:
    """Join the formatted lines of an object with separators."""
    return f"{manner.comma}{layout.newline}".join(lines) + manner.trailing


QUOTES: Final = ("'", '"')


def format_scalar(value: Json, layout: TextLayout, sample: str = '"') -> str:
    """Format a scalar or empty container, quoting a string like the sample."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} cannot be written in JSON")
    if isinstance(value, str):
        return quote_like_sample(sample, value)
    if layout.python:
        return repr(value)
    text = json.dumps(value, ensure_ascii=False)
    if layout.yaml and isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")  # YAML 1.1 reads 1e-05 as a string
    return text


def spells_number(text: object, value: object, *, yaml: bool) -> bool:
    """Return whether a string's content spells exactly this number."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        return False
    if yaml and isinstance(value, float) and not _YAML_FLOAT.fullmatch(text):
        return False
    number = int(text) if text.lstrip("-").isdigit() else float(text)
    return type(number) is type(value) and number == value


def reindent_raw_value(raw: RawValue, layout: TextLayout, indent: str) -> str:
    """Change the indentation of a raw value's lines."""
    head, *lines = LINE_END.split(raw.text)
    shifted = [indent + line[len(raw.indent) :] if line.startswith(raw.indent) else line for line in lines]
    return layout.newline.join((head, *shifted))


# Queries about the text around an offset: lines, indentation, commas, comments.

_LEADING: Final = re.compile(r"[ \t]*(,)[ \t]*")
_SPACE: Final = re.compile(r"[ \t\r\n\ufeff]*")


class TextSurroundings:
    """The text around an offset: indentation, line breaks, commas and comments."""

    def __init__(self, document: Document) -> None:
        self.document, self.text = document, document.text
        self.layout = TextLayout.layout_of_document(document)
        self.comments = {span.start: span.end for span, _ in document.comments}
        """The end offset of each comment, by its start offset."""
        self.starts = sorted(self.comments)

    def line_start(self, at: int) -> int:
        """Return the start of the line that contains an offset."""
        return line_start(self.text, at)

    def is_first_on_line(self, at: int) -> bool:
        """Return whether an offset is preceded only by blanks on its line."""
        return not self.text[self.line_start(at) : at].strip(" \t\ufeff")

    def indent_at(self, at: int) -> str:
        """Return the leading blanks of the line at an offset."""
        start = self.line_start(at)
        return self.text[start : self.skip_blanks(start)]

    def line_break_end(self, at: int) -> int | None:
        """Return the end of the line break at an offset, or None if there is no line break."""
        match = LINE_END.match(self.text, at)
        return match.end() if match else None

    def has_newline(self, start: int, end: int) -> bool:
        """Return whether a range of text contains a line break."""
        return LINE_END.search(self.text, start, end) is not None

    def skip_blanks(self, at: int) -> int:
        """Return the offset after any blanks at an offset."""
        match = _BLANKS.match(self.text, at)
        return match.end() if match else at

    def skip_blanks_and_line_breaks(self, at: int) -> int:
        """Return the offset after any blanks and line breaks at an offset."""
        match = _SPACE.match(self.text, at)
        return match.end() if match else at

    def comma_after(self, at: int) -> int | None:
        """Return the offset of the comma after an entry, skipping white space and comments, or None."""
        at = self.skip_blanks_and_line_breaks(at)
        while at in self.comments:
            at = self.skip_blanks_and_line_breaks(self.comments[at])
        return at if self.text[at : at + 1] == "," else None

    def leading_comma(self, at: int) -> TextSpan | None:
        """Return the comma that starts an entry's line in comma-first style, or None."""
        match = _LEADING.fullmatch(self.text, self.line_start(at), at)
        return TextSpan(*match.span(1)) if match else None

    def has_comment(self, start: int, end: int) -> bool:
        """Return whether a comment starts in a range of the text."""
        at = bisect_left(self.starts, start)
        return at < len(self.starts) and self.starts[at] < end

    def end_of_entry(self, at: int) -> int:
        """Return the end of an entry, including the comments on its line."""
        while (after := self.skip_blanks(at)) in self.comments:
            at = self.comments[after]
        return at

    def has_brackets(self, node: TreeNode) -> bool:
        """Return whether an object or array is written in brackets."""
        return self.text[node.span.start : node.span.start + 1] in ("{", "[")


# Style detection, so that new text looks like its neighbors.

if TYPE_CHECKING:
    _Sample = TypeVar("_Sample")
_COLON: Final = re.compile(r"[ \t]*:[ \t]*")
_GAP: Final = re.compile(r"[ \t]*,[ \t]*")
_MAX_NODES: Final = 200
"""Number of objects and lists that are examined, nearest first; if these show no style, defaults apply."""


def entry_style_of(around: TextSurroundings, parent: TreeNode) -> EntryStyle:
    """Return the style of an object's entries; if it has none, the style in the rest of the text."""
    nodes = list(islice(_nearby_nodes(around, parent), _MAX_NODES))
    defaults = EntryStyle()

    def probe_style(
        probe: Callable[[TextSurroundings, TreeNode], _Sample | None], default: _Sample
    ) -> _Sample:
        return next((style for node in nodes if (style := probe(around, node)) is not None), default)

    key, comma = probe_style(_key_sample, defaults.key), probe_style(_separator_sample, defaults.comma)
    follows_keys = key in QUOTES or around.layout.yaml or not comma
    return EntryStyle(
        key=key,
        word=probe_style(_string_sample, key if follows_keys else defaults.word),
        colon=probe_style(_colon_sample, defaults.colon),
        gap=probe_style(_gap_sample, defaults.gap),
        padding=probe_style(_padding_sample, defaults.padding),
        comma=comma,
        trailing=probe_style(_trailing_text_sample, defaults.trailing),
        spread=_are_objects_multiline(around, nodes[1:], defaults),
        flow=probe_style(_is_flow_style, False) if around.layout.yaml else True,
    )


def _nearby_nodes(around: TextSurroundings, parent: TreeNode) -> Iterator[TreeNode]:
    """Yield an object, the containers inside it (last first), and then all other containers."""
    todo = [parent, *([around.document.root] if around.document.root else [])]
    visited: set[int] = set()
    while todo:
        node = todo.pop(0)
        if id(node) in visited:
            continue
        visited.add(id(node))
        yield node
        nested = [child for child in _container_values(node) if child.members or child.items]
        todo = [*nested, *todo] if node is parent else [*todo, *nested]


def _container_values(node: TreeNode) -> list[TreeNode]:
    """Return the values in an object or list, last first."""
    return [*[member.node for member in reversed(node.members)], *reversed(node.items)]


def _key_sample(around: TextSurroundings, node: TreeNode) -> str | None:
    return around.text[node.members[-1].key_span.start] if node.members else None


def _string_sample(around: TextSurroundings, node: TreeNode) -> str | None:
    """Return the first character of a string in a container: a quote, or a letter if it is unquoted."""
    for child in _container_values(node):
        text = around.text[child.span.start : child.span.start + 3]
        if child.kind == "string" and text and text[0] not in "|>&*!" and text != "'''":
            return text[0]
    return None


def _colon_sample(around: TextSurroundings, node: TreeNode) -> str | None:
    for member in reversed(node.members):
        between = around.text[member.key_span.end : member.node.span.start]
        if _COLON.fullmatch(between):
            return between
    return None


def _gap_sample(around: TextSurroundings, node: TreeNode) -> str | None:
    """Return the text between a comma and the next entry on the same line, or None if there is no example."""
    entries = [member.node.span for member in node.members] or [item.span for item in node.items]
    starts = [member.key_span.start for member in node.members] or [item.span.start for item in node.items]
    for end, start in zip(reversed(entries[:-1]), reversed(starts[1:]), strict=True):
        between = around.text[end.end : start]
        if _GAP.fullmatch(between):
            return between.partition(",")[2]
    return None


def _padding_sample(around: TextSurroundings, node: TreeNode) -> str | None:
    if not node.members or around.text[node.span.start : node.span.start + 1] != "{":
        return None
    inside = around.text[node.span.start + 1 : node.members[0].key_span.start]
    return inside if _BLANKS.fullmatch(inside) else None


def _separator_sample(around: TextSurroundings, node: TreeNode) -> str | None:
    """Return the separator of an object's entries on separate lines, or None if there is no example."""
    if around.layout.yaml or around.layout.python:
        return ","
    for entry, next_entry in zip(node.members, node.members[1:], strict=False):
        is_unquoted = entry.node.kind == "string" and around.text[entry.node.span.start] not in "'\""
        if not is_unquoted and around.has_newline(entry.node.span.end, next_entry.key_span.start):
            return "" if around.comma_after(entry.node.span.end) is None else ","
    return None


def _trailing_text_sample(around: TextSurroundings, node: TreeNode) -> str | None:
    """Return the text after the last entry of a multi-line object, a comma or nothing; None for other objects."""
    if not node.members or not around.has_brackets(node) or not around.has_newline(*node.span):
        return None
    return "" if around.comma_after(node.members[-1].node.span.end) is None else ","


def _are_objects_multiline(around: TextSurroundings, others: list[TreeNode], usual: EntryStyle) -> bool:
    """Return whether the nearest object with brackets spans several lines."""
    for node in others:
        if node.members and node is not around.document.root and around.has_brackets(node):
            return around.has_newline(node.span.start, node.span.end)
    return usual.spread


def _is_flow_style(around: TextSurroundings, node: TreeNode) -> bool | None:
    """Return whether a YAML node is in flow style; None for the root and for empty nodes."""
    if node is around.document.root or not (node.members or node.items):
        return None
    return around.has_brackets(node)
