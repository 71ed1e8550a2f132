"""Rename: another name of a key becomes the key's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dsconfig.document.edit import editor
from dsconfig.document.text_edit import EditError
from dsconfig.lsp.cursor import key_of
from dsconfig.lsp.hover import entry_at
from dsconfig.lsp.protocol import REFUSED, RequestError
from dsconfig.lsp.text_edit import workspace_edit

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject, KeyPath
    from dsconfig.lsp.workspace import Judged, Workspace


class Alias(NamedTuple):
    """A key under another name."""

    path: KeyPath
    start: int
    end: int
    name: str
    """The key's own name."""


def prepare(workspace: Workspace, params: JsonObject) -> JsonObject | None:
    """`textDocument/prepareRename`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    found = None if judged is None else _alias(judged, params)
    if judged is None or found is None:
        return None
    return {"range": judged.text.lines.range(found.start, found.end), "placeholder": found.name}


def answer(workspace: Workspace, params: JsonObject) -> JsonObject:
    """`textDocument/rename`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    found = None if judged is None else _alias(judged, params)
    if judged is None or found is None:
        raise RequestError(REFUSED, "this is no other name of a key")
    if params["newName"] != found.name:
        raise RequestError(REFUSED, f"the key is called `{found.name}`")
    try:
        edits = editor(judged.text.document).rename(found.path, found.name)
    except EditError as error:
        raise RequestError(REFUSED, str(error)) from None
    return workspace_edit(workspace, judged.text, edits)


def _alias(judged: Judged, params: JsonObject) -> Alias | None:
    """The alias at a position; None where there is none, or the key is there under its own name too."""
    document = judged.text.document
    entry = entry_at(document.root, judged.text.lines.offset(params["position"]))
    if entry is None:
        return None
    path = entry[0]
    key = key_of(judged, path)
    span = document.span(path, "key")
    if key is None:
        return None
    info = key.info
    is_renamed = info.rewrite is not None and info.rewrite[0] == "rename"
    # What a key is renamed to stands beside it.
    name = info.replaced_by.rpartition(".")[2] if is_renamed and info.replaced_by else info.name
    new = (*path[:-1], name)
    if name == path[-1] or document.has_path(new) or key_of(judged, new) is None:
        return None
    quoted = document.text[span.start] in "\"'"
    return Alias(path, span.start + quoted, span.end - quoted, name)
