"""GitLab code quality report: a JSON list of all diagnostics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsconfig.render.machine_readable import Fingerprints, dump_json, escape_file_name, relative_path

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.render.report_protocols import CheckedReleases, FileReport
    from dsconfig.render.terminal_style import TerminalStyle

_SEVERITIES = {"error": "critical", "warning": "minor", "info": "info"}


def render(reports: Iterable[FileReport], target: CheckedReleases, style: TerminalStyle) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """Yield a JSON list for the whole run, one diagnostic per line."""
    fingerprints = Fingerprints()
    comma = "[\n"
    for report in reports:
        for diagnostic in report.diagnostics:
            yield comma + dump_json(_issue(report.name, diagnostic, fingerprints.of(report.name, diagnostic)))
            comma = ",\n"
    yield "\n]\n" if comma == ",\n" else "[]\n"


def _issue(name: str, diagnostic: Diagnostic, fingerprint: str) -> dict[str, object]:
    location = diagnostic.location
    first, last = location.file_lines if location else (1, None)
    lines = {"begin": first, "end": last} if location else {"begin": first}
    return {
        "description": f"{diagnostic.code} {diagnostic.message}",
        "check_name": diagnostic.name,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[diagnostic.severity],
        "location": {"path": escape_file_name(relative_path(name)), "lines": lines},
    }
