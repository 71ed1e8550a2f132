"""Edits of JSON, JSONC and Hjson."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsconfig.document.edit import flow
from dsconfig.document.edit.edit import Edit, apart
from dsconfig.document.edit.neighbors import Surroundings
from dsconfig.document.edit.targets import entry, movable, new_entry, renamed

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document
    from dsconfig.document.tree import Node, Span


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
        return flow.replaced(self.around, parent or node, node, value)

    def remove(self, path: KeyPath) -> list[Edit]:
        """Take the entry out, with its comma, and with its lines where it has them to itself."""
        parent, index = entry(self.document, path)
        return self.remove_entries(parent, [index])

    def remove_entries(self, parent: Node, indexes: Sequence[int]) -> list[Edit]:
        """Take some of the entries out, and not all that stand at the end."""
        spans = self.spans.get(id(parent)) or self.spans.setdefault(id(parent), flow.spans(parent))
        edits = (edit for index in indexes for edit in flow.removed(self.around, parent, spans, index))
        return apart(edits)

    def rename(self, path: KeyPath, name: str) -> list[Edit]:
        """Write another key, in the quotes that the old one has."""
        return renamed(self.document, *entry(self.document, path), name)

    def copy(self, path: KeyPath, to: KeyPath) -> list[Edit]:
        """Add the value found at `path`, as it is written, at `to`."""
        return self._add(to, flow.raw(self.around, movable(self.document, path, to)))

    def _add(self, path: KeyPath, value: Json) -> list[Edit]:
        return flow.added(self.around, *new_entry(self.document, path, value))
