"""LSP diagnostics, pulled by the editor or published to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic, Effect, Location, Severity
from dsconfig.lsp.open_documents import OpenText
from dsconfig.lsp.protocol import Lines, uri_of
from dsconfig.lsp.workspace import Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace


# Conversion to the protocol: code and page, related locations, tags.

SOURCE = "dsconfig"
_SEVERITIES: Mapping[Severity, int] = {"error": 1, "warning": 2, "info": 3}
_UNNECESSARY, _DEPRECATED = 1, 2
_TAGS: Mapping[Effect, int] = {Effect.IGNORED: _UNNECESSARY, Effect.DEPRECATED: _DEPRECATED}
"""Keys without effect are shown faded, deprecated keys struck through."""


def answer(workspace: Workspace, params: JsonObject) -> JsonObject:
    """Answer `textDocument/diagnostic` with the full list."""
    snapshots = workspace.snapshots(params["textDocument"]["uri"])
    related = _all_other_files(workspace, snapshots)
    items = [item for snapshot in snapshots for item in lsp_diagnostics(snapshot)]
    report: JsonObject = {"kind": "full", "items": items}
    if related:
        report["relatedDocuments"] = {
            uri: {"kind": "full", "items": diagnostics} for uri, diagnostics in related.items()
        }
    return report


def _all_other_files(workspace: Workspace, snapshots: list[Snapshot]) -> dict[str, list[JsonObject]]:
    return {uri: items for each in snapshots for uri, items in other_files(workspace, each).items()}


def other_files(workspace: Workspace, snapshot: Snapshot) -> dict[str, list[JsonObject]]:
    """Diagnostics of files that a launch file names and that are not open, by URI."""
    by_uri: dict[str, list[JsonObject]] = {}
    pending = list(snapshot.report.children)
    while pending:
        report = pending.pop()
        pending += report.children
        if report.document is not None and workspace.text_of(report.name) is None:
            text = OpenText(uri_of(report.name), None, Lines(report.document.text, workspace.encoding), "")
            by_uri[text.uri] = lsp_diagnostics(Snapshot(text, report))
    return by_uri


def lsp_diagnostics(snapshot: Snapshot) -> list[JsonObject]:
    """Diagnostics of a document."""
    return [lsp_diagnostic(snapshot, number) for number in range(len(snapshot.report))]


def lsp_diagnostic(snapshot: Snapshot, number: int) -> JsonObject:
    """One diagnostic."""
    diagnostic, lines = snapshot.report[number], snapshot.text.lines
    record: JsonObject = {
        "range": lines.range(*snapshot.spans[number]),
        "severity": _SEVERITIES[diagnostic.severity],
        "code": diagnostic.code,
        "codeDescription": {"href": diagnostic.url},
        "source": SOURCE,
        "message": diagnostic.message
        if diagnostic.help is None
        else f"{diagnostic.message}\nhelp: {diagnostic.help}",
        "data": {"name": diagnostic.name, "effect": diagnostic.effect.value, "path": list(diagnostic.path)},
    }
    if (tag := _TAGS.get(diagnostic.effect)) is not None:
        record["tags"] = [tag]
    if related := _related(diagnostic, snapshot.text.uri, lines):
        record["relatedInformation"] = related
    return record


def _related(diagnostic: Diagnostic, uri: str, lines: Lines) -> list[JsonObject]:
    return [
        {"location": {"uri": uri, "range": _range(related.location, lines)}, "message": related.message}
        for related in diagnostic.related
        if related.location is not None
    ]


def _range(location: Location, lines: Lines) -> JsonObject:
    return lines.range(location.start, location.end)


# Publishing and refreshing.

PULLED = "diagnostics"
REFRESHABLE = {PULLED: "diagnostic", "codeLens": "codeLens", "inlayHint": "inlayHint"}
"""Refresh requests by the workspace capability of the editor that enables them."""


class Publisher:
    """Publish diagnostics of changed documents, and of files that launch files among them name."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._other_files: dict[str, set[str]] = {}
        """Files that are not open and have published diagnostics, by the URI of their launch file."""

    @property
    def _pulls(self) -> bool:
        """Whether the editor pulls diagnostics instead of receiving them."""
        return "diagnostic" in self._workspace.client.get("textDocument", {})

    def next(self) -> Iterator[JsonObject]:
        """Messages about one changed document, if any."""
        workspace = self._workspace
        if workspace.closed:
            uri = workspace.closed.pop()
            yield from self._clear({uri, *self._other_files.pop(uri, ())})
        elif workspace.stale:
            uri = next(iter(workspace.stale))
            del workspace.stale[uri]
            self._refresh()
            if not self._pulls:
                yield from self._publish(uri)

    def _publish(self, uri: str) -> Iterator[JsonObject]:
        workspace = self._workspace
        snapshots = workspace.snapshots(uri)
        text = workspace.texts.get(uri)
        if text is None:
            return
        yield _published(uri, text.version, [item for each in snapshots for item in lsp_diagnostics(each)])
        published = _all_other_files(workspace, snapshots)
        yield from self._clear(self._other_files.get(uri, set()) - published.keys())
        self._other_files[uri] = set(published)
        for other_uri, diagnostics in published.items():
            yield _published(other_uri, None, diagnostics)

    def _clear(self, uris: set[str]) -> Iterator[JsonObject]:
        for uri in sorted(uris - self._workspace.texts.keys()):
            if not self._pulls:
                yield _published(uri, None, [])

    def _refresh(self) -> None:
        """Ask the editor to pull again for documents that did not change themselves."""
        workspace = self._workspace
        capabilities = workspace.client.get("workspace", {})
        if workspace.needs_refresh:
            for capability, method in REFRESHABLE.items():
                if capabilities.get(capability, {}).get("refreshSupport") and (
                    capability != PULLED or self._pulls
                ):
                    workspace.ask(f"workspace/{method}/refresh", {})
        workspace.needs_refresh = False


def _published(uri: str, version: int | None, diagnostics: list[JsonObject]) -> JsonObject:
    params: JsonObject = {"uri": uri, "diagnostics": diagnostics}
    if version is not None:
        params["version"] = version
    return {"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params}
