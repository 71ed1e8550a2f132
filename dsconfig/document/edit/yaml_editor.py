"""Edits of YAML, in flow and in block style."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsconfig.document.edit import flow, yaml_block
from dsconfig.document.edit.edit import Edit, EditError, apart
from dsconfig.document.edit.neighbors import Surroundings
from dsconfig.document.edit.targets import entry, movable, nearest, new_entry, renamed

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document
    from dsconfig.document.tree import Node, Span


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
            return flow.replaced(self.around, node, node, value)
        parent, index = entry(self.document, path)
        empty = node.span.start == node.span.end
        if node.items and not self.around.has_brackets(node):
            if not parent.members or self.around.has_brackets(parent):
                raise EditError("a list with dashes may stand where no other value can")
            return [yaml_block.replaced(self.around, parent, parent.members[index], value)]
        if parent.kind == "object" and not self.around.has_brackets(parent) and (empty or value):
            if empty or (isinstance(value, dict) and node.kind != "object"):
                return [yaml_block.replaced(self.around, parent, parent.members[index], value)]
        elif empty:
            raise EditError("the item has no text")
        return flow.replaced(self.around, parent, node, value)

    def remove(self, path: KeyPath) -> list[Edit]:
        """Take the entry out, with its comma, or with its lines where it has them to itself."""
        parent, index = entry(self.document, path)
        self._check_own(path)
        return self.remove_entries(parent, [index])

    def remove_entries(self, parent: Node, indexes: Sequence[int]) -> list[Edit]:
        """Take some of the entries out, and not all that stand at the end."""
        spans = self._spans(parent)
        removed = flow.removed if self.around.has_brackets(parent) else yaml_block.removed
        return apart(edit for index in indexes for edit in removed(self.around, parent, spans, index))

    def rename(self, path: KeyPath, name: str) -> list[Edit]:
        """Write another key, in the quotes that the old one has."""
        parent, index = entry(self.document, path)
        self._check_own(path)
        return renamed(self.document, parent, index, name)

    def copy(self, path: KeyPath, to: KeyPath) -> list[Edit]:
        """Add the value found at `path`, as it is written, at `to`."""
        self._check_own(path)
        return self._add(to, yaml_block.raw(self.around, movable(self.document, path, to)))

    def _add(self, path: KeyPath, value: Json) -> list[Edit]:
        self._check_own(nearest(self.document, path))
        section, key, value = new_entry(self.document, path, value)
        if self.around.has_brackets(section):
            return flow.added(self.around, section, key, value)
        return yaml_block.added(self.around, section, key, value)

    def _spans(self, node: Node) -> list[Span]:
        """The stretch of each entry, found once for each object and list."""
        spans = self.spans.get(id(node))
        if spans is None:
            spans = self.spans[id(node)] = yaml_block.spans(self.around, node)
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
