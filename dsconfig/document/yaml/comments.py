"""Comments of a YAML text, which PyYAML's nodes do not keep."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final

from dsconfig.document.tree import MAX_VALUES, Node, Span

_COMMENT: Final = re.compile(r"(?:^|(?<=[\s]))#[^\r\n]*", re.MULTILINE)


def comments(text: str, root: Node | None) -> tuple[tuple[Span, str], ...]:
    """Every `#` after white space that stands in no scalar, to the end of its line."""
    scalars = sorted(_scalar_spans(root)) if root else []
    starts = [span.start for span in scalars]
    found: list[tuple[Span, str]] = []
    at = 0
    while (match := _COMMENT.search(text, at)) and len(found) < MAX_VALUES:
        index = bisect_right(starts, match.start()) - 1
        if index >= 0 and scalars[index].end > match.start():  # behind it there may be one on the same line
            at = scalars[index].end
            continue
        found.append((Span(*match.span()), match.group()))
        at = match.end()
    return tuple(found)


def _scalar_spans(root: Node) -> list[Span]:
    spans: list[Span] = []
    todo, seen = [root], set()
    while todo:
        node = todo.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.members or node.items:
            spans += [member.key_span for member in node.members]
            todo += [member.node for member in node.members]
            todo += node.items
        elif node.kind not in ("object", "array"):
            spans.append(node.span)
    return spans
