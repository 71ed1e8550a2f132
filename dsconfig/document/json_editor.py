"""Edits of JSON, JSONC and Hjson, and of the same brackets in YAML flow style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsconfig.document.layout import (
    QUOTES,
    Manner,
    Raw,
    Surroundings,
    as_written,
    dump,
    joined,
    manner_of,
    quoted_like,
    scalar,
)
from dsconfig.document.text_edit import Edit, EditError, apart
from dsconfig.document.tree import Member, Node, Span

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document


# Edits of JSON, JSONC and Hjson.


class JsonEditor:
    """The `Editor` of a JSON text."""

    def __init__(self, document: Document) -> None:
        self.document, self.around = document, Surroundings(document)
        self.spans: dict[int, list[Span]] = {}

    def set(self, path: KeyPath, value: Json) -> list[Edit]:
        """Give the key this value; sections on the way to it are made where they are missing."""
        node = self.document.node(path)
        if node is None:
            return self._add(path, value)
        parent = self.document.node(path[:-1]) if path else node
        return replaced(self.around, parent or node, node, value)

    def remove(self, path: KeyPath) -> list[Edit]:
        """Take the entry out, with its comma, and with its lines where it has them to itself."""
        parent, index = entry(self.document, path)
        return self.remove_entries(parent, [index])

    def remove_entries(self, parent: Node, indexes: Sequence[int]) -> list[Edit]:
        """Take some of the entries out, and not all that stand at the end."""
        stretches = self.spans.get(id(parent)) or self.spans.setdefault(id(parent), spans(parent))
        edits = (edit for index in indexes for edit in removed(self.around, parent, stretches, index))
        return apart(edits)

    def rename(self, path: KeyPath, name: str) -> list[Edit]:
        """Write another key, in the quotes that the old one has."""
        return renamed(self.document, *entry(self.document, path), name)

    def copy(self, path: KeyPath, to: KeyPath) -> list[Edit]:
        """Add the value found at `path`, as it is written, at `to`."""
        return self._add(to, raw(self.around, movable(self.document, path, to)))

    def _add(self, path: KeyPath, value: Json) -> list[Edit]:
        return added(self.around, *new_entry(self.document, path, value))


# Where in the tree an operation on a path takes place.


def entry(document: Document, path: KeyPath) -> tuple[Node, int]:
    """The object or array that holds the entry, and which of its entries it is; of duplicates the last."""
    parent = document.node(path[:-1]) if path else None
    if parent is not None and document.located(path):
        index = document.index(parent, path[-1]) if isinstance(path[-1], str) else path[-1]
        if index is not None:
            return parent, index
    raise EditError("there is no such key")


def nearest(document: Document, path: KeyPath) -> KeyPath:
    """The path's nearest parent that exists."""
    parent = path[:-1]
    while document.node(parent) is None:
        parent = parent[:-1]
    return parent


def new_entry(document: Document, path: KeyPath, value: Json) -> tuple[Node, str, Json]:
    """The nearest section, the key to add to it, and the key's value, in the sections that are missing."""
    place = nearest(document, path)
    section, keys = document.node(place), path[len(place) :]
    if section is None or section.kind != "object" or not all(isinstance(key, str) for key in keys):
        raise EditError(f"`{'.'.join(map(str, place))}` is not a section to add a key to")
    for key in reversed(keys[1:]):
        value = {key: value}
    return section, str(keys[0]), value


def movable(document: Document, path: KeyPath, to: KeyPath) -> Node:
    """What stands at the path, if it may be moved to the other one."""
    node = document.node(path)
    if node is None or document.located(to) or to[: len(path)] == path:
        raise EditError("there is nothing to move, or no place to move it to")
    return node


def renamed(document: Document, parent: Node, index: int, name: str) -> list[Edit]:
    """Another key in the quotes of the old one."""
    if parent.kind != "object" or document.index(parent, name) is not None:
        old = parent.members[index].key if parent.members else index
        raise EditError(f"`{name}` cannot be the name of {old!r}")
    span = parent.members[index].key_span
    return [Edit(*span, quoted_like(document.text[span.start : span.end], name))]


# Edits of entries that stand in brackets, between commas: JSON, JSONC, Hjson, and YAML in flow style.


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
