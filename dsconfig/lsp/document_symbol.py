"""Document symbols: sections and keys, with their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import truncate_middle
from dsconfig.core.wording import quoted
from dsconfig.model.key_table import is_secret

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
_MAX_SYMBOLS = 5000
"""Limit of symbols; a longer outline is not usable."""


def answer(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/documentSymbol`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    root = None if snapshot is None else snapshot.text.document.root
    if snapshot is None or root is None:
        return []
    return list(_symbols(root, snapshot.text.lines))[:_MAX_SYMBOLS]


def _symbols(node: Node, lines: Lines) -> Iterator[JsonObject]:
    for member in node.members:
        end = max(member.key_span.end, member.node.span.end)
        yield _symbol(member.key, member.node, (member.key_span.start, end), member.key_span, lines)
    for index, item in enumerate(node.items):
        if item.kind in ("object", "array"):
            yield _symbol(f"[{index}]", item, item.span, item.span, lines)


def _symbol(
    name: str, node: Node, range_: tuple[int, int], selection: tuple[int, int], lines: Lines
) -> JsonObject:
    symbol: JsonObject = {
        "name": name or '""',
        "kind": _KINDS[node.kind],
        "range": lines.range(*range_),
        "selectionRange": lines.range(*selection),
    }
    if node.members or node.items:
        symbol["children"] = list(_symbols(node, lines))
    elif node.kind not in ("object", "array"):
        symbol["detail"] = "***" if is_secret(name) else truncate_middle(quoted(node.value).strip("`"), 60)
    return symbol
