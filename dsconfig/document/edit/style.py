"""How what stands around a place is written, so that what is put there looks like its neighbours."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

from dsconfig.document.indentation import QUOTES, Manner

if TYPE_CHECKING:
    from dsconfig.document.edit.neighbors import Surroundings
    from dsconfig.document.tree import Node

_Sample = TypeVar("_Sample")
_COLON: Final = re.compile(r"[ \t]*:[ \t]*")
_GAP: Final = re.compile(r"[ \t]*,[ \t]*")
_BLANKS: Final = re.compile(r"[ \t]*")
_MOST: Final = 200
"""Objects and lists looked at, the nearest first: beyond them the text has no manner of its own."""


def manner_of(around: Surroundings, parent: Node) -> Manner:
    """The manner of an object's entries; what they do not show, the rest of the text does."""
    near = list(islice(_nearest(around, parent), _MOST))
    usual = Manner()

    def ask(probe: Callable[[Surroundings, Node], _Sample | None], default: _Sample) -> _Sample:
        return next((found for node in near if (found := probe(around, node)) is not None), default)

    key, comma = ask(_key, usual.key), ask(_comma, usual.comma)
    like_key = key in QUOTES or around.layout.yaml or not comma
    return Manner(
        key=key,
        word=ask(_word, key if like_key else usual.word),
        colon=ask(_colon, usual.colon),
        gap=ask(_gap, usual.gap),
        padding=ask(_padding, usual.padding),
        comma=comma,
        trailing=ask(_trailing, usual.trailing),
        spread=_spread(around, near[1:], usual),
        flow=ask(_flow, False) if around.layout.yaml else True,
    )


def _nearest(around: Surroundings, parent: Node) -> Iterator[Node]:
    """The object, the objects and lists in it, the last one first, and then all others."""
    todo = [parent, *([around.document.root] if around.document.root else [])]
    seen: set[int] = set()
    while todo:
        node = todo.pop(0)
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        nested = [child for child in _children(node) if child.members or child.items]
        todo = [*nested, *todo] if node is parent else [*todo, *nested]


def _children(node: Node) -> list[Node]:
    """The values of an object or a list, the last one first."""
    return [*[member.node for member in reversed(node.members)], *reversed(node.items)]


def _key(around: Surroundings, node: Node) -> str | None:
    return around.text[node.members[-1].key_span.start] if node.members else None


def _word(around: Surroundings, node: Node) -> str | None:
    """How a string begins: with its quote, or with a letter where it has none."""
    for child in _children(node):
        text = around.text[child.span.start : child.span.start + 3]
        if child.kind == "string" and text and text[0] not in "|>&*!" and text != "'''":
            return text[0]
    return None


def _colon(around: Surroundings, node: Node) -> str | None:
    for member in reversed(node.members):
        between = around.text[member.key_span.end : member.node.span.start]
        if _COLON.fullmatch(between):
            return between
    return None


def _gap(around: Surroundings, node: Node) -> str | None:
    """What stands behind the comma between two entries of a line."""
    entries = [member.node.span for member in node.members] or [item.span for item in node.items]
    starts = [member.key_span.start for member in node.members] or [item.span.start for item in node.items]
    for end, start in zip(reversed(entries[:-1]), reversed(starts[1:]), strict=True):
        between = around.text[end.end : start]
        if _GAP.fullmatch(between):
            return between.partition(",")[2]
    return None


def _padding(around: Surroundings, node: Node) -> str | None:
    if not node.members or around.text[node.span.start : node.span.start + 1] != "{":
        return None
    inside = around.text[node.span.start + 1 : node.members[0].key_span.start]
    return inside if _BLANKS.fullmatch(inside) else None


def _comma(around: Surroundings, node: Node) -> str | None:
    """What ends an entry that has lines of its own."""
    if around.layout.yaml:
        return ","
    for one, other in zip(node.members, node.members[1:], strict=False):
        bare = one.node.kind == "string" and around.text[one.node.span.start] not in "'\""
        if not bare and around.has_newline(one.node.span.end, other.key_span.start):
            return "" if around.comma_after(one.node.span.end) is None else ","
    return None


def _trailing(around: Surroundings, node: Node) -> str | None:
    """What ends the last entry of an object of several lines."""
    if not node.members or not around.has_brackets(node) or not around.has_newline(*node.span):
        return None
    return "" if around.comma_after(node.members[-1].node.span.end) is None else ","


def _spread(around: Surroundings, others: list[Node], usual: Manner) -> bool:
    """Whether objects take lines of their own; the nearest says it."""
    for node in others:
        if node.members and node is not around.document.root and around.has_brackets(node):
            return around.has_newline(node.span.start, node.span.end)
    return usual.spread


def _flow(around: Surroundings, node: Node) -> bool | None:
    """Whether YAML stands in brackets here; the root and its entries do not count, they are what they are."""
    if node is around.document.root or not (node.members or node.items):
        return None
    return around.has_brackets(node)
