"""Edits of YAML in block style: an entry has lines of its own, and no commas or brackets around it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dsconfig.document.edit import flow
from dsconfig.document.edit.edit import Edit, EditError
from dsconfig.document.edit.neighbors import Surroundings
from dsconfig.document.edit.style import manner_of
from dsconfig.document.indentation import Manner, Raw, dump, moved, quoted_like
from dsconfig.document.tree import Member, Node, Span

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


_COLON: Final = re.compile(r"[ \t]*:")


def spans(around: Surroundings, node: Node) -> list[Span]:
    """The stretch of each entry. An alias's value stands elsewhere, a value left out nowhere."""
    if node.kind != "object":
        return flow.spans(node)
    return [Span(member.key_span.start, _end(around, member)) for member in node.members]


def _end(around: Surroundings, member: Member) -> int:
    """Where the entry ends."""
    if member.node.span.start < member.node.span.end:
        if member.node.span.start < member.key_span.end:
            raise EditError("the value is an alias")
        return member.node.span.end
    return after_colon(around, member.key_span)


def after_colon(around: Surroundings, key: Span) -> int:
    """Behind the colon of a key."""
    match = _COLON.match(around.text, key.end)
    if match is None:
        raise EditError("the key is not followed by its colon")
    return match.end()


def raw(around: Surroundings, node: Node) -> Raw | Json:
    """The value as it is written; a block scalar depends on where it stands."""
    start, end = node.span
    if start == end or around.text[start] in "|>":
        return node.value
    if node.kind in ("object", "array") and not around.has_brackets(node):
        return Raw(around.text[start:end], " " * (start - around.line_start(start)), block=True)
    return Raw(around.text[start:end], around.indent(start))


# -- removing --------------------------------------------------------------------------------------


def removed(around: Surroundings, parent: Node, spans: list[Span], index: int) -> list[Edit]:
    """The parent without one of its entries, which stand at `spans`."""
    if len(spans) == 1:
        return [_emptied(around, parent, spans[0].end)]
    start, end = spans[index]
    start = start if parent.kind == "object" else _dash(around, spans[index])
    after = around.after_blanks(end)
    newline = around.newline(after)
    if after in around.comments:
        return [Edit(start, after, "")]
    if newline is None and after < len(around.text):
        raise EditError("the entry does not end with its line")
    if around.starts_line(start):
        return [Edit(around.line_start(start), after if newline is None else newline, "")]
    following = spans[index + 1].start if index + 1 < len(spans) else after
    if parent.kind != "object" or around.has_comment(after, following):
        raise EditError("the entry does not begin its line")
    return [Edit(start, following, "")]


def _emptied(around: Surroundings, parent: Node, end: int) -> Edit:
    """An object or list without entries has brackets: without them it would be null."""
    pair = "{}" if parent.kind == "object" else "[]"
    start, end = parent.span.start, max(parent.span.end, end)
    before = len(around.text[:start].rstrip())
    if before and around.text[before - 1] == ":":
        return Edit(before, end, f" {pair}")
    # The dashes of a list may stand below its key, where brackets may not.
    return Edit(start, end, f"{'' if parent.kind == 'object' else around.layout.unit}{pair}")


def _dash(around: Surroundings, item: Span) -> int:
    """Where the dash of an item stands."""
    before = len(around.text[: item.start].rstrip(" \t"))
    if item.start == item.end or around.text[before - 1 : before] != "-":
        raise EditError("the item does not follow its dash")
    return before - 1


# -- adding ----------------------------------------------------------------------------------------


def added(around: Surroundings, parent: Node, key: str, value: Json) -> list[Edit]:
    """One more entry of the mapping."""
    text, stretches = around.text, spans(around, parent)
    first = stretches[0].start
    at = around.end_of_entry(stretches[-1].end)
    behind = around.after_blanks(at)
    if at < len(text) and around.newline(behind) is None:
        raise EditError("the entry does not end with its line")
    indent = text[around.line_start(first) : first]
    indent = indent if not indent.strip() else " " * len(indent)
    manner = manner_of(around, parent)
    word = quoted_like(text[first : first + 1], key)
    return [Edit(at, at, f"{around.layout.newline}{indent}{word}:{_value(around, value, indent, manner)}")]


def replaced(around: Surroundings, parent: Node, member: Member, value: Json) -> Edit:
    """The value behind the colon of a key, in the place of a scalar, of a list with dashes or of nothing."""
    start = member.key_span.start
    indent = around.text[around.line_start(start) : start]
    at = after_colon(around, member.key_span)
    end = max(at, member.node.span.end)
    if parent.kind != "object" or around.has_comment(at, end):
        raise EditError("a comment stands between the key and its value")
    return Edit(at, end, _value(around, value, " " * len(indent), manner_of(around, parent)))


def _value(around: Surroundings, value: Json, indent: str, manner: Manner) -> str:
    """What stands behind the colon of a key that is indented by `indent`."""
    layout = around.layout
    inner = indent + layout.unit
    if isinstance(value, Raw) and value.block:
        return f"{layout.newline}{inner}{moved(value, layout, inner)}"
    if isinstance(value, dict) and value and (_needs_lines(value) or not manner.flow):
        lines = (
            f"{inner}{quoted_like(manner.key, str(key))}:{_value(around, item, inner, manner)}"
            for key, item in value.items()
        )
        return layout.newline + layout.newline.join(lines)
    return f" {dump(value, layout, indent if manner.spread and not manner.flow else None, manner)}"


def _needs_lines(value: Json) -> bool:
    """Whether there is something in it that cannot stand in brackets, however its neighbours stand."""
    if isinstance(value, dict):
        return any(map(_needs_lines, value.values()))
    return isinstance(value, Raw) and value.block
