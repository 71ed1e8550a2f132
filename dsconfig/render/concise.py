"""Concise output, one line per diagnostic: `path:line:col: code name effect severity: message`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsconfig.core.diagnostic import Diagnostic
from dsconfig.render.terminal_style import escape_unprintable

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.render.report_protocols import CheckedReleases, FileReport
    from dsconfig.render.terminal_style import TerminalStyle


def render(reports: Iterable[FileReport], target: CheckedReleases, style: TerminalStyle) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """Yield one line per diagnostic."""
    for report in reports:
        for diagnostic in report.diagnostics:
            severity = style.paint(diagnostic.severity, diagnostic.severity)
            rule = style.link(style.paint(diagnostic.code, "bold"), diagnostic.url)
            location = format_position(report.name, diagnostic)
            message = escape_unprintable(diagnostic.message)
            yield f"{location}: {rule} {diagnostic.name} {diagnostic.effect.value} {severity}: {message}\n"


def format_position(name: str, diagnostic: Diagnostic) -> str:
    """Return a diagnostic's file, line and column, or its key path if it has no location."""
    if diagnostic.location is not None:
        return f"{escape_unprintable(name)}:{diagnostic.location.shown}"
    return escape_unprintable(f"{name}:{diagnostic.dotted}" if diagnostic.path else name)
