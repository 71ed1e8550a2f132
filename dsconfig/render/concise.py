"""One line a finding: `path:line:col: code name effect severity: message`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic
from dsconfig.render.terminal import printable

if TYPE_CHECKING:
    from dsconfig.render import Report, Target
    from dsconfig.render.terminal import Style


def render(reports: Iterable[Report], target: Target, style: Style) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """A line for each finding."""
    for report in reports:
        for found in report.diagnostics:
            kind = style.paint(found.severity, found.severity)
            rule = style.link(style.paint(found.code, "bold"), found.url)
            where = place(report.name, found)
            message = printable(found.message)
            yield f"{where}: {rule} {found.name} {found.effect.value} {kind}: {message}\n"


def place(name: str, found: Diagnostic) -> str:
    """Where a finding is: line and column, or the path of its key where there is no text."""
    if found.location is not None:
        return f"{printable(name)}:{found.location.line}:{found.location.column}"
    return printable(f"{name}:{found.dotted}" if found.path else name)
