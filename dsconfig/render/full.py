"""Output for people: message, location, source snippet and help of each diagnostic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from dsconfig.core.diagnostic import SEVERITIES, Diagnostic, Location, dotted_path
from dsconfig.core.json_types import NamedTuple
from dsconfig.render.concise import format_position
from dsconfig.render.summary import count_noun
from dsconfig.render.terminal_style import TerminalStyle, character_cells, escape_unprintable, wrap_line

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.render.report_protocols import CheckedReleases, FileReport, JobSummary


def render(reports: Iterable[FileReport], target: CheckedReleases, style: TerminalStyle) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """Yield a block for each diagnostic, preceded by a line about the detected consumer."""
    for report in reports:
        if report.summary is not None:
            yield wrap_line(format_job(report.summary, style), style, 2) + "\n\n"
        if report.diagnostics and report.reader.origin not in ("argument", "default"):
            yield wrap_line(escape_unprintable(f"{report.name}: {report.reader}"), style, 2) + "\n\n"
        for diagnostic in report.diagnostics:
            yield "\n".join(_render_diagnostic(report, diagnostic, style)) + "\n\n"


def format_job(job: JobSummary, style: TerminalStyle) -> str:
    """Describe a job on one line, such as `run.sh:3: Trainer, 16 ranks, batch 256 = 4 × 4 × 16, 2 errors`."""
    ranks = job.world_size
    location = style.paint(escape_unprintable(job.location), "bold")
    if job.why_not_checked:
        return f"{location}: {escape_unprintable(f'{job.consumer}, not checked: {job.why_not_checked}')}"
    with_config = f" with {job.config}" if job.config else ""
    parts = [escape_unprintable(f"{job.consumer}{with_config}")]
    open_size = escape_unprintable(
        f"world size unknown ({job.unknown})" if job.unknown else "world size unknown"
    )
    parts.append(open_size if ranks is None else "1 rank" if ranks == 1 else f"{ranks} ranks")
    if job.batch is not None and job.data_parallel_size is not None:
        train, micro, steps = job.batch
        parts.append(f"batch {train} = {micro} × {steps} × {job.data_parallel_size:g}")
    elif job.formula:
        parts.append(escape_unprintable(job.formula))
    elif job.unknown and ranks is not None:
        parts.append(escape_unprintable(job.unknown))
    counts = [
        style.paint(count_noun(job.counts[severity], severity), severity)
        for severity in SEVERITIES
        if job.counts.get(severity)
    ]
    parts += counts or [style.paint("no problems found", "good")]
    return f"{location}: {', '.join(parts)}"


def _render_diagnostic(report: FileReport, diagnostic: Diagnostic, style: TerminalStyle) -> Iterator[str]:
    severity = style.link(
        style.paint(f"{diagnostic.severity}[{diagnostic.code}]", diagnostic.severity), diagnostic.url
    )
    message = style.paint(escape_unprintable(diagnostic.message), "bold")
    yield wrap_line(f"{severity} {diagnostic.name} ({diagnostic.effect.value}): {message}", style, 2)
    text = report.document.text if report.document else ""
    pad = " " * _line_number_width(diagnostic)
    yield f"{pad}{style.paint('-->', 'place')} {format_position(report.name, diagnostic)}"
    yield from _render_source(text, diagnostic.location, pad, style, diagnostic.severity)
    for other in diagnostic.related:
        message = f"{_related_location(other.location, other.path)}{escape_unprintable(other.message)}"
        yield wrap_line(f"{pad}{style.paint(':::', 'place')} {message}", style, len(pad) + 4)
        yield from _render_source(text, other.location, pad, style, "place")
    for label, note in _notes_of_diagnostic(report, diagnostic):
        lines = [escape_unprintable(line) for line in note.splitlines()] or [""]
        indent = len(pad) + len(label) + 5
        first = f"{pad} {style.paint('=', 'place')} {style.paint(label, 'bold')}: {lines[0]}"
        yield wrap_line(first, style, indent)
        yield from (wrap_line(f"{' ' * indent}{line}", style, indent) for line in lines[1:])


def _line_number_width(diagnostic: Diagnostic) -> int:
    """Return the width, in columns, of the largest line number shown for a diagnostic."""
    locations = [diagnostic.location, *(other.location for other in diagnostic.related)]
    return max((len(str(place.end_line)) for place in locations if place), default=1)


def _related_location(location: Location | None, path: tuple[str | int, ...]) -> str:
    if location is not None:
        return f"{location.shown}: "
    return f"{escape_unprintable(dotted_path(path))}: " if path else ""


def _render_source(
    text: str, location: Location | None, pad: str, style: TerminalStyle, tone: str
) -> Iterator[str]:
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


def _notes_of_diagnostic(report: FileReport, diagnostic: Diagnostic) -> Iterator[tuple[str, str]]:
    if diagnostic.help:
        yield "help", diagnostic.help
    if diagnostic.fix is not None:
        yield "fix", f"{diagnostic.fix.title}{'' if diagnostic.fix.safe else ' (unsafe)'}"
    checked = report.target.releases
    if len(checked) > 1 and diagnostic.releases and len(diagnostic.releases) < len(checked):
        yield "releases", format_releases(diagnostic.releases, checked)


def format_releases(releases: Sequence[str], checked: Sequence[str]) -> str:
    """Format releases as ranges of the checked releases, such as `0.14.0 to 0.16.9, 0.19.8`."""
    order = {release: index for index, release in enumerate(checked)}
    affected = sorted((release for release in releases if release in order), key=order.__getitem__)
    runs = [
        [release for _, release in run]
        for _, run in groupby(enumerate(affected), key=lambda item: order[item[1]] - item[0])
    ]
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


# Source snippets.

GUTTER = 8
"""Number of columns for line numbers and bars."""
CUT = "..."
MOST_INDENT = 1000


class SourceLine(NamedTuple):
    """A source line for display, with the offset and width of the marker below it."""

    number: int
    source: str
    before: int
    marked: int


def source_lines(text: str, location: Location, style: TerminalStyle) -> Iterator[SourceLine | None]:
    """Yield the first and the last line of a location, with None in between if lines are omitted."""
    width = style.width - GUTTER
    first = max(0, location.start - (location.column - 1))
    last = max(0, location.end - (location.end_column - 1))
    yield _source_line(text, location.line, first, (location.start, location.end), width, style.encoding)
    # A span that ends before the first character of a line does not mark that line.
    if location.end_line > location.line and location.end_column > 1:
        if location.end_line > location.line + 1:
            yield None
        start = min(last + _marker_indent(text, last, location.end), location.end)
        yield _source_line(text, location.end_line, last, (start, location.end), width, style.encoding)


def _marker_indent(text: str, start: int, end: int) -> int:
    line = text[start : min(end, start + MOST_INDENT)]
    return len(line) - len(line.lstrip())


def _source_line(
    text: str, number: int, first: int, span: tuple[int, int], width: int, encoding: str
) -> SourceLine:
    end = _line_end(text, max(first, span[0]), width)
    start, stop = min(span[0], end), min(span[1], end)
    # Only the visible part is processed, so that a line of megabytes costs no more than a short one.
    low, high = max(first, start - width), min(end, start + width)
    shown = character_cells(text[low:high], encoding)
    left = _first_visible_character(shown, start - low, width)
    head = CUT if low + left > first else ""
    right = _last_visible_character(shown, left, width - len(head) - len(CUT))
    if _marker_width(shown, right, len(shown)) <= len(CUT) and high == end:
        right = len(shown)
    tail = CUT if low + right < end else ""
    source = head + "".join(piece for piece, _ in shown[left:right]) + tail
    before = len(head) + _marker_width(shown, left, start - low)
    return SourceLine(
        number, source, before, max(1, _marker_width(shown, start - low, min(right, stop - low)))
    )


def _line_end(text: str, start: int, width: int) -> int:
    """Return the end of a line, or of its visible part if it is long."""
    far = min(len(text), start + width + 1)
    ends = (text.find("\n", start, far), text.find("\r", start, far))
    return min((end for end in ends if end >= 0), default=far)


def _marker_width(shown: list[tuple[str, int]], start: int, stop: int) -> int:
    return sum(width for _, width in shown[start:stop])


def _first_visible_character(shown: list[tuple[str, int]], start: int, width: int) -> int:
    """Return the index of the first character to show: 0, unless the marker is far to the right."""
    if _marker_width(shown, 0, len(shown)) <= width or _marker_width(shown, 0, start) <= width // 2:
        return 0
    left, room = start, width // 3
    while left > 0 and room > 0:
        left -= 1
        room -= shown[left][1]
    return left


def _last_visible_character(shown: list[tuple[str, int]], left: int, room: int) -> int:
    right = left
    while right < len(shown) and room >= shown[right][1]:
        room -= shown[right][1]
        right += 1
    return right
