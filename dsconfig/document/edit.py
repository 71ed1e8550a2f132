"""From operations on paths to edits of the text: everything that an edit does not mean stays byte for byte.

JSON, JSONC and Hjson here and YAML's flow style with them; YAML's block style is in `blocks.py`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dsconfig.document.layout import Layout, Raw, dump, quoted_like
from dsconfig.document.tree import Member, Node, Path, Span

if TYPE_CHECKING:
    from dsconfig.document.text import Document

_BLANK: Final = re.compile(r"[ \t]*")
_SPACE: Final = re.compile(r"[ \t\r\n\ufeff]*")
_NEWLINE: Final = re.compile(r"\r\n?|\n")


def end_of(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Where a match that begins at the offset ends; the offset itself where nothing matches."""
    found = pattern.match(text, at)
    return found.end() if found else at


class EditError(ValueError):
    """The operation cannot be carried out on this text; the message says why."""


class Edit(NamedTuple):
    """Put `text` in place of the code points from `start` to `end`, exclusive."""

    start: int
    end: int
    text: str


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with the edits made. They speak of the same text and do not overlap."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: edit[:2]):  # what stands first at a place comes first
        if edit.start < at:
            raise EditError("two edits overlap")
        pieces += text[at : edit.start], edit.text
        at = edit.end
    return "".join((*pieces, text[at:]))


def trimmed(old: str, new: str) -> Edit:
    """The one edit that leads from the old text to the new."""
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return Edit(start, len(old) - end, new[start : len(new) - end])


def editor(document: Document) -> Editor:
    """What edits this document.

    Raises:
        EditError: there is no text, or nothing could be read from it.
    """
    if document.is_data or document.root is None:
        raise EditError("there is no text to edit")
    if document.format == "yaml":
        from dsconfig.document.blocks import YamlEditor

        return YamlEditor(document)
    return Editor(document)


class Editor:
    """Edits of one text. Each method gives the edits of one operation, or raises `EditError`."""

    def __init__(self, document: Document) -> None:
        self.document, self.text = document, document.text
        self.comments = {span.start: span.end for span, _ in document.comments}
        self.layout = Layout.of(document)

    # -- operations --------------------------------------------------------------------------------

    def set(self, path: Path, value: Any) -> list[Edit]:
        """Give the key this value; sections on the way to it are made where they are missing."""
        node = self.document.node(path)
        if node is None:
            return self.add(path, value)
        self.check_own(path)
        return [self.replaced(node, value)]

    def remove(self, path: Path) -> list[Edit]:
        """Take the entry out, with its comma, and with its lines where it has them to itself."""
        parent, index = self.entry(path)
        return self.without(parent, index)

    def rename(self, path: Path, name: str) -> list[Edit]:
        """Write another key, in the quotes that the old one has."""
        parent, index = self.entry(path)
        if parent.kind != "object" or any(member.key == name for member in parent.members):
            raise EditError(f"`{name}` cannot be the name of {path[-1]!r}")
        span = parent.members[index].key_span
        return [Edit(*span, quoted_like(self.text[span.start : span.end], name))]

    def copy(self, path: Path, to: Path) -> list[Edit]:
        """Add the value found at `path`, as it is written, at `to`; the first half of moving it."""
        node = self.document.node(path)
        self.check_own(path)
        if node is None or self.document.located(to) or to[: len(path)] == path:
            raise EditError("there is nothing to move, or no place to move it to")
        return self.add(to, self.raw(node))

    # -- what stands where -------------------------------------------------------------------------

    def entry(self, path: Path) -> tuple[Node, int]:
        """The object or array that holds the entry, and which it is."""
        parent = self.document.node(path[:-1]) if path else None
        if parent is not None and self.document.located(path):
            self.check_own(path)
            for index in range(len(parent.members) - 1, -1, -1):
                if parent.members[index].key == path[-1]:
                    return parent, index
            if isinstance(path[-1], int):
                return parent, path[-1]
        raise EditError("there is no such key")

    def check_own(self, path: Path) -> None:
        """Raise where the text at the path is not the path's alone; only YAML has such places."""

    def spans(self, node: Node) -> list[Span]:
        """The stretch of each entry, from its key to the end of its value."""
        if node.kind == "object":
            return [_stretch(member) for member in node.members]
        return [item.span for item in node.items]

    def skip(self, at: int) -> int:
        """Step over white space and comments."""
        while True:
            at = end_of(_SPACE, self.text, at)
            if at not in self.comments:
                return at
            at = self.comments[at]

    def comma_after(self, at: int) -> int | None:
        """Where the comma stands that ends an entry."""
        at = self.skip(at)
        return at if self.text[at : at + 1] == "," else None

    def commented(self, start: int, end: int) -> bool:
        """Whether a comment begins in this stretch."""
        return any(start <= at < end for at in self.comments)

    def line_start(self, at: int) -> int:
        """Where the line of the offset begins."""
        return max(self.text.rfind("\n", 0, at), self.text.rfind("\r", 0, at)) + 1

    def indent(self, at: int) -> str:
        """The blanks at the beginning of the line of the offset."""
        start = self.line_start(at)
        return self.text[start : end_of(_BLANK, self.text, start)]

    def starts_line(self, at: int) -> bool:
        """Whether only blanks stand before the offset on its line."""
        return not self.text[self.line_start(at) : at].strip(" \t\ufeff")

    def raw(self, node: Node) -> Raw | Any:
        """The value as it is written, to be put elsewhere; a word without quotes gets them."""
        text = self.text[node.span.start : node.span.end]
        if node.kind == "string" and text[:1] not in ("'", '"'):
            return node.value
        return Raw(text, self.indent(node.span.start))

    # -- replacing ---------------------------------------------------------------------------------

    def replaced(self, node: Node, value: Any) -> Edit:
        """The node's own stretch with the value in it."""
        many = "\n" in self.text[node.span.start : node.span.end] or "\n" in self.text[: node.span.start]
        text = dump(value, self.layout, self.indent(node.span.start) if many else None)
        return Edit(*node.span, text)

    # -- removing ----------------------------------------------------------------------------------

    def without(self, parent: Node, index: int) -> list[Edit]:
        """The parent without one of its entries."""
        spans = self.spans(parent)
        start, end = spans[index]
        if len(spans) == 1 and self.braced(parent):
            inside = parent.span.start + 1, parent.span.end - 1
            if not self.commented(inside[0], start) and not self.commented(end, inside[1]):
                return [Edit(*inside, "")]
        comma = self.comma_after(end)
        edits = []
        if comma is None and index and index == len(spans) - 1:
            before = self.comma_after(spans[index - 1].end)
            edits += [] if before is None else [Edit(before, before + 1, "")]
        if comma is not None and self.commented(end, comma):
            return [Edit(start, end, ""), Edit(comma, comma + 1, "")]
        return [*edits, self.widened(start, end if comma is None else comma + 1)]

    def braced(self, node: Node) -> bool:
        """Whether the object or array stands in brackets."""
        return self.text[node.span.start : node.span.start + 1] in ("{", "[")

    def widened(self, start: int, end: int) -> Edit:
        """The stretch without what would be left of its lines: blanks, and the line ends of whole lines."""
        text = self.text
        after = end_of(_BLANK, text, end)
        newline = _NEWLINE.match(text, after)
        at_end = newline is not None or after == len(text)
        if self.starts_line(start):
            first = max(self.line_start(start), text.startswith("\ufeff"))
            return Edit(first, newline.end(), "") if newline else Edit(start, after, "")
        if text[start - 1] in "{[":
            following = end_of(_SPACE, text, end)
            # YAML wants a blank before a comment.
            return Edit(start, after, " ") if following in self.comments else Edit(start, following, "")
        if at_end or text[after] in "}]":
            return Edit(start - len(text[:start]) + len(text[:start].rstrip(" \t")), end, "")
        return Edit(start, after, "")

    # -- adding ------------------------------------------------------------------------------------

    def add(self, path: Path, value: Any) -> list[Edit]:
        """A new entry at the end of the nearest section that exists."""
        depth = len(path) - 1
        while (node := self.document.node(path[:depth])) is None:
            depth -= 1
        self.check_own(path[:depth])
        if node.kind != "object" or not all(isinstance(key, str) for key in path[depth:]):
            raise EditError(f"`{'.'.join(map(str, path[:depth]))}` is no section to add a key to")
        for key in reversed(path[depth + 1 :]):
            value = {key: value}
        return self.added(node, str(path[depth]), value)

    def added(self, parent: Node, key: str, value: Any) -> list[Edit]:
        """One more entry of the object."""
        if not parent.members:
            return [self.first_entry(parent, key, value)]
        last = _stretch(parent.members[-1])
        bare = self.is_bare(parent.members[-1].node)
        inner = self.indent(last.start)
        on_lines = self.starts_line(last.start)
        if bare and not on_lines:
            inner += self.layout.unit
        many = on_lines or bare
        entry = self.pair(parent, key, value, inner if many else None)
        comma = self.comma_after(last.end)
        edits = [] if bare or comma is not None else [Edit(last.end, last.end, ",")]
        if not many:
            at = last.end if comma is None else comma + 1
            entry = f"{edits.pop().text if edits else ''} {entry}{'' if comma is None else ','}"
            return [Edit(at, at, entry)]
        at = self.end_of_entry(last.end if comma is None else comma + 1)
        entry = f"{self.layout.newline}{inner}{entry}{'' if comma is None else ','}"
        return [*edits, Edit(at, at, entry)]

    def pair(self, parent: Node, key: str, value: Any, indent: str | None) -> str:
        """The text of key and value; a key stands in quotes unless its neighbours do without."""
        word = quoted_like("" if parent.members else '"', key)
        if parent.members:
            span = parent.members[-1].key_span
            word = quoted_like(self.text[span.start : span.end], key)
        return f"{word}: {dump(value, self.layout, indent)}"

    def is_bare(self, node: Node) -> bool:
        """Whether this is a word that goes on to the end of its line, any comma included."""
        if self.layout.yaml:
            return False
        return node.kind == "string" and self.text[node.span.start : node.span.start + 1] not in ("'", '"')

    def end_of_entry(self, at: int) -> int:
        """Behind the comments that stand on the same line: they belong to what is before them."""
        while True:
            after = end_of(_BLANK, self.text, at)
            if after not in self.comments:
                return at
            at = self.comments[after]

    def first_entry(self, parent: Node, key: str, value: Any) -> Edit:
        """The first entry of an object that had none."""
        if not self.braced(parent):
            raise EditError("the file is empty")
        start, end = parent.span.start + 1, parent.span.end - 1
        if _NEWLINE.search(self.text, start, end):
            outer = self.indent(end)
            inner = outer + self.layout.unit
            entry = inner + self.pair(parent, key, value, inner) + self.layout.newline
            first = self.line_start(end)
            return Edit(first, first, entry)
        inside = self.text[start:end]
        if inside.strip():
            return Edit(start, start, f"{self.pair(parent, key, value, None)} ")
        return Edit(start, end, self.pair(parent, key, value, None))


def _stretch(member: Member) -> Span:
    return Span(member.key_span.start, max(member.key_span.end, member.node.span.end))
