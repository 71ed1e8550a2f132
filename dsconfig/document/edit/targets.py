"""Where in the tree an operation on a path takes place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.document.edit.edit import Edit, EditError
from dsconfig.document.indentation import quoted_like

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document
    from dsconfig.document.tree import Node


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
