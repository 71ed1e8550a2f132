"""Diagnostics in LSP format, pulled by the editor or published by the server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic, Effect, Location, Severity
from dsconfig.lsp.open_documents import OpenDocument
from dsconfig.lsp.protocol import PositionConverter, uri_from_path
from dsconfig.lsp.workspace import DocumentSnapshot

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace


# Conversion to the protocol: code and page, related locations, tags.

SOURCE = "dsconfig"
_SEVERITIES: Mapping[Severity, int] = {"error": 1, "warning": 2, "info": 3}
_UNNECESSARY, _DEPRECATED = 1, 2
_TAGS: Mapping[Effect, int] = {Effect.IGNORED: _UNNECESSARY, Effect.DEPRECATED: _DEPRECATED}
"""LSP tags, by which editors fade keys without effect and strike through deprecated keys."""


def answer_diagnostic(workspace: Workspace, params: JsonObject) -> JsonObject:
    """Answer `textDocument/diagnostic` with all diagnostics."""
    snapshots = workspace.snapshots(params["textDocument"]["uri"])
    related = _diagnostics_of_all_linked_files(workspace, snapshots)
    items = [item for snapshot in snapshots for item in to_lsp_diagnostics(snapshot)]
    report: JsonObject = {"kind": "full", "items": items}
    if related:
        report["relatedDocuments"] = {
            uri: {"kind": "full", "items": diagnostics} for uri, diagnostics in related.items()
        }
    return report


def _diagnostics_of_all_linked_files(
    workspace: Workspace, snapshots: list[DocumentSnapshot]
) -> dict[str, list[JsonObject]]:
    return {
        uri: items
        for each in snapshots
        for uri, items in diagnostics_of_linked_files(workspace, each).items()
    }


def diagnostics_of_linked_files(
    workspace: Workspace, snapshot: DocumentSnapshot
) -> dict[str, list[JsonObject]]:
    """Return the diagnostics of linked files that are not open, by URI."""
    by_uri: dict[str, list[JsonObject]] = {}
    pending = list(snapshot.report.children)
    while pending:
        report = pending.pop()
        pending += report.children
        if report.document is not None and workspace.open_document_at(report.name) is None:
            text = OpenDocument(
                uri_from_path(report.name),
                None,
                PositionConverter(report.document.text, workspace.encoding),
                "",
            )
            by_uri[text.uri] = to_lsp_diagnostics(DocumentSnapshot(text, report))
    return by_uri


def to_lsp_diagnostics(snapshot: DocumentSnapshot) -> list[JsonObject]:
    """Convert the diagnostics of a document to LSP format."""
    return [to_lsp_diagnostic(snapshot, number) for number in range(len(snapshot.report))]


def to_lsp_diagnostic(snapshot: DocumentSnapshot, number: int) -> JsonObject:
    """Convert the diagnostic with this index to LSP format."""
    diagnostic, lines = snapshot.report[number], snapshot.text.lines
    record: JsonObject = {
        "range": lines.range_between(*snapshot.diagnostic_spans[number]),
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
    if related := _related_information(diagnostic, snapshot.text.uri, lines):
        record["relatedInformation"] = related
    return record


def _related_information(diagnostic: Diagnostic, uri: str, lines: PositionConverter) -> list[JsonObject]:
    return [
        {"location": {"uri": uri, "range": _lsp_range(related.location, lines)}, "message": related.message}
        for related in diagnostic.related
        if related.location is not None
    ]


def _lsp_range(location: Location, lines: PositionConverter) -> JsonObject:
    return lines.range_between(location.start, location.end)


# Publishing and refreshing.

PULLED = "diagnostics"
REFRESHABLE = {PULLED: "diagnostic", "codeLens": "codeLens", "inlayHint": "inlayHint"}
"""Refresh requests by the workspace capability of the editor that enables each."""


class DiagnosticsPublisher:
    """Publishes the diagnostics of changed documents, and of files that changed launch files name."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._other_files: dict[str, set[str]] = {}
        """Files that are not open and have published diagnostics, by the URI of their launch file."""

    @property
    def _does_editor_pull(self) -> bool:
        """Whether the editor pulls diagnostics instead of receiving them."""
        return "diagnostic" in self._workspace.client.get("textDocument", {})

    def next_messages(self) -> Iterator[JsonObject]:
        """Yield the messages about one changed document, if any."""
        workspace = self._workspace
        if workspace.closed:
            uri = workspace.closed.pop()
            yield from self._clear_diagnostics({uri, *self._other_files.pop(uri, ())})
        elif workspace.stale:
            uri = next(iter(workspace.stale))
            del workspace.stale[uri]
            self._request_refresh()
            if not self._does_editor_pull:
                yield from self._publish_document(uri)

    def _publish_document(self, uri: str) -> Iterator[JsonObject]:
        workspace = self._workspace
        snapshots = workspace.snapshots(uri)
        text = workspace.texts.get(uri)
        if text is None:
            return
        yield _publish_message(
            uri, text.version, [item for each in snapshots for item in to_lsp_diagnostics(each)]
        )
        published = _diagnostics_of_all_linked_files(workspace, snapshots)
        yield from self._clear_diagnostics(self._other_files.get(uri, set()) - published.keys())
        self._other_files[uri] = set(published)
        for other_uri, diagnostics in published.items():
            yield _publish_message(other_uri, None, diagnostics)

    def _clear_diagnostics(self, uris: set[str]) -> Iterator[JsonObject]:
        for uri in sorted(uris - self._workspace.texts.keys()):
            if not self._does_editor_pull:
                yield _publish_message(uri, None, [])

    def _request_refresh(self) -> None:
        """Ask the editor to pull diagnostics again, also for documents that have not changed."""
        workspace = self._workspace
        capabilities = workspace.client.get("workspace", {})
        if workspace.needs_refresh:
            for capability, method in REFRESHABLE.items():
                if capabilities.get(capability, {}).get("refreshSupport") and (
                    capability != PULLED or self._does_editor_pull
                ):
                    workspace.send_request(f"workspace/{method}/refresh", {})
        workspace.needs_refresh = False


def _publish_message(uri: str, version: int | None, diagnostics: list[JsonObject]) -> JsonObject:
    params: JsonObject = {"uri": uri, "diagnostics": diagnostics}
    if version is not None:
        params["version"] = version
    return {"jsonrpc": "2.0", "method": "textDocument/publishDiagnostics", "params": params}
