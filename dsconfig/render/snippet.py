"""The source around a place, with the place marked underneath."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dsconfig.core.diagnostic import Location
from dsconfig.render.printable import cells
from dsconfig.render.terminal import Style

GUTTER = 8
"""Columns kept for line numbers and bars."""
CUT = "..."
MOST_INDENT = 1000


class SourceLine(NamedTuple):
    """A source line as shown, and the blanks before and width of what is marked in it."""

    number: int
    source: str
    before: int
    marked: int


def source_lines(text: str, place: Location, style: Style) -> Iterator[SourceLine | None]:
    """The lines of `place`: its first and last; None stands for lines left out between them."""
    width = style.width - GUTTER
    first = max(0, place.start - (place.column - 1))
    last = max(0, place.end - (place.end_column - 1))
    yield _source_line(text, place.line, first, (place.start, place.end), width, style.encoding)
    # A span that ends before the first character of a line does not mark that line.
    if place.end_line > place.line and place.end_column > 1:
        if place.end_line > place.line + 1:
            yield None
        start = min(last + _indent(text, last, place.end), place.end)
        yield _source_line(text, place.end_line, last, (start, place.end), width, style.encoding)


def _indent(text: str, start: int, end: int) -> int:
    line = text[start : min(end, start + MOST_INDENT)]
    return len(line) - len(line.lstrip())


def _source_line(
    text: str, number: int, first: int, span: tuple[int, int], width: int, encoding: str
) -> SourceLine:
    end = _line_end(text, max(first, span[0]), width)
    start, stop = min(span[0], end), min(span[1], end)
    # Nothing beyond the width can be shown: a line of megabytes costs no more than a short one.
    low, high = max(first, start - width), min(end, start + width)
    shown = cells(text[low:high], encoding)
    left = _left(shown, start - low, width)
    head = CUT if low + left > first else ""
    right = _right(shown, left, width - len(head) - len(CUT))
    if _span(shown, right, len(shown)) <= len(CUT) and high == end:
        right = len(shown)
    tail = CUT if low + right < end else ""
    source = head + "".join(piece for piece, _ in shown[left:right]) + tail
    before = len(head) + _span(shown, left, start - low)
    return SourceLine(number, source, before, max(1, _span(shown, start - low, min(right, stop - low))))


def _line_end(text: str, start: int, width: int) -> int:
    """Where the line ends, or a place further than can be shown."""
    far = min(len(text), start + width + 1)
    ends = (text.find("\n", start, far), text.find("\r", start, far))
    return min((found for found in ends if found >= 0), default=far)


def _span(shown: list[tuple[str, int]], start: int, stop: int) -> int:
    return sum(width for _, width in shown[start:stop])


def _left(shown: list[tuple[str, int]], start: int, width: int) -> int:
    """The first character to show: the line's own, unless the place would then stand far to the right."""
    if _span(shown, 0, len(shown)) <= width or _span(shown, 0, start) <= width // 2:
        return 0
    left, room = start, width // 3
    while left > 0 and room > 0:
        left -= 1
        room -= shown[left][1]
    return left


def _right(shown: list[tuple[str, int]], left: int, room: int) -> int:
    right = left
    while right < len(shown) and room >= shown[right][1]:
        room -= shown[right][1]
        right += 1
    return right
