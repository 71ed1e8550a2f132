"""Text edits in LSP format."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from dsconfig.document.text_edit import TextEdit

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dsconfig.core.json_types import JsonObject
    from dsconfig.lsp.open_documents import OpenDocument
    from dsconfig.lsp.workspace import Workspace


def to_text_edits(text: OpenDocument, edits: Iterable[tuple[int, int, str]]) -> list[JsonObject]:
    """Convert edits of an open document to LSP format."""
    return [{"range": text.lines.range_between(start, end), "newText": new} for start, end, new in edits]


def to_workspace_edit(
    workspace: Workspace, text: OpenDocument, edits: Iterable[tuple[int, int, str]]
) -> JsonObject:
    """Return a workspace edit for a document, tied to its version if the editor supports that."""
    changes = to_text_edits(text, edits)
    capability = workspace.client.get("workspace", {}).get("workspaceEdit", {})
    if capability.get("documentChanges"):
        document = {"uri": text.uri, "version": text.version}
        return {"documentChanges": [{"textDocument": document, "edits": changes}]}
    return {"changes": {text.uri: changes}}


def line_by_line_edits(old: str, new: str) -> list[TextEdit]:
    """Return line edits between two texts, which preserve cursors and folds in unchanged lines."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in before:
        starts.append(starts[-1] + len(line))
    opcodes = SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    return [
        TextEdit(starts[first], starts[last], "".join(after[start:end]))
        for tag, first, last, start, end in opcodes
        if tag != "equal"
    ]
