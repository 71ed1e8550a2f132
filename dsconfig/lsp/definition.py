"""Go to definition: from the place that names a config to the config."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.lsp.document_link import links

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace

_TOP = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}


def answer(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """`textDocument/definition`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    if judged is None:
        return []
    at = judged.text.lines.offset(params["position"])
    return [
        {"uri": link.uri, "range": _TOP}
        for link in links(judged)
        if link.uri.startswith("file:") and link.start - 1 <= at <= link.end + 1
    ]
