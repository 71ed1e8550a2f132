"""Text edits in the protocol's format."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from dsconfig.document.text_edit import Edit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.open_documents import OpenText
    from dsconfig.lsp.workspace import Workspace


def text_edits(text: OpenText, edits: Iterable[tuple[int, int, str]]) -> list[JsonObject]:
    """Edits of an open document."""
    return [{"range": text.lines.range(start, end), "newText": new} for start, end, new in edits]


def workspace_edit(workspace: Workspace, text: OpenText, edits: Iterable[tuple[int, int, str]]) -> JsonObject:
    """Edits of this version of a document, if the editor supports versioned edits."""
    changes = text_edits(text, edits)
    capability = workspace.client.get("workspace", {}).get("workspaceEdit", {})
    if capability.get("documentChanges"):
        document = {"uri": text.uri, "version": text.version}
        return {"documentChanges": [{"textDocument": document, "edits": changes}]}
    return {"changes": {text.uri: changes}}


def line_edits(old: str, new: str) -> list[Edit]:
    """Line edits from one text to another; unchanged lines keep cursors and folds."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    opcodes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [
        Edit(starts[first], starts[last], "".join(after[start:end]))
        for tag, first, last, start, end in opcodes
        if tag != "equal"
    ]
