"""What stands around a place in the text: lines, indentation, commas, comments."""

from __future__ import annotations

import re
from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from dsconfig.document.document import LINE_END, line_start
from dsconfig.document.indentation import Layout
from dsconfig.document.tree import Span

if TYPE_CHECKING:
    from dsconfig.document.document import Document
    from dsconfig.document.tree import Node

_BLANKS: Final = re.compile(r"[ \t]*")
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
