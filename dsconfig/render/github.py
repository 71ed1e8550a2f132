"""GitHub Actions workflow commands: an annotation for each diagnostic."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsconfig.core.diagnostic import Diagnostic
from dsconfig.render.machine_readable import relative_path
from dsconfig.render.terminal_style import escape_unprintable

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.render.report_protocols import CheckedReleases, FileReport
    from dsconfig.render.terminal_style import TerminalStyle

_LEVELS = {"error": "error", "warning": "warning", "info": "notice"}


def render(reports: Iterable[FileReport], target: CheckedReleases, style: TerminalStyle) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """Yield one workflow command for each diagnostic."""
    for report in reports:
        for diagnostic in report.diagnostics:
            yield _annotation_command(report.name, diagnostic)


def _annotation_command(name: str, diagnostic: Diagnostic) -> str:
    properties = {
        "title": f"{diagnostic.code} {diagnostic.name} ({diagnostic.effect.value})",
        "file": relative_path(name),
    }
    location = diagnostic.location
    if location is not None:
        properties.update(line=str(location.file_lines[0]), endLine=str(location.file_lines[1]))
        if (
            location.line == location.end_line and location.cell is None
        ):  # GitHub ignores columns of multi-line annotations
            properties.update(col=str(location.column), endColumn=str(location.end_column))
    lines = [diagnostic.message, *([f"help: {diagnostic.help}"] if diagnostic.help else [])]
    parameters = ",".join(f"{key}={_escape_property(value)}" for key, value in properties.items())
    return (
        f"::{_LEVELS[diagnostic.severity]} "
        f"{parameters}::{'%0A'.join(_escape_data(escape_unprintable(line)) for line in lines)}\n"
    )


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(escape_unprintable(text)).replace(":", "%3A").replace(",", "%2C")
