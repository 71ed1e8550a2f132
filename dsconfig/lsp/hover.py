"""Hover: what is known of the key at the cursor, and what its value comes to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.lsp.known import key_at
from dsconfig.lsp.place import config_in, scope
from dsconfig.lsp.told import told

if TYPE_CHECKING:
    from dsconfig.document import Node
    from dsconfig.json_types import JsonObject, KeyPath
    from dsconfig.lsp.workspace import Workspace


def answer(workspace: Workspace, params: JsonObject) -> JsonObject | None:
    """`textDocument/hover`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    if judged is None or judged.report.foreign:
        return None
    document, lines = judged.text.document, judged.text.lines
    found = entry_at(document.root, lines.offset(params["position"]))
    if found is None:
        return None
    path, (start, end) = found
    seen = scope(judged)
    inside = seen.inside(path)
    key = key_at(inside, config_in(document.value(), seen.base), seen.release) if inside else None
    if key is None:
        return None
    text = f"`{'.'.join(map(str, inside or ()))}`\n\n{told(str(path[-1]), key, seen.release_name)}"
    return {"contents": {"kind": "markdown", "value": text}, "range": lines.range(start, end)}


def entry_at(root: Node | None, offset: int) -> tuple[KeyPath, tuple[int, int]] | None:
    """The path of the entry that an offset is in, and where its key stands, or its value.

    None between entries: at a bracket, a comma, in an item of a list that is no object.
    """
    node, path = root, tuple[str | int, ...]()
    while node is not None:
        for member in node.members:
            if _holds(member.key_span, offset):
                return (*path, member.key), member.key_span
        inside = next((member for member in node.members if _holds(member.node.span, offset)), None)
        if inside is not None:
            node, path = inside.node, (*path, inside.key)
            if not (node.members or node.items):
                return path, node.span
            continue
        numbers = (index for index, item in enumerate(node.items) if _holds(item.span, offset))
        index = next(numbers, None)
        node, path = (None, path) if index is None else (node.items[index], (*path, index))
    return None


def _holds(span: tuple[int, int], offset: int) -> bool:
    return span[0] <= offset <= span[1]
