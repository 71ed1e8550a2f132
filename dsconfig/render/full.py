"""Findings for people: what, where, the source with the place marked, and what to do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic, Location, dotted
from dsconfig.render.concise import place
from dsconfig.render.printable import printable
from dsconfig.render.snippet import source_lines
from dsconfig.render.wrap import wrapped

if TYPE_CHECKING:
    from dsconfig.render import Report, Target
    from dsconfig.render.terminal import Style


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
