"""Edit JSON, JSONC and Hjson text, and YAML in flow style."""

from __future__ import annotations

from collections.abc import Sequence

from dsconfig.document.located_tree import ObjectMember, TextSpan, TreeNode
from dsconfig.document.text_edit import EditError, TextEdit, remove_overlaps
from dsconfig.document.text_layout import (
    QUOTES,
    EntryStyle,
    RawValue,
    TextSurroundings,
    entry_style_of,
    format_scalar,
    format_value,
    join_object_lines,
    quote_like_sample,
    spells_number,
)

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document


class JsonEditor:
    """A `TextEditor` for JSON, JSONC and Hjson documents."""

    def __init__(self, document: Document) -> None:
        self.document, self.around = document, TextSurroundings(document)
        self.spans: dict[int, list[TextSpan]] = {}

    def set_value(self, path: KeyPath, value: Json) -> list[TextEdit]:
        """Set the key at a path to a value, creating missing sections."""
        node = self.document.node(path)
        if node is None:
            return self._add_entry(path, value)
        parent = self.document.node(path[:-1]) if path else node
        return replace_value(self.around, parent or node, node, value)

    def remove_entry(self, path: KeyPath) -> list[TextEdit]:
        """Remove the entry at a path with its comma, and its lines if nothing else is on them."""
        parent, index = find_entry(self.document, path)
        return self.remove_entries(parent, [index])

    def remove_entries(self, parent: TreeNode, indexes: Sequence[int]) -> list[TextEdit]:
        """Remove several entries by index; at least one of the last entries must be kept."""
        ranges = self.spans.get(id(parent)) or self.spans.setdefault(id(parent), entry_spans(parent))
        edits = (edit for index in indexes for edit in remove_entry(self.around, parent, ranges, index))
        return remove_overlaps(edits)

    def rename_key(self, path: KeyPath, name: str) -> list[TextEdit]:
        """Rename the key at a path, keeping its quotation marks."""
        return rename_key(self.document, *find_entry(self.document, path), name)

    def copy_value(self, path: KeyPath, to: KeyPath) -> list[TextEdit]:
        """Copy the value at `path`, as spelled in the text, to the path `to`."""
        return self._add_entry(to, value_as_written(self.around, movable_node(self.document, path, to)))

    def _add_entry(self, path: KeyPath, value: Json) -> list[TextEdit]:
        return add_entry(self.around, *entry_to_add(self.document, path, value))


def find_entry(document: Document, path: KeyPath) -> tuple[TreeNode, int]:
    """Return the parent node of the entry at a path, and the index of the entry (of the last one among duplicates)."""
    parent = document.node(path[:-1]) if path else None
    if parent is not None and document.has_path(path):
        index = document.member_index(parent, path[-1]) if isinstance(path[-1], str) else path[-1]
        if index is not None:
            return parent, index
    raise EditError("the text does not contain the key")


def nearest_existing_parent(document: Document, path: KeyPath) -> KeyPath:
    """Return the longest prefix of a path that exists in the document."""
    parent = path[:-1]
    while document.node(parent) is None:
        parent = parent[:-1]
    return parent


def entry_to_add(document: Document, path: KeyPath, value: Json) -> tuple[TreeNode, str, Json]:
    """Return the section to extend, the key to add, and its value, which contains any missing sections."""
    section_path = nearest_existing_parent(document, path)
    section, keys = document.node(section_path), path[len(section_path) :]
    if section is None or section.kind != "object" or not all(isinstance(key, str) for key in keys):
        raise EditError(f"`{'.'.join(map(str, section_path))}` is not a section to add a key to")
    for key in reversed(keys[1:]):
        value = {key: value}
    return section, str(keys[0]), value


def movable_node(document: Document, path: KeyPath, to: KeyPath) -> TreeNode:
    """Return the node at `path`, or raise EditError if it cannot be moved to `to`."""
    node = document.node(path)
    if node is None or document.has_path(to) or to[: len(path)] == path:
        raise EditError("the key to move is absent, or its new place is taken")
    return node


def rename_key(document: Document, parent: TreeNode, index: int, name: str) -> list[TextEdit]:
    """Rename a key of an object, keeping its quotation marks."""
    if parent.kind != "object" or document.member_index(parent, name) is not None:
        old = parent.members[index].key if parent.members else index
        raise EditError(f"{old!r} cannot be renamed to `{name}`")
    span = parent.members[index].key_span
    return [TextEdit(*span, quote_like_sample(document.text[span.start : span.end], name))]


# Edits of entries in brackets, between commas: JSON, JSONC, Hjson, and YAML in flow style.


def entry_spans(node: TreeNode) -> list[TextSpan]:
    """Return the span of each entry in an object or list, from the start of the key to the end of the value."""
    if node.kind == "object":
        return [_member_span(member) for member in node.members]
    return [item.span for item in node.items]


def _member_span(member: ObjectMember) -> TextSpan:
    return TextSpan(member.key_span.start, max(member.key_span.end, member.node.span.end))


def value_as_written(around: TextSurroundings, node: TreeNode) -> RawValue | Json:
    """Return a value as spelled in the text, to insert it elsewhere; an unquoted string is returned decoded."""
    text = around.text[node.span.start : node.span.end]
    if node.kind == "string" and text[:1] not in ("'", '"'):
        return node.value
    return RawValue(text, around.indent_at(node.span.start))


def replace_value(around: TextSurroundings, parent: TreeNode, node: TreeNode, value: Json) -> list[TextEdit]:
    """Replace a value; where both values have the same keys or length, edit only the parts that differ."""
    if isinstance(value, dict) and value and list(value) == [member.key for member in node.members]:
        pairs = [(node, member.node, value[member.key]) for member in node.members]
    elif isinstance(value, list) and value and len(value) == len(node.items):
        pairs = [(node, item, new) for item, new in zip(node.items, value, strict=True)]
    else:
        return [TextEdit(*node.span, _format_value(around, parent, node, value))]
    if any(child.span.start == child.span.end for _, child, _ in pairs):
        return [TextEdit(*node.span, _format_value(around, parent, node, value))]
    return [
        edit
        for holder, child, new in pairs
        if type(new) is not type(child.value) or new != child.value
        for edit in replace_value(around, holder, child, new)
    ]


def _format_value(around: TextSurroundings, parent: TreeNode, node: TreeNode, value: Json) -> str:
    """Format a value like its neighbors; a number that was quoted keeps its spelling."""
    layout, manner = around.layout, entry_style_of(around, parent)
    if isinstance(value, str):
        sample = around.text[node.span.start : node.span.start + 1] if node.kind == "string" else manner.word
        return format_scalar(value, layout, quote_sample_at(around, node.span.end, sample))
    if node.kind == "string" and spells_number(node.value, value, yaml=layout.yaml):
        return str(node.value)
    if isinstance(value, list) and value and around.has_newline(*node.span):
        outer = around.indent_at(node.span.start)
        lines = [f"{outer}{layout.unit}{format_value(item, layout, None, manner)}" for item in value]
        return f"[{layout.newline}{join_object_lines(lines, layout, manner)}{layout.newline}{outer}]"
    is_multiline = around.text.find("\n", 0, node.span.end) >= 0
    return format_value(value, layout, around.indent_at(node.span.start) if is_multiline else None, manner)


def quote_sample_at(around: TextSurroundings, end: int, sample: str) -> str:
    """Return the quotation style for a string that ends at `end`; an unquoted Hjson string must end the line."""
    if sample in QUOTES or around.layout.yaml:
        return sample
    after = around.skip_blanks(end)
    return sample if around.line_break_end(after) is not None or after == len(around.text) else '"'


# -- removing --------------------------------------------------------------------------------------


def remove_entry(
    around: TextSurroundings, parent: TreeNode, spans: list[TextSpan], index: int
) -> list[TextEdit]:
    """Remove an entry from its parent, given the spans of all entries of the parent."""
    start, end = spans[index]
    if (
        index == len(spans) - 1
        and (leading := around.leading_comma(start))
        and not around.has_comment(leading.start, start)
    ):
        return [TextEdit(len(around.text[: leading.start].rstrip()), end, "")]
    if len(spans) == 1 and around.has_brackets(parent):
        interior = parent.span.start + 1, parent.span.end - 1
        if not around.has_comment(interior[0], start) and not around.has_comment(end, interior[1]):
            return [TextEdit(*interior, "")]
    comma = around.comma_after(end)
    edits = []
    if comma is None and index and index == len(spans) - 1:
        previous_comma = around.comma_after(spans[index - 1].end)
        edits += [] if previous_comma is None else [TextEdit(previous_comma, previous_comma + 1, "")]
    if comma is not None and around.has_comment(end, comma):
        return [TextEdit(start, end, ""), TextEdit(comma, comma + 1, "")]
    return [*edits, _widen_over_blanks(around, start, end if comma is None else comma + 1)]


def _widen_over_blanks(around: TextSurroundings, start: int, end: int) -> TextEdit:
    """Extend a removal so that it includes the blanks and line breaks that it would leave behind."""
    text = around.text
    after = around.skip_blanks(end)
    newline = around.line_break_end(after)
    if around.is_first_on_line(start):
        line_start = max(around.line_start(start), text.startswith("\ufeff"))
        return TextEdit(start, after, "") if newline is None else TextEdit(line_start, newline, "")
    if text[start - 1] in "{[":
        next_token = around.skip_blanks_and_line_breaks(end)
        # YAML requires white space before a comment.
        return (
            TextEdit(start, after, " ") if next_token in around.comments else TextEdit(start, next_token, "")
        )
    if newline is not None or after == len(text) or text[after] in "}]":
        return TextEdit(len(text[:start].rstrip(" \t")), end, "")
    return TextEdit(start, after, "")


# -- adding ----------------------------------------------------------------------------------------


def add_entry(around: TextSurroundings, parent: TreeNode, key: str, value: Json) -> list[TextEdit]:
    """Add an entry to an object."""
    if not parent.members:
        return [_add_first_entry(around, parent, key, value)]
    last_entry, manner = _member_span(parent.members[-1]), entry_style_of(around, parent)
    comma = around.comma_after(last_entry.end)
    end = last_entry.end if comma is None else comma + 1
    is_unquoted = _is_unquoted_string(around, parent.members[-1].node)
    leading = around.leading_comma(last_entry.start)
    newline, inner = around.layout.newline, around.indent_at(last_entry.start)
    if leading is not None:
        before = around.text[leading.start : last_entry.start]
        at = around.end_of_entry(last_entry.end)
        return [
            TextEdit(at, at, f"{newline}{inner}{before}{_format_pair(around, manner, key, value, inner)}")
        ]
    if not is_unquoted and not around.is_first_on_line(last_entry.start):
        pair = f"{manner.gap}{_format_pair(around, manner, key, value, None)}"
        return [TextEdit(end, end, f",{pair}" if comma is None else f"{pair},")]
    if not around.is_first_on_line(last_entry.start):
        inner += around.layout.unit
    at = around.end_of_entry(end)
    pair = _format_pair(around, manner, key, value, inner, last=comma is None)
    edit = TextEdit(at, at, f"{newline}{inner}{pair}{'' if comma is None else ','}")
    needs_no_comma = is_unquoted or comma is not None or not manner.comma
    return [edit] if needs_no_comma else [TextEdit(end, end, ","), edit]


def _add_first_entry(around: TextSurroundings, parent: TreeNode, key: str, value: Json) -> TextEdit:
    """Add an entry to an empty object."""
    if not around.has_brackets(parent):
        raise EditError("the file is empty")
    start, end, manner = parent.span.start + 1, parent.span.end - 1, entry_style_of(around, parent)
    if around.has_newline(start, end):
        inner = around.indent_at(end) + around.layout.unit
        first = around.line_start(end)
        pair = _format_pair(around, manner, key, value, inner)
        return TextEdit(first, first, f"{inner}{pair}{around.layout.newline}")
    pair = _format_pair(around, manner, key, value, None)
    if around.text[start:end].strip():
        return TextEdit(start, start, f"{pair} ")
    return TextEdit(start, end, f"{manner.padding}{pair}{manner.padding}")


def _format_pair(
    around: TextSurroundings,
    manner: EntryStyle,
    key: str,
    value: Json,
    indent: str | None,
    *,
    last: bool = True,
) -> str:
    """Format a key and its value; a string may be unquoted only at the end of its line."""
    if isinstance(value, str) and indent is not None and last:
        text = format_scalar(value, around.layout, manner.word)
    else:
        text = format_value(value, around.layout, indent, manner)
    return f"{quote_like_sample(manner.key, key)}{manner.colon}{text}"


def _is_unquoted_string(around: TextSurroundings, node: TreeNode) -> bool:
    """Return whether a node is an unquoted Hjson string, which runs to the end of its line."""
    if around.layout.yaml:
        return False
    return node.kind == "string" and around.text[node.span.start : node.span.start + 1] not in ("'", '"')
