"""Edits of entries that stand in brackets, between commas: JSON, JSONC, Hjson, and YAML in flow style."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.document.edit.edit import Edit, EditError
from dsconfig.document.edit.neighbors import Surroundings
from dsconfig.document.edit.style import manner_of
from dsconfig.document.indentation import QUOTES, Manner, Raw, as_written, dump, joined, quoted_like, scalar
from dsconfig.document.tree import Member, Node, Span

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


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


def replaced(around: Surroundings, parent: Node, node: Node, value: Json) -> list[Edit]:
    """The value in the place of the node's; where both have the same entries, only those that differ."""
    if isinstance(value, dict) and value and list(value) == [member.key for member in node.members]:
        pairs = [(node, member.node, value[member.key]) for member in node.members]
    elif isinstance(value, list) and value and len(value) == len(node.items):
        pairs = [(node, item, new) for item, new in zip(node.items, value, strict=True)]
    else:
        return [Edit(*node.span, _text(around, parent, node, value))]
    if any(child.span.start == child.span.end for _, child, _ in pairs):
        return [Edit(*node.span, _text(around, parent, node, value))]
    return [
        edit
        for holder, child, new in pairs
        if type(new) is not type(child.value) or new != child.value
        for edit in replaced(around, holder, child, new)
    ]


def _text(around: Surroundings, parent: Node, node: Node, value: Json) -> str:
    """The value as its neighbours are written; what was in quotes stays as it is without them."""
    layout, manner = around.layout, manner_of(around, parent)
    if isinstance(value, str):
        old = around.text[node.span.start : node.span.start + 1] if node.kind == "string" else manner.word
        return scalar(value, layout, word_at(around, node.span.end, old))
    if node.kind == "string" and as_written(node.value, value, yaml=layout.yaml):
        return str(node.value)
    if isinstance(value, list) and value and around.has_newline(*node.span):
        outer = around.indent(node.span.start)
        lines = [f"{outer}{layout.unit}{dump(item, layout, None, manner)}" for item in value]
        return f"[{layout.newline}{joined(lines, layout, manner)}{layout.newline}{outer}]"
    many = around.text.find("\n", 0, node.span.end) >= 0
    return dump(value, layout, around.indent(node.span.start) if many else None, manner)


def word_at(around: Surroundings, end: int, sample: str) -> str:
    """The sample of a string that is to end there: in Hjson it needs quotes where its line goes on."""
    if sample in QUOTES or around.layout.yaml:
        return sample
    after = around.after_blanks(end)
    return sample if around.newline(after) is not None or after == len(around.text) else '"'


# -- removing --------------------------------------------------------------------------------------


def removed(around: Surroundings, parent: Node, spans: list[Span], index: int) -> list[Edit]:
    """The parent without one of its entries, which stand at `spans`."""
    start, end = spans[index]
    if (
        index == len(spans) - 1
        and (leading := around.leading_comma(start))
        and not around.has_comment(leading.start, start)
    ):
        return [Edit(len(around.text[: leading.start].rstrip()), end, "")]
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
    last, manner = _stretch(parent.members[-1]), manner_of(around, parent)
    comma = around.comma_after(last.end)
    end = last.end if comma is None else comma + 1
    bare = _is_bare(around, parent.members[-1].node)
    leading = around.leading_comma(last.start)
    newline, inner = around.layout.newline, around.indent(last.start)
    if leading is not None:
        before = around.text[leading.start : last.start]
        at = around.end_of_entry(last.end)
        return [Edit(at, at, f"{newline}{inner}{before}{_pair(around, manner, key, value, inner)}")]
    if not bare and not around.starts_line(last.start):
        pair = f"{manner.gap}{_pair(around, manner, key, value, None)}"
        return [Edit(end, end, f",{pair}" if comma is None else f"{pair},")]
    if not around.starts_line(last.start):
        inner += around.layout.unit
    at = around.end_of_entry(end)
    pair = _pair(around, manner, key, value, inner, last=comma is None)
    edit = Edit(at, at, f"{newline}{inner}{pair}{'' if comma is None else ','}")
    alone = bare or comma is not None or not manner.comma
    return [edit] if alone else [Edit(end, end, ","), edit]


def _first_entry(around: Surroundings, parent: Node, key: str, value: Json) -> Edit:
    """The first entry of an object that had none."""
    if not around.has_brackets(parent):
        raise EditError("the file is empty")
    start, end, manner = parent.span.start + 1, parent.span.end - 1, manner_of(around, parent)
    if around.has_newline(start, end):
        inner = around.indent(end) + around.layout.unit
        first = around.line_start(end)
        pair = _pair(around, manner, key, value, inner)
        return Edit(first, first, f"{inner}{pair}{around.layout.newline}")
    pair = _pair(around, manner, key, value, None)
    if around.text[start:end].strip():
        return Edit(start, start, f"{pair} ")
    return Edit(start, end, f"{manner.padding}{pair}{manner.padding}")


def _pair(
    around: Surroundings, manner: Manner, key: str, value: Json, indent: str | None, *, last: bool = True
) -> str:
    """The text of key and value. A string may stand bare where its line ends with it."""
    if isinstance(value, str) and indent is not None and last:
        text = scalar(value, around.layout, manner.word)
    else:
        text = dump(value, around.layout, indent, manner)
    return f"{quoted_like(manner.key, key)}{manner.colon}{text}"


def _is_bare(around: Surroundings, node: Node) -> bool:
    """Whether this is a word that goes on to the end of its line, any comma included."""
    if around.layout.yaml:
        return False
    return node.kind == "string" and around.text[node.span.start : node.span.start + 1] not in ("'", '"')
