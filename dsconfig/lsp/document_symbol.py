"""Document symbols: sections, and keys with their values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import truncate_middle
from dsconfig.core.wording import quote_value
from dsconfig.model.key_table import may_be_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import TreeNode
    from dsconfig.document.located_tree import NodeKind
    from dsconfig.lsp.protocol import PositionConverter
    from dsconfig.lsp.workspace import Workspace

_KINDS: Mapping[NodeKind, int] = {
    "object": 19, "array": 18, "string": 15, "number": 16, "boolean": 17, "null": 21,
}  # fmt: skip
_MAX_SYMBOLS = 5000
"""Maximal number of symbols; a longer outline is not usable."""


def answer_document_symbol(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/documentSymbol`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    root = None if snapshot is None else snapshot.text.document.root
    if snapshot is None or root is None:
        return []
    return list(_document_symbols(root, snapshot.text.lines))[:_MAX_SYMBOLS]


def _document_symbols(node: TreeNode, lines: PositionConverter) -> Iterator[JsonObject]:
    for member in node.members:
        end = max(member.key_span.end, member.node.span.end)
        yield _document_symbol(member.key, member.node, (member.key_span.start, end), member.key_span, lines)
    for index, item in enumerate(node.items):
        if item.kind in ("object", "array"):
            yield _document_symbol(f"[{index}]", item, item.span, item.span, lines)


def _document_symbol(
    name: str, node: TreeNode, range_: tuple[int, int], selection: tuple[int, int], lines: PositionConverter
) -> JsonObject:
    symbol: JsonObject = {
        "name": name or '""',
        "kind": _KINDS[node.kind],
        "range": lines.range_between(*range_),
        "selectionRange": lines.range_between(*selection),
    }
    if node.members or node.items:
        symbol["children"] = list(_document_symbols(node, lines))
    elif node.kind not in ("object", "array"):
        symbol["detail"] = (
            "***" if may_be_secret(name) else truncate_middle(quote_value(node.value).strip("`"), 60)
        )
    return symbol
