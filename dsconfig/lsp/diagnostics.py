"""Findings as the protocol's diagnostics: code and page, places that belong to them, tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.diagnostic import Diagnostic, Effect, Location, Severity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.json_types import JsonObject
    from dsconfig.lsp.judged import Judged
    from dsconfig.lsp.positions import Lines
    from dsconfig.lsp.workspace import Workspace

SOURCE = "dsconfig"
_SEVERITIES: Mapping[Severity, int] = {"error": 1, "warning": 2, "info": 3}
_UNNECESSARY, _DEPRECATED = 1, 2
_TAGS: Mapping[Effect, int] = {Effect.IGNORED: _UNNECESSARY, Effect.DEPRECATED: _DEPRECATED}
"""What has no effect is shown faded, what is deprecated struck through."""


def answer(workspace: Workspace, params: JsonObject) -> JsonObject:
    """`textDocument/diagnostic`: the whole list."""
    judged = workspace.judged(params["textDocument"]["uri"])
    return {"kind": "full", "items": [] if judged is None else items(judged)}


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
