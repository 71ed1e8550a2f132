"""Folding ranges for sections, lists and comments that span several lines."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document
    from dsconfig.lsp.workspace import Workspace


def answer_folding_range(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """Answer `textDocument/foldingRange`."""
    snapshot = workspace.snapshot(params["textDocument"]["uri"])
    if snapshot is None:
        return []
    document = snapshot.text.document
    ranges = [*_section_ranges(document), *_comment_ranges(document)]
    return sorted(ranges, key=lambda each: (each["startLine"], each["endLine"]))


def _section_ranges(document: Document) -> Iterator[JsonObject]:
    root = document.root
    if root is None:
        return
    pending = [(root.span.start, root)]
    if document.format == "yaml":  # the root has no bracket to fold at
        pending = [(member.key_span.start, member.node) for member in root.members]
    while pending:
        start, node = pending.pop()
        pending += [(member.key_span.start, member.node) for member in node.members]
        pending += [(item.span.start, item) for item in node.items]
        if node.kind in ("object", "array") and node.span.end > node.span.start:
            first = document.position(start).line - 1
            last = document.position(node.span.end).line - 1
            closes = document.text[node.span.end - 1] in "]}"
            end = last - 1 if closes else _last_nonblank_line(document, last)
            if end > first:
                yield {"startLine": first, "endLine": end}


def _last_nonblank_line(document: Document, line: int) -> int:
    """Return the last nonblank line up to `line`, because a YAML block ends only where the next one starts."""
    while line > 0 and not document.line(line + 1).strip():
        line -= 1
    return line


def _comment_ranges(document: Document) -> Iterator[JsonObject]:
    lines = [
        (document.position(span.start).line - 1, document.position(span.end).line - 1)
        for span, _ in document.comments
    ]
    starts = enumerate(sorted(lines))
    for _, group in groupby(starts, key=lambda each: each[1][0] - each[0]):
        block = [pair for _, pair in group]
        if block[-1][1] > block[0][0]:
            yield {"startLine": block[0][0], "endLine": block[-1][1], "kind": "comment"}
