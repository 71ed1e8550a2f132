"""GitLab's code quality report: one JSON list of all findings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from dsconfig.render.fingerprint import Fingerprints, as_json, in_words, relative

if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.render import Report, Target
    from dsconfig.render.terminal import Style

_SEVERITIES = {"error": "critical", "warning": "minor", "info": "info"}


def render(reports: Iterable[Report], target: Target, style: Style) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """One list for the whole run, a line for each finding."""
    fingerprints = Fingerprints()
    comma = "[\n"
    for report in reports:
        for found in report.diagnostics:
            yield comma + as_json(_issue(report.name, found, fingerprints.of(report.name, found)))
            comma = ",\n"
    yield "\n]\n" if comma == ",\n" else "[]\n"


def _issue(name: str, found: Diagnostic, fingerprint: str) -> dict[str, object]:
    place = found.location
    lines = {"begin": place.line, "end": place.end_line} if place else {"begin": 1}
    return {
        "description": f"{found.code} {found.message}",
        "check_name": found.name,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[found.severity],
        "location": {"path": in_words(relative(name)), "lines": lines},
    }
