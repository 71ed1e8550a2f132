"""Folding: sections, lists and comments of more than one line."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.core.json_types import JsonObject
    from dsconfig.document import Document
    from dsconfig.lsp.workspace import Workspace


def answer(workspace: Workspace, params: JsonObject) -> list[JsonObject]:
    """`textDocument/foldingRange`."""
    judged = workspace.judged(params["textDocument"]["uri"])
    if judged is None:
        return []
    document = judged.text.document
    found = [*_sections(document), *_comments(document)]
    return sorted(found, key=lambda each: (each["startLine"], each["endLine"]))


def _sections(document: Document) -> Iterator[JsonObject]:
    root = document.root
    if root is None:
        return
    todo = [(root.span.start, root)]
    if document.format == "yaml":  # whose root has no bracket to fold at
        todo = [(member.key_span.start, member.node) for member in root.members]
    while todo:
        start, node = todo.pop()
        todo += [(member.key_span.start, member.node) for member in node.members]
        todo += [(item.span.start, item) for item in node.items]
        if node.kind in ("object", "array") and node.span.end > node.span.start:
            first = document.position(start).line - 1
            last = document.position(node.span.end).line - 1
            closes = document.text[node.span.end - 1] in "]}"
            end = last - 1 if closes else _filled(document, last)
            if end > first:
                yield {"startLine": first, "endLine": end}


def _filled(document: Document, line: int) -> int:
    """The last line up to this one with something on it: a block of YAML ends where the next one begins."""
    while line > 0 and not document.line(line + 1).strip():
        line -= 1
    return line


def _comments(document: Document) -> Iterator[JsonObject]:
    lines = [
        (document.position(span.start).line - 1, document.position(span.end).line - 1)
        for span, _ in document.comments
    ]
    starts = enumerate(sorted(lines))
    for _, group in groupby(starts, key=lambda each: each[1][0] - each[0]):
        block = [pair for _, pair in group]
        if block[-1][1] > block[0][0]:
            yield {"startLine": block[0][0], "endLine": block[-1][1], "kind": "comment"}
