"""Edits of JSON, JSONC and Hjson, and of YAML in flow style."""

from __future__ import annotations

from collections.abc import Sequence

from dsconfig.document.layout import (
    QUOTES,
    EntryStyle,
    Raw,
    Surroundings,
    dump,
    join_lines,
    quoted_like,
    scalar,
    spells_number,
    style_of,
)
from dsconfig.document.text_edit import Edit, EditError, without_overlaps
from dsconfig.document.tree import Member, Node, Span

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document


class JsonEditor:
    """The `Editor` of a JSON text."""

    def __init__(self, document: Document) -> None:
        self.document, self.around = document, Surroundings(document)
        self.spans: dict[int, list[Span]] = {}

    def set(self, path: KeyPath, value: Json) -> list[Edit]:
        """Set the key to a value; create missing sections."""
        node = self.document.node(path)
        if node is None:
            return self._add(path, value)
        parent = self.document.node(path[:-1]) if path else node
        return replace_value(self.around, parent or node, node, value)

    def remove(self, path: KeyPath) -> list[Edit]:
        """Remove the entry with its comma, and with its lines if nothing else is on them."""
        parent, index = find_entry(self.document, path)
        return self.remove_entries(parent, [index])

    def remove_entries(self, parent: Node, indexes: Sequence[int]) -> list[Edit]:
        """Remove some of the entries, but not all of the last ones."""
        ranges = self.spans.get(id(parent)) or self.spans.setdefault(id(parent), entry_spans(parent))
        edits = (edit for index in indexes for edit in remove_entry(self.around, parent, ranges, index))
        return without_overlaps(edits)

    def rename(self, path: KeyPath, name: str) -> list[Edit]:
        """Rename the key, and keep its style of quotes."""
        return rename_key(self.document, *find_entry(self.document, path), name)

    def copy(self, path: KeyPath, to: KeyPath) -> list[Edit]:
        """Add the text of the value at `path` at `to`."""
        return self._add(to, raw_value(self.around, movable_node(self.document, path, to)))

    def _add(self, path: KeyPath, value: Json) -> list[Edit]:
        return add_entry(self.around, *new_entry(self.document, path, value))


def find_entry(document: Document, path: KeyPath) -> tuple[Node, int]:
    """Return the parent of an entry, and its index there; the last one of duplicates."""
    parent = document.node(path[:-1]) if path else None
    if parent is not None and document.has_path(path):
        index = document.index(parent, path[-1]) if isinstance(path[-1], str) else path[-1]
        if index is not None:
            return parent, index
    raise EditError("the text does not contain the key")


def existing_parent(document: Document, path: KeyPath) -> KeyPath:
    """Return the nearest existing parent of a path."""
    parent = path[:-1]
    while document.node(parent) is None:
        parent = parent[:-1]
    return parent


def new_entry(document: Document, path: KeyPath, value: Json) -> tuple[Node, str, Json]:
    """Return the nearest section, the key to add to it, and its value inside the missing sections."""
    section_path = existing_parent(document, path)
    section, keys = document.node(section_path), path[len(section_path) :]
    if section is None or section.kind != "object" or not all(isinstance(key, str) for key in keys):
        raise EditError(f"`{'.'.join(map(str, section_path))}` is not a section to add a key to")
    for key in reversed(keys[1:]):
        value = {key: value}
    return section, str(keys[0]), value


def movable_node(document: Document, path: KeyPath, to: KeyPath) -> Node:
    """Return the node at `path`, if it can be moved to `to`."""
    node = document.node(path)
    if node is None or document.has_path(to) or to[: len(path)] == path:
        raise EditError("the key to move is absent, or its new place is taken")
    return node


def rename_key(document: Document, parent: Node, index: int, name: str) -> list[Edit]:
    """Rename a key, and keep its style of quotes."""
    if parent.kind != "object" or document.index(parent, name) is not None:
        old = parent.members[index].key if parent.members else index
        raise EditError(f"{old!r} cannot be renamed to `{name}`")
    span = parent.members[index].key_span
    return [Edit(*span, quoted_like(document.text[span.start : span.end], name))]


# Edits of entries in brackets, between commas: JSON, JSONC, Hjson, and YAML in flow style.


def entry_spans(node: Node) -> list[Span]:
    """Return the range of each entry, from its key to the end of its value."""
    if node.kind == "object":
        return [_member_span(member) for member in node.members]
    return [item.span for item in node.items]


def _member_span(member: Member) -> Span:
    return Span(member.key_span.start, max(member.key_span.end, member.node.span.end))


def raw_value(around: Surroundings, node: Node) -> Raw | Json:
    """Return the value as it is written, for use elsewhere; an unquoted string is quoted."""
    text = around.text[node.span.start : node.span.end]
    if node.kind == "string" and text[:1] not in ("'", '"'):
        return node.value
    return Raw(text, around.indent(node.span.start))


def replace_value(around: Surroundings, parent: Node, node: Node, value: Json) -> list[Edit]:
    """Replace a value; if both values have the same entries, replace only the different ones."""
    if isinstance(value, dict) and value and list(value) == [member.key for member in node.members]:
        pairs = [(node, member.node, value[member.key]) for member in node.members]
    elif isinstance(value, list) and value and len(value) == len(node.items):
        pairs = [(node, item, new) for item, new in zip(node.items, value, strict=True)]
    else:
        return [Edit(*node.span, _format_value(around, parent, node, value))]
    if any(child.span.start == child.span.end for _, child, _ in pairs):
        return [Edit(*node.span, _format_value(around, parent, node, value))]
    return [
        edit
        for holder, child, new in pairs
        if type(new) is not type(child.value) or new != child.value
        for edit in replace_value(around, holder, child, new)
    ]


def _format_value(around: Surroundings, parent: Node, node: Node, value: Json) -> str:
    """Format the value like its neighbors; a number that was quoted keeps its spelling."""
    layout, manner = around.layout, style_of(around, parent)
    if isinstance(value, str):
        sample = around.text[node.span.start : node.span.start + 1] if node.kind == "string" else manner.word
        return scalar(value, layout, sample_at(around, node.span.end, sample))
    if node.kind == "string" and spells_number(node.value, value, yaml=layout.yaml):
        return str(node.value)
    if isinstance(value, list) and value and around.has_newline(*node.span):
        outer = around.indent(node.span.start)
        lines = [f"{outer}{layout.unit}{dump(item, layout, None, manner)}" for item in value]
        return f"[{layout.newline}{join_lines(lines, layout, manner)}{layout.newline}{outer}]"
    is_multiline = around.text.find("\n", 0, node.span.end) >= 0
    return dump(value, layout, around.indent(node.span.start) if is_multiline else None, manner)


def sample_at(around: Surroundings, end: int, sample: str) -> str:
    """Return the sample quote for a string that ends here; in Hjson an unquoted string must end its line."""
    if sample in QUOTES or around.layout.yaml:
        return sample
    after = around.after_blanks(end)
    return sample if around.newline(after) is not None or after == len(around.text) else '"'


# -- removing --------------------------------------------------------------------------------------


def remove_entry(around: Surroundings, parent: Node, spans: list[Span], index: int) -> list[Edit]:
    """Remove an entry of the parent, whose entries have these spans."""
    start, end = spans[index]
    if (
        index == len(spans) - 1
        and (leading := around.leading_comma(start))
        and not around.has_comment(leading.start, start)
    ):
        return [Edit(len(around.text[: leading.start].rstrip()), end, "")]
    if len(spans) == 1 and around.has_brackets(parent):
        interior = parent.span.start + 1, parent.span.end - 1
        if not around.has_comment(interior[0], start) and not around.has_comment(end, interior[1]):
            return [Edit(*interior, "")]
    comma = around.comma_after(end)
    edits = []
    if comma is None and index and index == len(spans) - 1:
        previous_comma = around.comma_after(spans[index - 1].end)
        edits += [] if previous_comma is None else [Edit(previous_comma, previous_comma + 1, "")]
    if comma is not None and around.has_comment(end, comma):
        return [Edit(start, end, ""), Edit(comma, comma + 1, "")]
    return [*edits, _with_blanks(around, start, end if comma is None else comma + 1)]


def _with_blanks(around: Surroundings, start: int, end: int) -> Edit:
    """Widen a removal over the blanks and line ends that it would leave behind."""
    text = around.text
    after = around.after_blanks(end)
    newline = around.newline(after)
    if around.starts_line(start):
        line_start = max(around.line_start(start), text.startswith("\ufeff"))
        return Edit(start, after, "") if newline is None else Edit(line_start, newline, "")
    if text[start - 1] in "{[":
        next_token = around.after_space(end)
        # YAML requires white space before a comment.
        return Edit(start, after, " ") if next_token in around.comments else Edit(start, next_token, "")
    if newline is not None or after == len(text) or text[after] in "}]":
        return Edit(len(text[:start].rstrip(" \t")), end, "")
    return Edit(start, after, "")


# -- adding ----------------------------------------------------------------------------------------


def add_entry(around: Surroundings, parent: Node, key: str, value: Json) -> list[Edit]:
    """Add an entry to the object."""
    if not parent.members:
        return [_first_entry(around, parent, key, value)]
    last_entry, manner = _member_span(parent.members[-1]), style_of(around, parent)
    comma = around.comma_after(last_entry.end)
    end = last_entry.end if comma is None else comma + 1
    is_unquoted = _is_unquoted(around, parent.members[-1].node)
    leading = around.leading_comma(last_entry.start)
    newline, inner = around.layout.newline, around.indent(last_entry.start)
    if leading is not None:
        before = around.text[leading.start : last_entry.start]
        at = around.end_of_entry(last_entry.end)
        return [Edit(at, at, f"{newline}{inner}{before}{_format_pair(around, manner, key, value, inner)}")]
    if not is_unquoted and not around.starts_line(last_entry.start):
        pair = f"{manner.gap}{_format_pair(around, manner, key, value, None)}"
        return [Edit(end, end, f",{pair}" if comma is None else f"{pair},")]
    if not around.starts_line(last_entry.start):
        inner += around.layout.unit
    at = around.end_of_entry(end)
    pair = _format_pair(around, manner, key, value, inner, last=comma is None)
    edit = Edit(at, at, f"{newline}{inner}{pair}{'' if comma is None else ','}")
    needs_no_comma = is_unquoted or comma is not None or not manner.comma
    return [edit] if needs_no_comma else [Edit(end, end, ","), edit]


def _first_entry(around: Surroundings, parent: Node, key: str, value: Json) -> Edit:
    """Add an entry to an empty object."""
    if not around.has_brackets(parent):
        raise EditError("the file is empty")
    start, end, manner = parent.span.start + 1, parent.span.end - 1, style_of(around, parent)
    if around.has_newline(start, end):
        inner = around.indent(end) + around.layout.unit
        first = around.line_start(end)
        pair = _format_pair(around, manner, key, value, inner)
        return Edit(first, first, f"{inner}{pair}{around.layout.newline}")
    pair = _format_pair(around, manner, key, value, None)
    if around.text[start:end].strip():
        return Edit(start, start, f"{pair} ")
    return Edit(start, end, f"{manner.padding}{pair}{manner.padding}")


def _format_pair(
    around: Surroundings, manner: EntryStyle, key: str, value: Json, indent: str | None, *, last: bool = True
) -> str:
    """Format key and value. A string may stay unquoted if its line ends with it."""
    if isinstance(value, str) and indent is not None and last:
        text = scalar(value, around.layout, manner.word)
    else:
        text = dump(value, around.layout, indent, manner)
    return f"{quoted_like(manner.key, key)}{manner.colon}{text}"


def _is_unquoted(around: Surroundings, node: Node) -> bool:
    """Whether this is an unquoted Hjson string, which extends to the end of its line, commas included."""
    if around.layout.yaml:
        return False
    return node.kind == "string" and around.text[node.span.start : node.span.start + 1] not in ("'", '"')
