"""Edits of entries that stand in brackets, between commas: JSON, JSONC, Hjson, and YAML in flow style."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.document.edit.edits import Edit, EditError
from dsconfig.document.edit.surroundings import Surroundings
from dsconfig.document.layout import Raw, dump, quoted_like
from dsconfig.document.tree import Member, Node, Span

if TYPE_CHECKING:
    from dsconfig.json_types import Json


def spans(node: Node) -> list[Span]:
    """The stretch of each entry, from its key to the end of its value."""
    if node.kind == "object":
        return [_stretch(member) for member in node.members]
    return [item.span for item in node.items]


def _stretch(member: Member) -> Span:
    return Span(member.key_span.start, max(member.key_span.end, member.node.span.end))


def raw(around: Surroundings, node: Node) -> Raw | Json:
    """The value as it is written, to be put elsewhere; a word without quotes gets them."""
    text = around.text[node.span.start : node.span.end]
    if node.kind == "string" and text[:1] not in ("'", '"'):
        return node.value
    return Raw(text, around.indent(node.span.start))


def replaced(around: Surroundings, node: Node, value: Json) -> Edit:
    """The node's own stretch with the value in it."""
    many = "\n" in around.text[: node.span.end]
    text = dump(value, around.layout, around.indent(node.span.start) if many else None)
    return Edit(*node.span, text)


# -- removing --------------------------------------------------------------------------------------


def removed(around: Surroundings, parent: Node, spans: list[Span], index: int) -> list[Edit]:
    """The parent without one of its entries, which stand at `spans`."""
    start, end = spans[index]
    if len(spans) == 1 and around.has_brackets(parent):
        inside = parent.span.start + 1, parent.span.end - 1
        if not around.has_comment(inside[0], start) and not around.has_comment(end, inside[1]):
            return [Edit(*inside, "")]
    comma = around.comma_after(end)
    edits = []
    if comma is None and index and index == len(spans) - 1:
        before = around.comma_after(spans[index - 1].end)
        edits += [] if before is None else [Edit(before, before + 1, "")]
    if comma is not None and around.has_comment(end, comma):
        return [Edit(start, end, ""), Edit(comma, comma + 1, "")]
    return [*edits, _widened(around, start, end if comma is None else comma + 1)]


def _widened(around: Surroundings, start: int, end: int) -> Edit:
    """The stretch without what would be left of its lines: blanks, and the line ends of whole lines."""
    text = around.text
    after = around.after_blanks(end)
    newline = around.newline(after)
    if around.starts_line(start):
        first = max(around.line_start(start), text.startswith("\ufeff"))
        return Edit(start, after, "") if newline is None else Edit(first, newline, "")
    if text[start - 1] in "{[":
        following = around.after_space(end)
        # YAML wants a blank before a comment.
        return Edit(start, after, " ") if following in around.comments else Edit(start, following, "")
    if newline is not None or after == len(text) or text[after] in "}]":
        return Edit(len(text[:start].rstrip(" \t")), end, "")
    return Edit(start, after, "")


# -- adding ----------------------------------------------------------------------------------------


def added(around: Surroundings, parent: Node, key: str, value: Json) -> list[Edit]:
    """One more entry of the object."""
    if not parent.members:
        return [_first_entry(around, parent, key, value)]
    last = _stretch(parent.members[-1])
    comma = around.comma_after(last.end)
    end = last.end if comma is None else comma + 1
    bare = _is_bare(around, parent.members[-1].node)
    if not bare and not around.starts_line(last.start):
        pair = _pair(around, parent, key, value, None)
        return [Edit(end, end, f", {pair}" if comma is None else f" {pair},")]
    inner = around.indent(last.start)
    if not around.starts_line(last.start):
        inner += around.layout.unit
    pair = _pair(around, parent, key, value, inner)
    at = around.end_of_entry(end)
    edit = Edit(at, at, f"{around.layout.newline}{inner}{pair}{'' if comma is None else ','}")
    return [edit] if bare or comma is not None else [Edit(end, end, ","), edit]


def _first_entry(around: Surroundings, parent: Node, key: str, value: Json) -> Edit:
    """The first entry of an object that had none."""
    if not around.has_brackets(parent):
        raise EditError("the file is empty")
    start, end = parent.span.start + 1, parent.span.end - 1
    if around.has_newline(start, end):
        inner = around.indent(end) + around.layout.unit
        first = around.line_start(end)
        pair = _pair(around, parent, key, value, inner)
        return Edit(first, first, f"{inner}{pair}{around.layout.newline}")
    pair = _pair(around, parent, key, value, None)
    return Edit(start, start, f"{pair} ") if around.text[start:end].strip() else Edit(start, end, pair)


def _pair(around: Surroundings, parent: Node, key: str, value: Json, indent: str | None) -> str:
    """The text of key and value; a key stands in quotes unless its neighbours do without."""
    sample = '"'
    if parent.members:
        span = parent.members[-1].key_span
        sample = around.text[span.start : span.end]
    return f"{quoted_like(sample, key)}: {dump(value, around.layout, indent)}"


def _is_bare(around: Surroundings, node: Node) -> bool:
    """Whether this is a word that goes on to the end of its line, any comma included."""
    if around.layout.yaml:
        return False
    return node.kind == "string" and around.text[node.span.start : node.span.start + 1] not in ("'", '"')
