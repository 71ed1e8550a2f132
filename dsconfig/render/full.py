"""Diagnostics for people: message, location, source snippet, and advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.core.diagnostic import Diagnostic, Location, dotted
from dsconfig.render.concise import place
from dsconfig.render.terminal import Style, cells, printable, wrapped

if TYPE_CHECKING:
    from dsconfig.render import Report, Target


# Findings for people: what, where, the source with the place marked, and what to do.


def render(reports: Iterable[Report], target: Target, style: Style) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """Each finding as a small block with an empty line after it; first, who is found to read the file."""
    for report in reports:
        if report.diagnostics and report.reader.origin not in ("argument", "default"):
            yield wrapped(printable(f"{report.name}: {report.reader}"), style, 2) + "\n\n"
        for found in report.diagnostics:
            yield "\n".join(_block(report, found, style)) + "\n\n"


def _block(report: Report, found: Diagnostic, style: Style) -> Iterator[str]:
    kind = style.link(style.paint(f"{found.severity}[{found.code}]", found.severity), found.url)
    said = f"{kind} {found.name} ({found.effect.value}): {style.paint(printable(found.message), 'bold')}"
    yield wrapped(said, style, 2)
    text = report.document.text if report.document else ""
    pad = " " * _digits(found)
    yield f"{pad}{style.paint('-->', 'place')} {place(report.name, found)}"
    yield from _source(text, found.location, pad, style, found.severity)
    for other in found.related:
        aside = f"{_aside(other.location, other.path)}{printable(other.message)}"
        yield wrapped(f"{pad}{style.paint(':::', 'place')} {aside}", style, len(pad) + 4)
        yield from _source(text, other.location, pad, style, "place")
    for label, note in _notes(report, found):
        lines = [printable(line) for line in note.splitlines()] or [""]
        under = len(pad) + len(label) + 5
        first = f"{pad} {style.paint('=', 'place')} {style.paint(label, 'bold')}: {lines[0]}"
        yield wrapped(first, style, under)
        yield from (wrapped(f"{' ' * under}{line}", style, under) for line in lines[1:])


def _digits(found: Diagnostic) -> int:
    """The width of the largest line number in the block."""
    places = [found.location, *(other.location for other in found.related)]
    return max((len(str(place.end_line)) for place in places if place), default=1)


def _aside(location: Location | None, path: tuple[str | int, ...]) -> str:
    if location is not None:
        return f"{location.line}:{location.column}: "
    return f"{printable(dotted(path))}: " if path else ""


def _source(text: str, location: Location | None, pad: str, style: Style, tone: str) -> Iterator[str]:
    if not text or location is None:
        return
    bar = style.paint("|", "place")
    yield f"{pad} {bar}"
    for line in source_lines(text, location, style):
        if line is None:
            yield style.paint("...", "place")
            continue
        yield f"{style.paint(str(line.number).rjust(len(pad)), 'place')} {bar} {line.source}".rstrip()
        yield f"{pad} {bar} {' ' * line.before}{style.paint('^' * line.marked, tone)}"


def _notes(report: Report, found: Diagnostic) -> Iterator[tuple[str, str]]:
    if found.help:
        yield "help", found.help
    if found.fix is not None:
        yield "fix", f"{found.fix.title}{'' if found.fix.safe else ' (unsafe)'}"
    checked = report.target.releases
    if len(checked) > 1 and found.releases and len(found.releases) < len(checked):
        yield "releases", spans(found.releases, checked)


def spans(releases: Sequence[str], checked: Sequence[str]) -> str:
    """Releases as runs of the checked ones: `0.14.0 to 0.16.9, 0.19.8`."""
    order = {release: index for index, release in enumerate(checked)}
    known = sorted((release for release in releases if release in order), key=order.__getitem__)
    runs = [
        [release for _, release in run]
        for _, run in groupby(enumerate(known), key=lambda item: order[item[1]] - item[0])
    ]
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


# The source around a place, with the place marked underneath.

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
