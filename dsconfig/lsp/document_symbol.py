"""Document symbols: sections and keys, with their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import truncate_middle
from dsconfig.core.wording import quoted
from dsconfig.model.keyinfo import is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Node
    from dsconfig.document.tree import NodeKind
    from dsconfig.lsp.protocol import Lines
    from dsconfig.lsp.workspace import Workspace

_KINDS: Mapping[NodeKind, int] = {
    "object": 19, "array": 18, "string": 15, "number": 16, "boolean": 17, "null": 21,
}  # fmt: skip
_MOST = 5000
"""Symbols that an outline can be read with."""


def answer(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """`textDocument/documentSymbol`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    root = None if judged is None else judged.text.document.root
    if judged is None or root is None:
        return []
    return list(_symbols(root, judged.text.lines))[:_MOST]


def _symbols(node: Node, lines: Lines) -> Iterator[JsonObject]:
    for member in node.members:
        end = max(member.key_span.end, member.node.span.end)
        yield _symbol(member.key, member.node, (member.key_span.start, end), member.key_span, lines)
    for index, item in enumerate(node.items):
        if item.kind in ("object", "array"):
            yield _symbol(f"[{index}]", item, item.span, item.span, lines)


def _symbol(name: str, node: Node, whole: tuple[int, int], own: tuple[int, int], lines: Lines) -> JsonObject:
    found: JsonObject = {
        "name": name or '""',
        "kind": _KINDS[node.kind],
        "range": lines.range(*whole),
        "selectionRange": lines.range(*own),
    }
    if node.members or node.items:
        found["children"] = list(_symbols(node, lines))
    elif node.kind not in ("object", "array"):
        found["detail"] = "***" if is_secret(name) else truncate_middle(quoted(node.value).strip("`"), 60)
    return found
