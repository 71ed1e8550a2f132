"""Layout of a text: indentation, neighbors of an entry, and the style that new entries follow."""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from dsconfig.document.document import LINE_END, line_start
from dsconfig.document.reader import in_quotes
from dsconfig.document.tree import Span

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.document.document import Document
    from dsconfig.document.tree import Node


# How a text is laid out, and new values written in its manner.

_PLAIN_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.$-]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d{0,99})(?:\.\d{1,99})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_YAML_FLOAT: Final = re.compile(r"-?\d+\.\d+(?:[eE][+-]\d+)?")
_BLANKS: Final = re.compile(r"[ \t]*")
_LOOKED_AT: Final = 1000
"""Values among which an indented entry is looked for."""
_YAML_WORDS: Final = frozenset(["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"])


@dataclass(frozen=True, slots=True)
class Layout:
    """Line ends and indentation of a text."""

    newline: str
    unit: str
    yaml: bool
    python: bool = False

    @classmethod
    def of(cls, document: Document) -> Layout:
        """As the document has them; two blanks where nothing is indented."""
        found = LINE_END.search(document.text)
        newline, form = found.group() if found else "\n", document.format
        return cls(newline, _unit(document), form == "yaml", form == "python")


@dataclass(frozen=True, slots=True)
class Raw:
    """A value as it is written somewhere, in lines that are indented by `indent` there."""

    text: str
    indent: str
    block: bool = False
    """Whether it is YAML in block style, which cannot stand in brackets."""


class Manner(NamedTuple):
    """How the entries around a place are written; `key` and `word` are samples, of which the quote counts."""

    key: str = '"'
    word: str = '"'
    colon: str = ": "
    gap: str = " "
    """Behind a comma, on one line."""
    padding: str = ""
    """Inside the braces of an object on one line."""
    comma: str = ","
    """Between entries on lines of their own; Hjson does without."""
    trailing: str = ""
    """Behind the last of them."""
    spread: bool = True
    """Whether objects take lines of their own."""
    flow: bool = True
    """Whether objects stand in brackets, as they need not in YAML."""


def _unit(document: Document) -> str:
    """The blanks by which the first indented entry stands further in than what holds it."""
    todo = deque([(document.root, 0)] if document.root else [])
    for _ in range(_LOOKED_AT):
        if not todo:
            break
        node, holder = todo.popleft()
        todo += ((member.node, member.key_span.start) for member in node.members)
        todo += ((item, item.span.start) for item in node.items)
        if node.members:
            start = node.members[0].key_span.start
            at = node.span.start if document.text[node.span.start] in "{[" else holder
            before, outer = _indent(document, start), _indent(document, at)
            alone = len(before) == document.position(start).column - 1
            if before and alone and before != outer and before.startswith(outer):
                return before[len(outer) :]
    return "  "


def _indent(document: Document, at: int) -> str:
    """The blanks at the beginning of the line of an offset."""
    found = _BLANKS.match(document.text, at - document.position(at).column + 1)
    return found.group() if found else ""


def quoted_like(sample: str, name: str) -> str:
    """The name in the quotes of the sample, or without where the sample has none and the name needs none."""
    if sample[:1] == "'" and name.isprintable() and "'" not in name and "\\" not in name:
        return f"'{name}'"
    if sample[:1] not in ('"', "'", "") and _PLAIN_KEY.fullmatch(name) and name.lower() not in _YAML_WORDS:
        return name
    return in_quotes(name)


def dump(value: Json, layout: Layout, indent: str | None, manner: Manner) -> str:
    """The value as text: on one line where `indent` is None, else objects on lines below `indent`.

    Raises:
        ValueError: the value has no text that is read back as it is.
    """
    if isinstance(value, Raw):
        if value.block:
            raise ValueError("YAML in block style cannot stand in brackets")
        return moved(value, layout, indent or "")
    if isinstance(value, dict) and value:
        pairs = [(f"{quoted_like(manner.key, str(key))}{manner.colon}", item) for key, item in value.items()]
        if indent is None or not manner.spread:
            inside = [f"{key}{dump(item, layout, None, manner)}" for key, item in pairs]
            return f"{{{manner.padding}{f',{manner.gap}'.join(inside)}{manner.padding}}}"
        inner = indent + layout.unit
        lines = [_line(key, item, layout, inner, manner) for key, item in pairs]
        return f"{{{layout.newline}{joined(lines, layout, manner)}{layout.newline}{indent}}}"
    if isinstance(value, list | tuple):
        return "[" + f",{manner.gap}".join(dump(item, layout, None, manner) for item in value) + "]"
    return scalar(value, layout, manner.word if layout.yaml or manner.word in QUOTES else '"')


def _line(key: str, value: Json, layout: Layout, indent: str, manner: Manner) -> str:
    """A line of an object, without its comma."""
    if isinstance(value, str) and not (manner.comma or manner.trailing):
        return f"{indent}{key}{scalar(value, layout, manner.word)}"
    return f"{indent}{key}{dump(value, layout, indent, manner)}"


def joined(lines: list[str], layout: Layout, manner: Manner) -> str:
    """The lines of an object one below the other."""
    return f"{manner.comma}{layout.newline}".join(lines) + manner.trailing


QUOTES: Final = ("'", '"')


def scalar(value: Json, layout: Layout, sample: str = '"') -> str:
    """A value without entries; a string in the quotes of the sample, or bare as the sample is."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} has no text in JSON")
    if isinstance(value, str):
        return quoted_like(sample, value)
    if layout.python:
        return repr(value)
    text = json.dumps(value, ensure_ascii=False)
    if layout.yaml and isinstance(value, float) and "." not in text:
        return text.replace("e", ".0e")  # YAML 1.1 takes 1e-05 for text
    return text


def as_written(text: object, value: object, *, yaml: bool) -> bool:
    """Whether the text of a string, without its quotes, is this number."""
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        return False
    if yaml and isinstance(value, float) and not _YAML_FLOAT.fullmatch(text):
        return False
    read = int(text) if text.lstrip("-").isdigit() else float(text)
    return type(read) is type(value) and read == value


def moved(raw: Raw, layout: Layout, indent: str) -> str:
    """The text with its lines shifted to another indentation."""
    first, *lines = LINE_END.split(raw.text)
    shifted = [indent + line[len(raw.indent) :] if line.startswith(raw.indent) else line for line in lines]
    return layout.newline.join((first, *shifted))


# What stands around a place in the text: lines, indentation, commas, comments.

_LEADING: Final = re.compile(r"[ \t]*(,)[ \t]*")
_SPACE: Final = re.compile(r"[ \t\r\n\ufeff]*")


class Surroundings:
    """Answers questions about offsets in a document's text."""

    def __init__(self, document: Document) -> None:
        self.document, self.text = document, document.text
        self.layout = Layout.of(document)
        self.comments = {span.start: span.end for span, _ in document.comments}
        """Where each comment ends, by where it starts."""
        self.starts = sorted(self.comments)

    def line_start(self, at: int) -> int:
        """Where the line of the offset begins."""
        return line_start(self.text, at)

    def starts_line(self, at: int) -> bool:
        """Whether only blanks stand before the offset on its line."""
        return not self.text[self.line_start(at) : at].strip(" \t\ufeff")

    def indent(self, at: int) -> str:
        """The blanks at the beginning of the line of the offset."""
        start = self.line_start(at)
        return self.text[start : self.after_blanks(start)]

    def newline(self, at: int) -> int | None:
        """Where the line end at the offset ends; None where there is none."""
        found = LINE_END.match(self.text, at)
        return found.end() if found else None

    def has_newline(self, start: int, end: int) -> bool:
        """Whether a line ends in this stretch."""
        return LINE_END.search(self.text, start, end) is not None

    def after_blanks(self, at: int) -> int:
        """Behind the blanks at the offset."""
        found = _BLANKS.match(self.text, at)
        return found.end() if found else at

    def after_space(self, at: int) -> int:
        """Behind the blanks and line ends at the offset."""
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def comma_after(self, at: int) -> int | None:
        """Where the comma stands that ends an entry, behind white space and comments."""
        at = self.after_space(at)
        while at in self.comments:
            at = self.after_space(self.comments[at])
        return at if self.text[at : at + 1] == "," else None

    def leading_comma(self, at: int) -> Span | None:
        """The comma with which the line of an entry begins, where it does not end the line before."""
        found = _LEADING.fullmatch(self.text, self.line_start(at), at)
        return Span(*found.span(1)) if found else None

    def has_comment(self, start: int, end: int) -> bool:
        """Whether a comment begins in this stretch."""
        at = bisect_left(self.starts, start)
        return at < len(self.starts) and self.starts[at] < end

    def end_of_entry(self, at: int) -> int:
        """Behind the comments that stand on the same line: they belong to what is before them."""
        while (after := self.after_blanks(at)) in self.comments:
            at = self.comments[after]
        return at

    def has_brackets(self, node: Node) -> bool:
        """Whether the object or array stands in brackets."""
        return self.text[node.span.start : node.span.start + 1] in ("{", "[")


# How what stands around a place is written, so that what is put there looks like its neighbours.

_Sample = TypeVar("_Sample")
_COLON: Final = re.compile(r"[ \t]*:[ \t]*")
_GAP: Final = re.compile(r"[ \t]*,[ \t]*")
_MOST: Final = 200
"""Objects and lists looked at, the nearest first: beyond them the text has no manner of its own."""


def manner_of(around: Surroundings, parent: Node) -> Manner:
    """The manner of an object's entries; what they do not show, the rest of the text does."""
    near = list(islice(_nearest(around, parent), _MOST))
    usual = Manner()

    def ask(probe: Callable[[Surroundings, Node], _Sample | None], default: _Sample) -> _Sample:
        return next((found for node in near if (found := probe(around, node)) is not None), default)

    key, comma = ask(_key, usual.key), ask(_comma, usual.comma)
    like_key = key in QUOTES or around.layout.yaml or not comma
    return Manner(
        key=key,
        word=ask(_word, key if like_key else usual.word),
        colon=ask(_colon, usual.colon),
        gap=ask(_gap, usual.gap),
        padding=ask(_padding, usual.padding),
        comma=comma,
        trailing=ask(_trailing, usual.trailing),
        spread=_spread(around, near[1:], usual),
        flow=ask(_flow, False) if around.layout.yaml else True,
    )


def _nearest(around: Surroundings, parent: Node) -> Iterator[Node]:
    """The object, the objects and lists in it, the last one first, and then all others."""
    todo = [parent, *([around.document.root] if around.document.root else [])]
    seen: set[int] = set()
    while todo:
        node = todo.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        nested = [child for child in _children(node) if child.members or child.items]
        todo = [*nested, *todo] if node is parent else [*todo, *nested]


def _children(node: Node) -> list[Node]:
    """The values of an object or a list, the last one first."""
    return [*[member.node for member in reversed(node.members)], *reversed(node.items)]


def _key(around: Surroundings, node: Node) -> str | None:
    return around.text[node.members[-1].key_span.start] if node.members else None


def _word(around: Surroundings, node: Node) -> str | None:
    """How a string begins: with its quote, or with a letter where it has none."""
    for child in _children(node):
        text = around.text[child.span.start : child.span.start + 3]
        if child.kind == "string" and text and text[0] not in "|>&*!" and text != "'''":
            return text[0]
    return None


def _colon(around: Surroundings, node: Node) -> str | None:
    for member in reversed(node.members):
        between = around.text[member.key_span.end : member.node.span.start]
        if _COLON.fullmatch(between):
            return between
    return None


def _gap(around: Surroundings, node: Node) -> str | None:
    """What stands behind the comma between two entries of a line."""
    entries = [member.node.span for member in node.members] or [item.span for item in node.items]
    starts = [member.key_span.start for member in node.members] or [item.span.start for item in node.items]
    for end, start in zip(reversed(entries[:-1]), reversed(starts[1:]), strict=True):
        between = around.text[end.end : start]
        if _GAP.fullmatch(between):
            return between.partition(",")[2]
    return None


def _padding(around: Surroundings, node: Node) -> str | None:
    if not node.members or around.text[node.span.start : node.span.start + 1] != "{":
        return None
    inside = around.text[node.span.start + 1 : node.members[0].key_span.start]
    return inside if _BLANKS.fullmatch(inside) else None


def _comma(around: Surroundings, node: Node) -> str | None:
    """What ends an entry that has lines of its own."""
    if around.layout.yaml:
        return ","
    for one, other in zip(node.members, node.members[1:], strict=False):
        bare = one.node.kind == "string" and around.text[one.node.span.start] not in "'\""
        if not bare and around.has_newline(one.node.span.end, other.key_span.start):
            return "" if around.comma_after(one.node.span.end) is None else ","
    return None


def _trailing(around: Surroundings, node: Node) -> str | None:
    """What ends the last entry of an object of several lines."""
    if not node.members or not around.has_brackets(node) or not around.has_newline(*node.span):
        return None
    return "" if around.comma_after(node.members[-1].node.span.end) is None else ","


def _spread(around: Surroundings, others: list[Node], usual: Manner) -> bool:
    """Whether objects take lines of their own; the nearest says it."""
    for node in others:
        if node.members and node is not around.document.root and around.has_brackets(node):
            return around.has_newline(node.span.start, node.span.end)
    return usual.spread


def _flow(around: Surroundings, node: Node) -> bool | None:
    """Whether YAML stands in brackets here; the root and its entries do not count, they are what they are."""
    if node is around.document.root or not (node.members or node.items):
        return None
    return around.has_brackets(node)
