"""Diagnostics as LSP writes them, pulled by the editor or published to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic, Effect, Location, Severity
from dsconfig.lsp.open_documents import OpenText
from dsconfig.lsp.protocol import Lines, uri_of
from dsconfig.lsp.workspace import Judged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace


# Findings as the protocol's diagnostics: code and page, places that belong to them, tags.

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


# Findings that an editor is told of unasked, or asked to ask for.

PULLED = "diagnostics"
SHOWN = {PULLED: "diagnostic", "codeLens": "codeLens", "inlayHint": "inlayHint"}
"""By the editor's capability of the workspace, what it can be told to ask for again."""


class Publisher:
    """Tells of each text that changed, and of the files beside it that it leads to."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._beside: dict[str, set[str]] = {}
        """By the URI of a launch file, the files that are not open and were told of because of it."""

    @property
    def _pulls(self) -> bool:
        """Whether the editor asks for diagnostics, and is not told of them unasked."""
        return "diagnostic" in self._workspace.client.get("textDocument", {})

    def next(self) -> Iterator[JsonObject]:
        """The messages about one text, if any changed."""
        workspace = self._workspace
        if workspace.closed:
            uri = workspace.closed.pop()
            yield from self._cleared({uri, *self._beside.pop(uri, ())})
        elif workspace.stale:
            uri = next(iter(workspace.stale))
            del workspace.stale[uri]
            self._refresh()
            if not self._pulls:
                yield from self._told(uri)

    def _told(self, uri: str) -> Iterator[JsonObject]:
        workspace = self._workspace
        judged = workspace.judged(uri)
        text = workspace.texts.get(uri)
        if text is None:
            return
        yield _published(uri, text.version, [] if judged is None else items(judged))
        others = {} if judged is None else beside(workspace, judged)
        yield from self._cleared(self._beside.get(uri, set()) - others.keys())
        self._beside[uri] = set(others)
        for other, found in others.items():
            yield _published(other, None, found)

    def _cleared(self, uris: set[str]) -> Iterator[JsonObject]:
        for uri in sorted(uris - self._workspace.texts.keys()):
            if not self._pulls:
                yield _published(uri, None, [])

    def _refresh(self) -> None:
        """Have the editor ask again for what it shows in texts that did not change themselves."""
        workspace = self._workspace
        known = workspace.client.get("workspace", {})
        if workspace.unasked:
            for capability, method in SHOWN.items():
                if known.get(capability, {}).get("refreshSupport") and (capability != PULLED or self._pulls):
                    workspace.ask(f"workspace/{method}/refresh", {})
        workspace.unasked = False


def _published(uri: str, version: int | None, found: list[JsonObject]) -> JsonObject:
    params: JsonObject = {"uri": uri, "diagnostics": found}
    if version is not None:
        params["version"] = version
    return {"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params}
