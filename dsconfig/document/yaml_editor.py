"""Edit YAML text in flow and block style."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dsconfig.document import json_editor
from dsconfig.document.json_editor import (
    entry_to_add,
    find_entry,
    movable_node,
    nearest_existing_parent,
    rename_key,
)
from dsconfig.document.located_tree import ObjectMember, TextSpan, TreeNode
from dsconfig.document.text_edit import EditError, TextEdit, remove_overlaps
from dsconfig.document.text_layout import (
    EntryStyle,
    RawValue,
    TextSurroundings,
    entry_style_of,
    format_value,
    quote_like_sample,
    reindent_raw_value,
)

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document


class YamlEditor:
    """A `TextEditor` for YAML documents; values with anchors, aliases or tags are not edited."""

    def __init__(self, document: Document) -> None:
        self.document, self.around = document, TextSurroundings(document)
        self.spans: dict[int, list[TextSpan]] = {}
        self.obstacles: dict[int, str] = {}
        """Why the entries of an object or list cannot be edited, by node; empty if they can be edited."""

    def set_value(self, path: KeyPath, value: Json) -> list[TextEdit]:
        """Set the key at a path to a value; if it has no value yet, write one after the colon."""
        node = self.document.node(path)
        if node is None:
            return self._add_entry(path, value)
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

    def remove_entry(self, path: KeyPath) -> list[TextEdit]:
        """Remove the entry at a path with its comma, or with its lines if nothing else is on them."""
        parent, index = find_entry(self.document, path)
        self._check_editable(path)
        return self.remove_entries(parent, [index])

    def remove_entries(self, parent: TreeNode, indexes: Sequence[int]) -> list[TextEdit]:
        """Remove several entries by index; at least one of the last entries must be kept."""
        spans = self._entry_spans(parent)
        removal = json_editor.remove_entry if self.around.has_brackets(parent) else remove_block_entry
        return remove_overlaps(
            edit for index in indexes for edit in removal(self.around, parent, spans, index)
        )

    def rename_key(self, path: KeyPath, name: str) -> list[TextEdit]:
        """Rename the key at a path, keeping its quotation marks."""
        parent, index = find_entry(self.document, path)
        self._check_editable(path)
        return rename_key(self.document, parent, index, name)

    def copy_value(self, path: KeyPath, to: KeyPath) -> list[TextEdit]:
        """Copy the value at `path`, as spelled in the text, to the path `to`."""
        self._check_editable(path)
        return self._add_entry(to, block_value_as_written(self.around, movable_node(self.document, path, to)))

    def _add_entry(self, path: KeyPath, value: Json) -> list[TextEdit]:
        self._check_editable(nearest_existing_parent(self.document, path))
        section, key, value = entry_to_add(self.document, path, value)
        if self.around.has_brackets(section):
            return json_editor.add_entry(self.around, section, key, value)
        return add_block_entry(self.around, section, key, value)

    def _entry_spans(self, node: TreeNode) -> list[TextSpan]:
        """Return the span of each entry in an object or list; the spans are computed only once."""
        spans = self.spans.get(id(node))
        if spans is None:
            spans = self.spans[id(node)] = block_entry_spans(self.around, node)
        return spans

    def _check_editable(self, path: KeyPath) -> None:
        """Raise EditError if the text at the path has a tag or also defines other paths."""
        for length in range(len(path) + 1):
            node = self.document.node(path[:length])
            if node is None:
                return
            if id(node) not in self.obstacles:
                self.obstacles[id(node)] = self._why_not_editable(node)
            if self.obstacles[id(node)]:
                raise EditError(self.obstacles[id(node)])

    def _why_not_editable(self, node: TreeNode) -> str:
        start, end = node.span
        if self.document.text[start : start + 1] in ("&", "*", "!"):
            return "the value has an anchor or a tag"
        try:
            spans = self._entry_spans(node)
        except EditError as error:
            return str(error)
        parts = [node.span, *(member.key_span for member in node.members)]
        parts += [span for span in spans if span.start < span.end]
        is_elsewhere = any(span.start < start or span.end > end for span in parts)
        return "the value is merged from elsewhere" if is_elsewhere else ""


# Block style: an entry has lines of its own, without commas or brackets.

_COLON: Final = re.compile(r"[ \t]*:")


def block_entry_spans(around: TextSurroundings, node: TreeNode) -> list[TextSpan]:
    """Return the span of each entry; a value that is omitted or an alias has no text of its own."""
    if node.kind != "object":
        return json_editor.entry_spans(node)
    return [TextSpan(member.key_span.start, _end_of_member(around, member)) for member in node.members]


def _end_of_member(around: TextSurroundings, member: ObjectMember) -> int:
    """Return the end of an entry of a block mapping."""
    if member.node.span.start < member.node.span.end:
        if member.node.span.start < member.key_span.end:
            raise EditError("the value is an alias")
        return member.node.span.end
    return offset_after_colon(around, member.key_span)


def offset_after_colon(around: TextSurroundings, key: TextSpan) -> int:
    """Return the offset just after a key's colon."""
    match = _COLON.match(around.text, key.end)
    if match is None:
        raise EditError("the key is not followed by its colon")
    return match.end()


def block_value_as_written(around: TextSurroundings, node: TreeNode) -> RawValue | Json:
    """Return a value as spelled in the text; block scalars depend on their position and are reformatted."""
    start, end = node.span
    if start == end or around.text[start] in "|>":
        return node.value
    if node.kind in ("object", "array") and not around.has_brackets(node):
        return RawValue(around.text[start:end], " " * (start - around.line_start(start)), is_block=True)
    return RawValue(around.text[start:end], around.indent_at(start))


# -- removing --------------------------------------------------------------------------------------


def remove_block_entry(
    around: TextSurroundings, parent: TreeNode, spans: list[TextSpan], index: int
) -> list[TextEdit]:
    """Remove a block-style entry from its parent, given the spans of all entries of the parent."""
    if len(spans) == 1:
        return [_replace_by_brackets(around, parent, spans[0].end)]
    start, end = spans[index]
    start = start if parent.kind == "object" else _dash_of_item(around, spans[index])
    after = around.skip_blanks(end)
    newline = around.line_break_end(after)
    if after in around.comments:
        return [TextEdit(start, after, "")]
    if newline is None and after < len(around.text):
        raise EditError("the entry does not end with its line")
    if around.is_first_on_line(start):
        return [TextEdit(around.line_start(start), after if newline is None else newline, "")]
    following = spans[index + 1].start if index + 1 < len(spans) else after
    if parent.kind != "object" or around.has_comment(after, following):
        raise EditError("the entry does not begin its line")
    return [TextEdit(start, following, "")]


def _replace_by_brackets(around: TextSurroundings, parent: TreeNode, end: int) -> TextEdit:
    """Replace the only remaining entry with empty brackets, because an empty block would be null."""
    pair = "{}" if parent.kind == "object" else "[]"
    start, end = parent.span.start, max(parent.span.end, end)
    key_end = len(around.text[:start].rstrip())
    if key_end and around.text[key_end - 1] == ":":
        return TextEdit(key_end, end, f" {pair}")
    # A block list may be indented like its key; brackets must be indented further.
    return TextEdit(start, end, f"{'' if parent.kind == 'object' else around.layout.unit}{pair}")


def _dash_of_item(around: TextSurroundings, item: TextSpan) -> int:
    """Return the offset of the dash before a list item."""
    dash_end = len(around.text[: item.start].rstrip(" \t"))
    if item.start == item.end or around.text[dash_end - 1 : dash_end] != "-":
        raise EditError("the item does not follow its dash")
    return dash_end - 1


# -- adding ----------------------------------------------------------------------------------------


def add_block_entry(around: TextSurroundings, parent: TreeNode, key: str, value: Json) -> list[TextEdit]:
    """Add an entry to a block mapping."""
    text, ranges = around.text, block_entry_spans(around, parent)
    first = ranges[0].start
    at = around.end_of_entry(ranges[-1].end)
    line_rest = around.skip_blanks(at)
    if at < len(text) and around.line_break_end(line_rest) is None:
        raise EditError("the entry does not end with its line")
    indent = text[around.line_start(first) : first]
    indent = indent if not indent.strip() else " " * len(indent)
    manner = entry_style_of(around, parent)
    key_text = quote_like_sample(text[first : first + 1], key)
    return [
        TextEdit(
            at,
            at,
            f"{around.layout.newline}{indent}{key_text}:{_format_block_value(around, value, indent, manner)}",
        )
    ]


def replace_block_value(
    around: TextSurroundings, parent: TreeNode, member: ObjectMember, value: Json
) -> TextEdit:
    """Replace the text after a key's colon, which is a scalar, a block list or nothing."""
    start = member.key_span.start
    indent = around.text[around.line_start(start) : start]
    at = offset_after_colon(around, member.key_span)
    end = max(at, member.node.span.end)
    if parent.kind != "object" or around.has_comment(at, end):
        raise EditError("there is a comment between the key and its value")
    return TextEdit(
        at, end, _format_block_value(around, value, " " * len(indent), entry_style_of(around, parent))
    )


def _format_block_value(around: TextSurroundings, value: Json, indent: str, manner: EntryStyle) -> str:
    """Format a value that follows the colon of a key indented by `indent`."""
    layout = around.layout
    inner = indent + layout.unit
    if isinstance(value, RawValue) and value.is_block:
        return f"{layout.newline}{inner}{reindent_raw_value(value, layout, inner)}"
    if isinstance(value, dict) and value and (_needs_block_style(value) or not manner.flow):
        lines = (
            f"{inner}{quote_like_sample(manner.key, str(key))}:{_format_block_value(around, item, inner, manner)}"
            for key, item in value.items()
        )
        return layout.newline + layout.newline.join(lines)
    return f" {format_value(value, layout, indent if manner.spread and not manner.flow else None, manner)}"


def _needs_block_style(value: Json) -> bool:
    """Return whether a value contains raw block-style text, which cannot be inside brackets."""
    if isinstance(value, dict):
        return any(map(_needs_block_style, value.values()))
    return isinstance(value, RawValue) and value.is_block
