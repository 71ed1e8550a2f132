"""From PyYAML's nodes and their values to the located tree."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import yaml

from dsconfig.document.tree import NOBODY, Member, Node, NodeKind, Span
from dsconfig.document.yaml.problems import Notes

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


class Locator:
    """Places one text's nodes; aliases share a node. The depth of recursion is bounded by MAX_DEPTH."""

    def __init__(self, notes: Notes, values: dict[yaml.Node, object]) -> None:
        self.notes, self.values = notes, values
        self.done: dict[int, Node] = {}

    def node(self, node: yaml.Node, path: KeyPath = ()) -> Node:
        """The node with its place and entries."""
        known = self.done.get(id(node))
        if known is not None:
            return known
        value, (start, end) = self.values[node], self.notes.place(node)
        members: tuple[Member, ...] = ()
        items: tuple[Node, ...] = ()
        kind = _kind(node, value)
        if kind == "object":
            members = tuple(self.member(key, child, path) for key, child in node.value)
            _text_keys(value, members)
        elif kind == "array" and isinstance(node, yaml.SequenceNode):
            items = tuple(self.node(child, (*path, index)) for index, child in enumerate(node.value))
        if (members or items) and isinstance(node, yaml.CollectionNode) and not node.flow_style:
            end = _last_end((*(member.node for member in members), *items), start, end)
        end = start + len(self.notes.text[start:end].rstrip())  # an empty last value stands behind the line
        self.done[id(node)] = located = Node(kind, Span(start, end), value, members, items)
        return located

    def member(self, key: yaml.Node, child: yaml.Node, path: KeyPath) -> Member:
        """An entry of a mapping. A key that is not a string counts as its text."""
        place, name = self.notes.place(key), self.values.get(key, key.value)
        text = name if isinstance(name, str) else self.notes.text[place.start : place.end]
        if not isinstance(name, str):
            self.notes.note("non-string-key", place, type(name).__name__, NOBODY, (*path, text))
        return Member(text, place, self.node(child, (*path, text)))


def _text_keys(value: object, members: tuple[Member, ...]) -> None:
    """Turn the keys of a mapping into text, in place: whoever holds the mapping sees it so."""
    if isinstance(value, dict) and not all(isinstance(key, str) for key in value):
        named = {member.key: member.node.value for member in members}
        value.clear()
        value.update(named)


def _last_end(nodes: Iterable[Node], start: int, end: int) -> int:
    """Where the last of them ends; aliases stand elsewhere, before the start."""
    return max((node.span.end for node in nodes if node.span.start >= start), default=end)


def _kind(node: yaml.Node, value: object) -> NodeKind:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case dict() if isinstance(node, yaml.MappingNode):
            return "object"
        case list():
            return "array"
    return "string"  # also dates, sets and bytes
