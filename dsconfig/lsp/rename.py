"""Rename an alias of a key to its canonical name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.document.apply_operations import editor_for_document
from dsconfig.document.text_edit import EditError
from dsconfig.lsp.completion_cursor import key_at_document_path
from dsconfig.lsp.hover import entry_at
from dsconfig.lsp.protocol import REFUSED, RequestError
from dsconfig.lsp.workspace import to_workspace_edit

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject, KeyPath
    from dsconfig.lsp.workspace import DocumentSnapshot, Workspace


class AliasAtCursor(NamedTuple):
    """The key under the cursor, spelled with an alias or a former name."""

    path: KeyPath
    start: int
    end: int
    name: str
    """Current name of the key."""


def answer_prepare_rename(workspace: Workspace, params: JsonObject) -> JsonObject | None:
    """Answer `textDocument/prepareRename`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    alias = None if snapshot is None else _alias_at_position(snapshot, params)
    if snapshot is None or alias is None:
        return None
    return {"range": snapshot.text.lines.range_between(alias.start, alias.end), "placeholder": alias.name}


def answer_rename(workspace: Workspace, params: JsonObject) -> JsonObject:
    """Answer `textDocument/rename`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    alias = None if snapshot is None else _alias_at_position(snapshot, params)
    if snapshot is None or alias is None:
        raise RequestError(REFUSED, "the cursor is not on an alias of a key")
    if params["newName"] != alias.name:
        raise RequestError(REFUSED, f"the key can only be renamed to `{alias.name}`")
    try:
        edits = editor_for_document(snapshot.text.document).rename_key(alias.path, alias.name)
    except EditError as error:
        raise RequestError(REFUSED, str(error)) from None
    return to_workspace_edit(workspace, snapshot.text, edits)


def _alias_at_position(snapshot: DocumentSnapshot, params: JsonObject) -> AliasAtCursor | None:
    """Return the alias at a position, or None if the key also occurs under its canonical name."""
    document = snapshot.text.document
    entry = entry_at(document.root, snapshot.text.lines.offset_of(params["position"]))
    if entry is None:
        return None
    path = entry[0]
    key = key_at_document_path(snapshot, path)
    span = document.span(path, "key")
    if key is None:
        return None
    info = key.info
    is_renamed = info.rewrite is not None and info.rewrite[0] == "rename"
    # The replacement of a renamed key is in the same section.
    name = info.replaced_by.rpartition(".")[2] if is_renamed and info.replaced_by else info.name
    new_path = (*path[:-1], name)
    if name == path[-1] or document.has_path(new_path) or key_at_document_path(snapshot, new_path) is None:
        return None
    quoted = document.text[span.start] in "\"'"
    return AliasAtCursor(path, span.start + quoted, span.end - quoted, name)
