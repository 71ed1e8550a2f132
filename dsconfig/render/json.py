"""The stable document for machines, version 1. Fields are only ever added to it.

`path` is a list of keys and indices, as in Python. Places are 1-based, columns count code points, the end is
exclusive; they are null where the source has no text. The text is plain ASCII, whatever the keys contain.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dsconfig.render.fingerprint import as_json

if TYPE_CHECKING:
    from dsconfig.render import Reader, Report, Target
    from dsconfig.render.terminal import Style

VERSION = 1


def render(reports: Iterable[Report], target: Target, style: Style) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """One document for the whole run, a line for each file."""
    yield f'{{"version": {VERSION}, "target": {as_json(target.text)}, "files": ['
    comma = "\n"
    for report in reports:
        yield comma + as_json(file(report))
        comma = ",\n"
    yield "\n]}\n" if comma == ",\n" else "]}\n"


def file(report: Report) -> dict[str, object]:
    """What is said of one file."""
    if report.read_error:
        return {"path": report.name, "error": report.read_error, "diagnostics": []}
    said = {"path": report.name, "target": report.target.text, "reader": reader(report.reader)}
    if report.why_not_config:
        said["foreign"] = report.why_not_config
    return {**said, "diagnostics": [found.to_dict() for found in report.diagnostics]}


def reader(found: Reader) -> dict[str, object]:
    """Who reads a config, and why that is believed."""
    return {"name": found.name, "why": found.why, "origin": found.origin, "likely": found.likely}
