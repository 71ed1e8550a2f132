"""Go to definition: from the name of a config in a launch file to the config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.lsp.document_link import document_links

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace

_TOP = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}


def answer_definition(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/definition`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    if snapshot is None:
        return []
    offset = snapshot.text.lines.offset_of(params["position"])
    return [
        {"uri": link.uri, "range": _TOP}
        for link in document_links(snapshot)
        if link.uri.startswith("file:") and link.start - 1 <= offset <= link.end + 1
    ]
