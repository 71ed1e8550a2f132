"""Findings on a config that stands in a launch file become findings on that file: its paths, its places."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.core.diagnostic import Diagnostic, Fix, Location, Move, Operation, Replace
from dsconfig.document import Document, Span
from dsconfig.document.location import location, location_of

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.json_types import KeyPath
    from dsconfig.launch.job import Job

Place: TypeAlias = "Callable[[Location | None, KeyPath], Location | None]"


def brought_up(found: Diagnostic, job: Job) -> Diagnostic:
    """A finding on the config that a launch file holds, with the launch file's path and place.

    Where no edit of the launch file can be told from one of the config, the fix stays in words.
    """
    base, placed = job.inline or (), _places(job)
    fix = None if found.fix is None else _moved(found.fix, base)
    if fix is not None and not _can_be_edited(job, fix):
        found, fix = found._replace(help=found.help or fix.title), None
    if _is_added(found, job):
        todo = f"write `{found.path[0]}` in the launch file: {job.format.name} adds it where that is absent"
        found, fix = found._replace(help=todo), None
    return found._replace(
        path=(*base, *found.path),
        location=placed(found.location, found.path),
        related=tuple(
            each._replace(path=(*base, *each.path), location=placed(each.location, each.path))
            for each in found.related
        ),
        fix=fix,
    )


def is_made(found: Diagnostic, job: Job) -> bool:
    """Whether a finding is about what the launch file's program adds itself, to no harm: nobody wrote it."""
    return found.severity != "error" and _is_added(found, job)


def _is_added(found: Diagnostic, job: Job) -> bool:
    if job.document is None or not job.document.is_data or not found.path:
        return False
    if job.format.makes == _SAME_KEYS:
        return _written(job.launch, found.path) is None
    return job.format.makes in _OWN_ARGUMENTS and found.severity != "error"


def _can_be_edited(job: Job, fix: Fix) -> bool:
    config = job.document
    if config is None or not config.is_data:
        return config is not None and config.within is not None
    steps = fix.operations
    return job.format.makes == _SAME_KEYS and all(
        not isinstance(step, Replace) and job.launch.located(step.path) for step in steps
    )


_SAME_KEYS = "neox"
"""The program whose own files have the keys of the config at their root, or under `EXTRA`."""
EXTRA = "deepspeed_extra_args"
_OWN_ARGUMENTS = ("lightning", "openrlhf")
"""Programs that make the whole config of a few arguments: of the rest of it nobody can change anything."""


def _places(job: Job) -> Place:
    """Where in the launch file a place of the config is."""
    config, launch, whole = job.document, job.launch, _whole(job)
    if config is not None and config.within is not None:
        return lambda at, _: at
    if config is None or config.is_data:
        same = job.format.makes == _SAME_KEYS
        return lambda _, path: (same and _by_key(launch, path)) or whole
    span = Span(0, len(launch.text)) if job.inline is None else launch.span(job.inline)
    offsets = _offsets(launch, span, config.text)

    def placed(at: Location | None, _: KeyPath) -> Location | None:
        if at is None or not offsets:
            return whole
        last = max(at.start, at.end - 1)
        return location(launch, Span(offsets[at.start], offsets[last] + (at.end > at.start)))

    return placed


def _by_key(launch: Document, path: KeyPath) -> Location | None:
    """The place of a key, which may be written with hyphens."""
    there = _written(launch, path[:1])
    return None if there is None else location_of(launch, (*there, *path[1:]))


def written_at(job: Job, path: KeyPath) -> KeyPath | None:
    """Where a key of a config that a program makes stands in its launch file; None: it is added."""
    return _written(job.launch, path) if job.format.makes == _SAME_KEYS else None


def _written(launch: Document, path: KeyPath) -> KeyPath | None:
    """Where a key of the config stands in a launch file that has the same keys; None: nowhere."""
    for first in (path[:1], tuple(str(part).replace("_", "-") for part in path[:1])):
        for base in ((), (EXTRA,)) if first else ():
            if launch.located((*base, *first, *path[1:])):
                return (*base, *first, *path[1:])
    return None


def _whole(job: Job) -> Location | None:
    """The place that leads to the config: a key, or a line of a script."""
    if (line := job.line_span) is not None:
        return location(job.launch, line)
    return location_of(job.launch, job.inline or tuple(job.key.split(".")))


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
