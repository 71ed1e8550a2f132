"""The stable document for machines, version 1. Fields are only ever added to it.

`path` is a list of keys and indices, as in Python. Places are 1-based, columns count code points, the end is
exclusive; they are null where the source has no text. The text is plain ASCII, whatever the keys contain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dsconfig.diagnostic import Diagnostic, Fix, Location, Move, Operation, Rename, Replace, Set
from dsconfig.render.machine import as_json

if TYPE_CHECKING:
    from dsconfig.render import Reader, Report, Target
    from dsconfig.render.style import Style

VERSION = 1


def render(reports: Iterable[Report], target: Target, style: Style) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """One document for the whole run, a line for each file."""
    yield f'{{"version": {VERSION}, "target": {as_json(target.text)}, "files": ['
    comma = "\n"
    for report in reports:
        found = [_diagnostic(diagnostic) for diagnostic in report.diagnostics]
        file = {"path": report.name, "target": report.target.text, "reader": reader(report.reader)}
        if report.foreign:
            file["foreign"] = report.foreign
        yield comma + as_json({**file, "diagnostics": found})
        comma = ",\n"
    yield "\n]}\n" if comma == ",\n" else "]}\n"


def reader(found: Reader) -> dict[str, object]:
    """Who reads a config, and why that is believed."""
    return {"name": found.name, "why": found.why, "origin": found.origin, "likely": found.likely}


def _diagnostic(found: Diagnostic) -> dict[str, object]:
    return {
        "code": found.code,
        "name": found.name,
        "effect": found.effect.value,
        "severity": found.severity,
        "message": found.message,
        "help": found.help,
        "path": found.path,
        **_place(found.location),
        "releases": found.releases,
        "related": [
            {"message": other.message, "path": other.path, **_place(other.location)}
            for other in found.related
        ],
        "fix": None if found.fix is None else _fix(found.fix),
    }


def _place(location: Location | None) -> dict[str, int | None]:
    return {name: getattr(location, name, None) for name in ("line", "column", "end_line", "end_column")}


def _fix(fix: Fix) -> dict[str, object]:
    return {"title": fix.title, "safe": fix.safe, "operations": [_operation(step) for step in fix.operations]}


def _operation(step: Operation) -> dict[str, object]:
    if isinstance(step, Replace):
        return {"operation": "replace", "start": step.start, "end": step.end, "text": step.text}
    kind: dict[str, object] = {"operation": type(step).__name__.lower(), "path": step.path}
    match step:
        case Set():
            return {**kind, "value": _plain(step.value)}
        case Rename():
            return {**kind, "name": step.name}
        case Move():
            return {**kind, "to": step.to}
        case _:
            return kind


def _plain(value: object) -> object:
    """The value as JSON can say it: what it cannot (NaN, an integer of too many digits) becomes a string."""
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case int() if value.bit_length() > 14_000:
            return hex(value)
        case str() | int() | float() | None:
            return value
        case _:
            return str(value)
