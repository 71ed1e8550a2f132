"""Findings on a config that stands in a launch file become findings on that file: its paths, its places."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.checking.locate import location, location_of
from dsconfig.diagnostic import Diagnostic, Fix, Location, Move, Operation, Replace
from dsconfig.document import Document, Span

if TYPE_CHECKING:
    from dsconfig.checking.report import Report
    from dsconfig.json_types import KeyPath

Place: TypeAlias = "Callable[[Location | None], Location | None]"


def brought_up(found: Diagnostic, launch: Document, config: Document, base: KeyPath) -> Diagnostic:
    """A finding on the config that stands at `base` of a launch file, with the launch file's path and place.

    A config that stands there as text in a string keeps its help, and loses its fix.
    """
    text = config.within is None
    placed: Place = _in_string(launch, base, config.text) if text else lambda place: place
    return found._replace(
        path=(*base, *found.path),
        location=placed(found.location),
        related=tuple(
            each._replace(path=(*base, *each.path), location=placed(each.location)) for each in found.related
        ),
        help=found.help or (found.fix.title if text and found.fix else None),
        fix=None if text or found.fix is None else _moved(found.fix, base),
    )


def by_config(report: Report) -> Report:
    """The report with the paths of the config alone, where a launch file holds it."""

    def own(found: Diagnostic) -> Diagnostic:
        inside = found.path[: len(report.base)] == report.base
        return found._replace(path=found.path[len(report.base) :]) if inside else found

    if not report.base:
        return report
    kept, silenced = (tuple(map(own, group)) for group in (report.diagnostics, report.suppressed))
    return report.replaced(diagnostics=kept, suppressed=silenced)


def _moved(fix: Fix, base: KeyPath) -> Fix:
    return fix._replace(operations=tuple(_below(step, base) for step in fix.operations))


def _below(step: Operation, base: KeyPath) -> Operation:
    if isinstance(step, Replace):  # the text is the same
        return step
    if isinstance(step, Move):
        return Move((*base, *step.path), (*base, *step.to))
    return step._replace(path=(*base, *step.path))


def _in_string(launch: Document, base: KeyPath, text: str) -> Place:
    """Places of a text that is a string of the launch file; the string's where it has escapes."""
    whole = location_of(launch, base)
    offsets = _offsets(launch, launch.span(base), text)

    def placed(at: Location | None) -> Location | None:
        if at is None or not offsets:
            return whole
        last = max(at.start, at.end - 1)
        return location(launch, Span(offsets[at.start], offsets[last] + (at.end > at.start)))

    return placed


def _offsets(launch: Document, span: Span, text: str) -> list[int]:
    """Where each character of the text stands in the launch file, and its end; empty where not as it is."""
    start = launch.text.find(text, *span)
    if start >= 0:
        return list(range(start, start + len(text) + 1))
    lines = launch.text[span.start : span.end].splitlines(keepends=True)[1:]  # behind the `|` of a block
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    at = span.start + launch.text[span.start :].find("\n") + 1
    found: list[int] = []
    for line in lines:
        found += range(at + min(indent, len(line) - 1), at + len(line))
        at += len(line)
    whole = [*found, at]
    same = "".join(launch.text[each] for each in found).rstrip() == text.rstrip()
    return whole if same and len(whole) > len(text.rstrip()) else []
