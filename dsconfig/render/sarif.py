"""SARIF 2.1.0: the findings with their rules and fixes, as code scanning services take them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from textwrap import dedent
from typing import TYPE_CHECKING
from urllib.parse import quote

from dsconfig.core.diagnostic import Diagnostic, Location, dotted
from dsconfig.core.version import __version__
from dsconfig.render.fingerprint import Fingerprints, as_json, relative
from dsconfig.render.json import reader
from dsconfig.render.terminal import printable

if TYPE_CHECKING:
    from dsconfig.render import Report, RulePage, Target
    from dsconfig.render.terminal import Style

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {"error": "error", "warning": "warning", "info": "note"}


def render(reports: Iterable[Report], target: Target, style: Style) -> Iterator[str]:  # noqa: ARG001  one shape for all
    """One log with one run, a line for each result. It names only the rules that spoke."""
    rules: dict[str, tuple[int, dict[str, object]]] = {}
    fingerprints = Fingerprints()
    readers: list[dict[str, object]] = []
    troubles: list[dict[str, object]] = []
    yield f'{{"$schema": "{SCHEMA}", "version": "2.1.0", "runs": [{{"results": ['
    comma = "\n"
    for report in reports:
        if why := report.read_error or report.why_not_config:
            troubles.append(_trouble(report.name, why))
            continue
        readers.append({"path": relative(report.name), **reader(report.reader)})
        regions = _Regions(report.document.text if report.document else "")
        for found in report.diagnostics:
            if found.code not in rules:
                rules[found.code] = len(rules), _rule(found, report.rule(found.code))
            result = _result(report, found, rules[found.code][0], regions)
            result["partialFingerprints"] = {"dsconfig/v1": fingerprints.of(report.name, found)}
            yield comma + as_json(result)
            comma = ",\n"
    rest = {
        "tool": {
            "driver": {"name": "dsconfig", "version": __version__, "rules": [r for _, r in rules.values()]}
        },
        "invocations": [{"executionSuccessful": not troubles, "toolExecutionNotifications": troubles}],
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {"SRCROOT": {"description": {"text": "the root of the repository"}}},
        "properties": {"target": target.text, "releases": list(target.releases), "readers": readers},
    }
    yield f"\n],\n{as_json(rest)[1:]}]}}\n"


def _rule(found: Diagnostic, page: RulePage | None) -> dict[str, object]:
    rule: dict[str, object] = {"id": found.code, "name": _pascal(found.name), "helpUri": found.url}
    if page is not None:
        effect = page.effect
        rule["shortDescription"] = {"text": page.title}
        first, _, rest = page.doc.strip().partition("\n")
        text = f"{first}\n{dedent(rest)}"
        rule["fullDescription"] = {"text": _summary(text)}
        rule["help"] = {"text": text, "markdown": text}
        rule["defaultConfiguration"] = {"level": _LEVELS[effect.severity]}
        rule["properties"] = {"effect": effect.value, "tags": ["deepspeed", effect.value]}
    return rule


def _trouble(name: str, why: str) -> dict[str, object]:
    """A file of which nothing is known, and why."""
    return {
        "level": "error",
        "message": {"text": _unlinked(f"{printable(relative(name))}: {printable(why)}")},
        "locations": [_location(name, None, "")],
    }


def _unlinked(text: str) -> str:
    """A message without links: SARIF reads `[text](address)` as one, whatever stands around it (3.11.6)."""
    return text.replace("](", r"\](")


def _pascal(name: str) -> str:
    """`unknown-key` as SARIF names rules: UnknownKey."""
    return "".join(word.capitalize() for word in name.split("-"))


def _summary(doc: str) -> str:
    """The page up to its first example, as running text."""
    return " ".join(re.split(r"\n\s*(?:Bad|Good|Fixed)\b[^\n]*:\n", doc)[0].split())


def _result(report: Report, found: Diagnostic, index: int, regions: _Regions) -> dict[str, object]:
    result: dict[str, object] = {
        "ruleId": found.code,
        "ruleIndex": index,
        "level": _LEVELS[found.severity],
        "message": {"text": _unlinked(f"{found.message}; {found.help}" if found.help else found.message)},
        "locations": [_location(report.name, found.location, found.dotted)],
        "properties": {"effect": found.effect.value, "releases": list(found.releases)},
    }
    if found.related:
        result["relatedLocations"] = [
            {
                **_location(report.name, other.location, dotted(other.path)),
                "message": {"text": _unlinked(other.message)},
            }
            for other in found.related
        ]
    fixes = list(_fixes(report, found, regions))
    if fixes:
        result["fixes"] = fixes
    return result


def _location(name: str, place: Location | None, key: str) -> dict[str, object]:
    physical: dict[str, object] = {"artifactLocation": _artifact(name)}
    if place is not None:
        physical["region"] = {
            "startLine": place.line,
            "startColumn": place.column,
            "endLine": place.end_line,
            "endColumn": place.end_column,
        }
    location: dict[str, object] = {"physicalLocation": physical}
    if key:
        location["logicalLocations"] = [{"fullyQualifiedName": key, "kind": "member"}]
    return location


def _artifact(name: str) -> dict[str, object]:
    path = relative(name)
    try:
        uri = quote(path, errors="surrogateescape")  # the bytes of the name, whatever they are
    except UnicodeEncodeError:
        uri = quote(path, errors="surrogatepass")
    if os.path.isabs(path):
        return {"uri": f"file://{uri if uri.startswith('/') else f'/{uri}'}"}
    return {"uri": uri, "uriBaseId": "SRCROOT"}


def _fixes(report: Report, found: Diagnostic, regions: _Regions) -> Iterator[dict[str, object]]:
    edits = report.edits(found)
    if found.fix is None or not edits:
        return
    replacements = [
        {"deletedRegion": regions.between(start, end), "insertedContent": {"text": text}}
        for start, end, text in edits
    ]
    yield {
        "description": {"text": f"{found.fix.title}{'' if found.fix.safe else ' (unsafe)'}"},
        "artifactChanges": [{"artifactLocation": _artifact(report.name), "replacements": replacements}],
    }


class _Regions:
    """Lines and columns of stretches of a text."""

    def __init__(self, text: str) -> None:
        self.starts = [0, *(end.end() for end in re.finditer(r"\r\n?|\n", text))]

    def between(self, start: int, end: int) -> dict[str, int]:
        """The region; one that is empty says where something is put in."""
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
