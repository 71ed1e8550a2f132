"""Workflow commands of GitHub Actions: each finding becomes an annotation of its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic
from dsconfig.render.fingerprint import relative
from dsconfig.render.terminal import printable

if TYPE_CHECKING:
    from dsconfig.render import Report, Target
    from dsconfig.render.terminal import Style

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def render(reports: Iterable[Report], target: Target, style: Style) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """A line for each finding."""
    for report in reports:
        for found in report.diagnostics:
            yield _command(report.name, found)


def _command(name: str, found: Diagnostic) -> str:
    properties = {"title": f"{found.code} {found.name} ({found.effect.value})", "file": relative(name)}
    place = found.location
    if place is not None:
        properties.update(line=str(place.line), endLine=str(place.end_line))
        if place.line == place.end_line:  # columns count only within one line
            properties.update(col=str(place.column), endColumn=str(place.end_column))
    lines = [found.message, *([f"help: {found.help}"] if found.help else [])]
    said = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{_LEVELS[found.severity]} {said}::{'%0A'.join(_data(printable(line)) for line in lines)}\n"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(printable(text)).replace(":", "%3A").replace(",", "%2C")
