"""Edits of YAML, in flow and block style."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dsconfig.document import json_editor
from dsconfig.document.json_editor import entry, movable, nearest, new_entry, renamed
from dsconfig.document.layout import Manner, Raw, Surroundings, dump, manner_of, moved, quoted_like
from dsconfig.document.text_edit import Edit, EditError, apart
from dsconfig.document.tree import Member, Node, Span

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document


# Edits of YAML, in flow and in block style.


class YamlEditor:
    """The `Editor` of a YAML text. Values with anchors, aliases or tags stay: others may share them."""

    def __init__(self, document: Document) -> None:
        self.document, self.around = document, Surroundings(document)
        self.spans: dict[int, list[Span]] = {}
        self.own: dict[int, str] = {}
        """What is wrong with what stands around an entry, by its object or list; empty where nothing is."""

    def set(self, path: KeyPath, value: Json) -> list[Edit]:
        """Give the key this value: behind its colon where nothing stands yet."""
        node = self.document.node(path)
        if node is None:
            return self._add(path, value)
        self._check_own(path)
        if not path:
            return json_editor.replaced(self.around, node, node, value)
        parent, index = entry(self.document, path)
        empty = node.span.start == node.span.end
        if node.items and not self.around.has_brackets(node):
            if not parent.members or self.around.has_brackets(parent):
                raise EditError("a list with dashes may stand where no other value can")
            return [replace_block_value(self.around, parent, parent.members[index], value)]
        if parent.kind == "object" and not self.around.has_brackets(parent) and (empty or value):
            if empty or (isinstance(value, dict) and node.kind != "object"):
                return [replace_block_value(self.around, parent, parent.members[index], value)]
        elif empty:
            raise EditError("the item has no text")
        return json_editor.replaced(self.around, parent, node, value)

    def remove(self, path: KeyPath) -> list[Edit]:
        """Take the entry out, with its comma, or with its lines where it has them to itself."""
        parent, index = entry(self.document, path)
        self._check_own(path)
        return self.remove_entries(parent, [index])

    def remove_entries(self, parent: Node, indexes: Sequence[int]) -> list[Edit]:
        """Take some of the entries out, and not all that stand at the end."""
        spans = self._spans(parent)
        removal = json_editor.removed if self.around.has_brackets(parent) else remove_block_entry
        return apart(edit for index in indexes for edit in removal(self.around, parent, spans, index))

    def rename(self, path: KeyPath, name: str) -> list[Edit]:
        """Write another key, in the quotes that the old one has."""
        parent, index = entry(self.document, path)
        self._check_own(path)
        return renamed(self.document, parent, index, name)

    def copy(self, path: KeyPath, to: KeyPath) -> list[Edit]:
        """Add the value found at `path`, as it is written, at `to`."""
        self._check_own(path)
        return self._add(to, raw_block_value(self.around, movable(self.document, path, to)))

    def _add(self, path: KeyPath, value: Json) -> list[Edit]:
        self._check_own(nearest(self.document, path))
        section, key, value = new_entry(self.document, path, value)
        if self.around.has_brackets(section):
            return json_editor.added(self.around, section, key, value)
        return add_block_entry(self.around, section, key, value)

    def _spans(self, node: Node) -> list[Span]:
        """The stretch of each entry, found once for each object and list."""
        spans = self.spans.get(id(node))
        if spans is None:
            spans = self.spans[id(node)] = block_spans(self.around, node)
        return spans

    def _check_own(self, path: KeyPath) -> None:
        """Raise where the text at the path stands for other paths, too, or has a tag."""
        for length in range(len(path) + 1):
            node = self.document.node(path[:length])
            if node is None:
                return
            if id(node) not in self.own:
                self.own[id(node)] = self._wrong(node)
            if self.own[id(node)]:
                raise EditError(self.own[id(node)])

    def _wrong(self, node: Node) -> str:
        start, end = node.span
        if self.document.text[start : start + 1] in ("&", "*", "!"):
            return "the value has an anchor or a tag"
        try:
            spans = self._spans(node)
        except EditError as error:
            return str(error)
        inside = [node.span, *(member.key_span for member in node.members)]
        inside += [span for span in spans if span.start < span.end]
        outside = any(span.start < start or span.end > end for span in inside)
        return "the value is merged from elsewhere" if outside else ""


# Edits of YAML in block style: an entry has lines of its own, and no commas or brackets around it.

_COLON: Final = re.compile(r"[ \t]*:")


def block_spans(around: Surroundings, node: Node) -> list[Span]:
    """The stretch of each entry. An alias's value stands elsewhere, a value left out nowhere."""
    if node.kind != "object":
        return json_editor.spans(node)
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


def raw_block_value(around: Surroundings, node: Node) -> Raw | Json:
    """The value as it is written; a block scalar depends on where it stands."""
    start, end = node.span
    if start == end or around.text[start] in "|>":
        return node.value
    if node.kind in ("object", "array") and not around.has_brackets(node):
        return Raw(around.text[start:end], " " * (start - around.line_start(start)), block=True)
    return Raw(around.text[start:end], around.indent(start))


# -- removing --------------------------------------------------------------------------------------


def remove_block_entry(around: Surroundings, parent: Node, spans: list[Span], index: int) -> list[Edit]:
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


def add_block_entry(around: Surroundings, parent: Node, key: str, value: Json) -> list[Edit]:
    """One more entry of the mapping."""
    text, stretches = around.text, block_spans(around, parent)
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


def replace_block_value(around: Surroundings, parent: Node, member: Member, value: Json) -> Edit:
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
