"""Findings as the protocol's diagnostics: code and page, places that belong to them, tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic, Effect, Location, Severity
from dsconfig.lsp.open_documents import OpenText
from dsconfig.lsp.positions import Lines
from dsconfig.lsp.snapshot import Judged
from dsconfig.lsp.uris import uri_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace

SOURCE = "dsconfig"
_SEVERITIES: Mapping[Severity, int] = {"error": 1, "warning": 2, "info": 3}
_UNNECESSARY, _DEPRECATED = 1, 2
_TAGS: Mapping[Effect, int] = {Effect.IGNORED: _UNNECESSARY, Effect.DEPRECATED: _DEPRECATED}
"""What has no effect is shown faded, what is deprecated struck through."""


def answer(workspace: Workspace, params: JsonObject) -> JsonObject:
    """`textDocument/diagnostic`: the whole list."""
    judged = workspace.judged(params["textDocument"]["uri"])
    if judged is None:
        return {"kind": "full", "items": []}
    others = beside(workspace, judged)
    found: JsonObject = {"kind": "full", "items": items(judged)}
    if others:
        found["relatedDocuments"] = {uri: {"kind": "full", "items": each} for uri, each in others.items()}
    return found


def beside(workspace: Workspace, judged: Judged) -> dict[str, list[JsonObject]]:
    """What was found in files that are not open, and that a launch file leads to, by their URIs."""
    found: dict[str, list[JsonObject]] = {}
    todo = list(judged.report.children)
    while todo:
        report = todo.pop()
        todo += report.children
        if report.document is not None and workspace.text_of(report.name) is None:
            text = OpenText(uri_of(report.name), None, Lines(report.document.text, workspace.encoding), "")
            found[text.uri] = items(Judged(text, report))
    return found


def items(judged: Judged) -> list[JsonObject]:
    """The diagnostics of a text."""
    return [item(judged, number) for number in range(len(judged.report))]


def item(judged: Judged, number: int) -> JsonObject:
    """One finding."""
    found, lines = judged.report[number], judged.text.lines
    told: JsonObject = {
        "range": lines.range(*judged.places[number]),
        "severity": _SEVERITIES[found.severity],
        "code": found.code,
        "codeDescription": {"href": found.url},
        "source": SOURCE,
        "message": found.message if found.help is None else f"{found.message}\nhelp: {found.help}",
        "data": {"name": found.name, "effect": found.effect.value, "path": list(found.path)},
    }
    if (tag := _TAGS.get(found.effect)) is not None:
        told["tags"] = [tag]
    if related := _related(found, judged.text.uri, lines):
        told["relatedInformation"] = related
    return told


def _related(found: Diagnostic, uri: str, lines: Lines) -> list[JsonObject]:
    return [
        {"location": {"uri": uri, "range": _range(each.location, lines)}, "message": each.message}
        for each in found.related
        if each.location is not None
    ]


def _range(at: Location, lines: Lines) -> JsonObject:
    return lines.range(at.start, at.end)
