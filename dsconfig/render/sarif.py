"""SARIF 2.1.0 output: diagnostics with their rules and fixes, for code scanning services."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from textwrap import dedent
from urllib.parse import quote

from dsconfig.core.diagnostic import Diagnostic, Location, dotted_path
from dsconfig.core.version import __version__
from dsconfig.render.json import consumer_record
from dsconfig.render.machine_readable import Fingerprints, dump_json, relative_path
from dsconfig.render.terminal_style import escape_unprintable

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.render.report_protocols import CheckedReleases, FileReport, RulePage
    from dsconfig.render.terminal_style import TerminalStyle

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(reports: Iterable[FileReport], target: CheckedReleases, style: TerminalStyle) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """Yield a log with one run and one result per line; it lists only the rules that have results."""
    rules: dict[str, tuple[int, dict[str, object]]] = {}
    fingerprints = Fingerprints()
    readers: list[dict[str, object]] = []
    notifications: list[dict[str, object]] = []
    yield f'{{"$schema": "{SCHEMA}", "version": "2.1.0", "runs": [{{"results": ['
    comma = "\n"
    for report in reports:
        if why := report.read_error or report.why_not_config:
            notifications.append(_notification(report.name, why))
            continue
        readers.append({"path": relative_path(report.name), **consumer_record(report.reader)})
        regions = _SarifRegions(report.document.text if report.document else "")
        for diagnostic in report.diagnostics:
            if diagnostic.code not in rules:
                rules[diagnostic.code] = (
                    len(rules),
                    _reporting_descriptor(diagnostic, report.rule(diagnostic.code)),
                )
            result = _sarif_result(report, diagnostic, rules[diagnostic.code][0], regions)
            result["partialFingerprints"] = {"dsconfig/v1": fingerprints.of(report.name, diagnostic)}
            yield comma + dump_json(result)
            comma = ",\n"
    tail = {
        "tool": {
            "driver": {"name": "dsconfig", "version": __version__, "rules": [r for _, r in rules.values()]}
        },
        "invocations": [
            {"executionSuccessful": not notifications, "toolExecutionNotifications": notifications}
        ],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "root of the repository"}}},
        "properties": {"target": target.text, "releases": list(target.releases), "readers": readers},
    }
    yield f"\n],\n{dump_json(tail)[1:]}]}}\n"


def _reporting_descriptor(diagnostic: Diagnostic, page: RulePage | None) -> dict[str, object]:
    rule: dict[str, object] = {
        "id": diagnostic.code,
        "name": _pascal_case(diagnostic.name),
        "helpUri": diagnostic.url,
    }
    if page is not None:
        effect = page.effect
        rule["shortDescription"] = {"text": page.title}
        first, _, rest = page.doc.strip().partition("\n")
        text = f"{first}\n{dedent(rest)}"
        rule["fullDescription"] = {"text": _page_summary(text)}
        rule["help"] = {"text": text, "markdown": text}
        rule["defaultConfiguration"] = {"level": _LEVELS[effect.severity]}
        rule["properties"] = {"effect": effect.value, "tags": ["deepspeed", effect.value]}
    return rule


def _notification(name: str, why: str) -> dict[str, object]:
    """Return the notification that says that a file could not be checked."""
    return {
        "level": "error",
        "message": {
            "text": _escape_links(f"{escape_unprintable(relative_path(name))}: {escape_unprintable(why)}")
        },
        "locations": [_sarif_location(name, None, "")],
    }


def _escape_links(text: str) -> str:
    """Escape brackets in a message, because SARIF reads `[text](address)` as a link (3.11.6)."""
    return text.replace("](", r"\](")


def _pascal_case(name: str) -> str:
    """Return a rule name in SARIF's convention: `unknown-key` becomes UnknownKey."""
    return "".join(word.capitalize() for word in name.split("-"))


def _page_summary(doc: str) -> str:
    """Return a rule's documentation up to the first example, as plain text."""
    return " ".join(re.split(r"\n\s*(?:Bad|Good|Fixed)\b[^\n]*:\n", doc)[0].split())


def _sarif_result(
    report: FileReport, diagnostic: Diagnostic, index: int, regions: _SarifRegions
) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": diagnostic.code,
        "ruleIndex": index,
        "level": _LEVELS[diagnostic.severity],
        "message": {
            "text": _escape_links(
                f"{diagnostic.message}; {diagnostic.help}" if diagnostic.help else diagnostic.message
            )
        },
        "locations": [_sarif_location(report.name, diagnostic.location, diagnostic.dotted)],
        "properties": {"effect": diagnostic.effect.value, "releases": list(diagnostic.releases)},
    }
    if diagnostic.related:
        result["relatedLocations"] = [
            {
                **_sarif_location(report.name, other.location, dotted_path(other.path)),
                "message": {"text": _escape_links(other.message)},
            }
            for other in diagnostic.related
        ]
    # A fix edits the source of a cell, whose offsets are not those of the notebook file.
    is_in_cell = diagnostic.location is not None and diagnostic.location.cell is not None
    fixes = [] if is_in_cell else list(_sarif_fixes(report, diagnostic, regions))
    if fixes:
        result["fixes"] = fixes
    return result


def _sarif_location(name: str, location: Location | None, key: str) -> dict[str, object]:
    physical: dict[str, object] = {"artifactLocation": _artifact_location(name)}
    if location is not None and location.cell is not None:
        first, last = location.file_lines
        physical["region"] = {"startLine": first, "endLine": last}
    elif location is not None:
        physical["region"] = {
            "startLine": location.line,
            "startColumn": location.column,
            "endLine": location.end_line,
            "endColumn": location.end_column,
        }
    result: dict[str, object] = {"physicalLocation": physical}
    if key:
        result["logicalLocations"] = [{"fullyQualifiedName": key, "kind": "member"}]
    return result


def _artifact_location(name: str) -> dict[str, object]:
    path = relative_path(name)
    try:
        uri = quote(path, errors="surrogateescape")  # the bytes of the name, even if they are not UTF-8
    except UnicodeEncodeError:
        uri = quote(path, errors="surrogatepass")
    if uri.startswith("//"):  # a network share of Windows
        return {"uri": f"file:{uri}"}
    if os.path.isabs(path):
        return {"uri": f"file://{uri if uri.startswith('/') else f'/{uri}'}"}
    return {"uri": uri, "uriBaseId": "SRCROOT"}


def _sarif_fixes(
    report: FileReport, diagnostic: Diagnostic, regions: _SarifRegions
) -> Iterator[dict[str, object]]:
    edits = report.edits(diagnostic)
    if diagnostic.fix is None or not edits:
        return
    replacements = [
        {"deletedRegion": regions.between(start, end), "insertedContent": {"text": text}}
        for start, end, text in edits
    ]
    yield {
        "description": {"text": f"{diagnostic.fix.title}{'' if diagnostic.fix.safe else ' (unsafe)'}"},
        "artifactChanges": [
            {"artifactLocation": _artifact_location(report.name), "replacements": replacements}
        ],
    }


class _SarifRegions:
    """Converts text ranges to SARIF regions, with lines and columns."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(end.end() for end in re.finditer(r"\r\n?|\n", text))]

    def between(self, start: int, end: int) -> dict[str, int]:
        """Return the region of a range; an empty range is an insertion."""
        first, last = self._line(start), self._line(end)
        return {
            "startLine": first + 1,
            "startColumn": start - self.starts[first] + 1,
            "endLine": last + 1,
            "endColumn": end - self.starts[last] + 1,
        }

    def _line(self, at: int) -> int:
        from bisect import bisect_right

        return bisect_right(self.starts, at) - 1
