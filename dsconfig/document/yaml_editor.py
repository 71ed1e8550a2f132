"""Edits of YAML, in flow and block style."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dsconfig.document import json_editor
from dsconfig.document.json_editor import existing_parent, find_entry, movable_node, new_entry, rename_key
from dsconfig.document.layout import EntryStyle, Raw, Surroundings, dump, quoted_like, reindented, style_of
from dsconfig.document.text_edit import Edit, EditError, without_overlaps
from dsconfig.document.tree import Member, Node, Span

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document


class YamlEditor:
    """The `Editor` of a YAML text. Values with anchors, aliases or tags are not edited: others may share them."""

    def __init__(self, document: Document) -> None:
        self.document, self.around = document, Surroundings(document)
        self.spans: dict[int, list[Span]] = {}
        self.obstacles: dict[int, str] = {}
        """Why the entries of an object or list cannot be edited, by node; empty if they can."""

    def set(self, path: KeyPath, value: Json) -> list[Edit]:
        """Set the key to a value; write it behind the colon if the key has none yet."""
        node = self.document.node(path)
        if node is None:
            return self._add(path, value)
        self._check_editable(path)
        if not path:
            return json_editor.replace_value(self.around, node, node, value)
        parent, index = find_entry(self.document, path)
        empty = node.span.start == node.span.end
        if node.items and not self.around.has_brackets(node):
            if not parent.members or self.around.has_brackets(parent):
                raise EditError("a block list cannot be replaced here")
            return [replace_block_value(self.around, parent, parent.members[index], value)]
        if parent.kind == "object" and not self.around.has_brackets(parent) and (empty or value):
            if empty or (isinstance(value, dict) and node.kind != "object"):
                return [replace_block_value(self.around, parent, parent.members[index], value)]
        elif empty:
            raise EditError("the item has no text")
        return json_editor.replace_value(self.around, parent, node, value)

    def remove(self, path: KeyPath) -> list[Edit]:
        """Remove the entry with its comma, or with its lines if nothing else is on them."""
        parent, index = find_entry(self.document, path)
        self._check_editable(path)
        return self.remove_entries(parent, [index])

    def remove_entries(self, parent: Node, indexes: Sequence[int]) -> list[Edit]:
        """Remove some of the entries, but not all of the last ones."""
        spans = self._spans(parent)
        removal = json_editor.remove_entry if self.around.has_brackets(parent) else remove_block_entry
        return without_overlaps(
            edit for index in indexes for edit in removal(self.around, parent, spans, index)
        )

    def rename(self, path: KeyPath, name: str) -> list[Edit]:
        """Rename the key, and keep its style of quotes."""
        parent, index = find_entry(self.document, path)
        self._check_editable(path)
        return rename_key(self.document, parent, index, name)

    def copy(self, path: KeyPath, to: KeyPath) -> list[Edit]:
        """Add the text of the value at `path` at `to`."""
        self._check_editable(path)
        return self._add(to, raw_block_value(self.around, movable_node(self.document, path, to)))

    def _add(self, path: KeyPath, value: Json) -> list[Edit]:
        self._check_editable(existing_parent(self.document, path))
        section, key, value = new_entry(self.document, path, value)
        if self.around.has_brackets(section):
            return json_editor.add_entry(self.around, section, key, value)
        return add_block_entry(self.around, section, key, value)

    def _spans(self, node: Node) -> list[Span]:
        """Return the span of each entry, computed once for each object and list."""
        spans = self.spans.get(id(node))
        if spans is None:
            spans = self.spans[id(node)] = block_spans(self.around, node)
        return spans

    def _check_editable(self, path: KeyPath) -> None:
        """Raise if the text at the path also defines other paths, or has a tag."""
        for length in range(len(path) + 1):
            node = self.document.node(path[:length])
            if node is None:
                return
            if id(node) not in self.obstacles:
                self.obstacles[id(node)] = self._obstacle(node)
            if self.obstacles[id(node)]:
                raise EditError(self.obstacles[id(node)])

    def _obstacle(self, node: Node) -> str:
        start, end = node.span
        if self.document.text[start : start + 1] in ("&", "*", "!"):
            return "the value has an anchor or a tag"
        try:
            spans = self._spans(node)
        except EditError as error:
            return str(error)
        parts = [node.span, *(member.key_span for member in node.members)]
        parts += [span for span in spans if span.start < span.end]
        is_elsewhere = any(span.start < start or span.end > end for span in parts)
        return "the value is merged from elsewhere" if is_elsewhere else ""


# Block style: an entry has lines of its own, without commas or brackets.

_COLON: Final = re.compile(r"[ \t]*:")


def block_spans(around: Surroundings, node: Node) -> list[Span]:
    """Return the span of each entry. The value of an alias is elsewhere, an omitted value has no text."""
    if node.kind != "object":
        return json_editor.entry_spans(node)
    return [Span(member.key_span.start, _end(around, member)) for member in node.members]


def _end(around: Surroundings, member: Member) -> int:
    """Return the end of the entry."""
    if member.node.span.start < member.node.span.end:
        if member.node.span.start < member.key_span.end:
            raise EditError("the value is an alias")
        return member.node.span.end
    return after_colon(around, member.key_span)


def after_colon(around: Surroundings, key: Span) -> int:
    """Return the offset behind the colon of a key."""
    match = _COLON.match(around.text, key.end)
    if match is None:
        raise EditError("the key is not followed by its colon")
    return match.end()


def raw_block_value(around: Surroundings, node: Node) -> Raw | Json:
    """Return the value as it is written; block scalars depend on their position and are formatted anew."""
    start, end = node.span
    if start == end or around.text[start] in "|>":
        return node.value
    if node.kind in ("object", "array") and not around.has_brackets(node):
        return Raw(around.text[start:end], " " * (start - around.line_start(start)), is_block=True)
    return Raw(around.text[start:end], around.indent(start))


# -- removing --------------------------------------------------------------------------------------


def remove_block_entry(around: Surroundings, parent: Node, spans: list[Span], index: int) -> list[Edit]:
    """Remove an entry of the parent, whose entries have these spans."""
    if len(spans) == 1:
        return [_replace_by_brackets(around, parent, spans[0].end)]
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


def _replace_by_brackets(around: Surroundings, parent: Node, end: int) -> Edit:
    """Replace the last entry by brackets; without them the value would be null."""
    pair = "{}" if parent.kind == "object" else "[]"
    start, end = parent.span.start, max(parent.span.end, end)
    key_end = len(around.text[:start].rstrip())
    if key_end and around.text[key_end - 1] == ":":
        return Edit(key_end, end, f" {pair}")
    # A block list may be indented like its key; brackets must be indented further.
    return Edit(start, end, f"{'' if parent.kind == 'object' else around.layout.unit}{pair}")


def _dash(around: Surroundings, item: Span) -> int:
    """Return the offset of an item's dash."""
    dash_end = len(around.text[: item.start].rstrip(" \t"))
    if item.start == item.end or around.text[dash_end - 1 : dash_end] != "-":
        raise EditError("the item does not follow its dash")
    return dash_end - 1


# -- adding ----------------------------------------------------------------------------------------


def add_block_entry(around: Surroundings, parent: Node, key: str, value: Json) -> list[Edit]:
    """Add an entry to the mapping."""
    text, ranges = around.text, block_spans(around, parent)
    first = ranges[0].start
    at = around.end_of_entry(ranges[-1].end)
    line_rest = around.after_blanks(at)
    if at < len(text) and around.newline(line_rest) is None:
        raise EditError("the entry does not end with its line")
    indent = text[around.line_start(first) : first]
    indent = indent if not indent.strip() else " " * len(indent)
    manner = style_of(around, parent)
    key_text = quoted_like(text[first : first + 1], key)
    return [
        Edit(at, at, f"{around.layout.newline}{indent}{key_text}:{_value(around, value, indent, manner)}")
    ]


def replace_block_value(around: Surroundings, parent: Node, member: Member, value: Json) -> Edit:
    """Replace the value behind a key's colon: a scalar, a block list, or nothing."""
    start = member.key_span.start
    indent = around.text[around.line_start(start) : start]
    at = after_colon(around, member.key_span)
    end = max(at, member.node.span.end)
    if parent.kind != "object" or around.has_comment(at, end):
        raise EditError("there is a comment between the key and its value")
    return Edit(at, end, _value(around, value, " " * len(indent), style_of(around, parent)))


def _value(around: Surroundings, value: Json, indent: str, manner: EntryStyle) -> str:
    """Format the value behind the colon of a key that is indented by `indent`."""
    layout = around.layout
    inner = indent + layout.unit
    if isinstance(value, Raw) and value.is_block:
        return f"{layout.newline}{inner}{reindented(value, layout, inner)}"
    if isinstance(value, dict) and value and (_needs_lines(value) or not manner.flow):
        lines = (
            f"{inner}{quoted_like(manner.key, str(key))}:{_value(around, item, inner, manner)}"
            for key, item in value.items()
        )
        return layout.newline + layout.newline.join(lines)
    return f" {dump(value, layout, indent if manner.spread and not manner.flow else None, manner)}"


def _needs_lines(value: Json) -> bool:
    """Whether a value contains something that cannot be inside brackets."""
    if isinstance(value, dict):
        return any(map(_needs_lines, value.values()))
    return isinstance(value, Raw) and value.is_block
