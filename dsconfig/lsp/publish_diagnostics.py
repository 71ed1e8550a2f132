"""Findings that an editor is told of unasked, or asked to ask for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.lsp.diagnostics import beside, items

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.workspace import Workspace


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
