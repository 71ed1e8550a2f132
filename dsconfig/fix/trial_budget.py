"""How often a text may be judged to find out which changes hold: a short one often, a long one seldom."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.document import Document
    from dsconfig.document.tree import Node

_DATA = 3 << 16
"""Code points of all configs together, once for each class of releases."""
_CLASSES = 16
"""Releases behave alike in classes: so many evaluations, about, the longest range costs."""
_VALUE = 12
"""Code points that a value takes in a text beside the words in it."""
_SMALL, _AS_WRITTEN = 4096, 64
"""A config as people write them is judged so often that all its fixes can be told apart."""
_LOOSEST = 4
"""Text for one of its data at most: beyond that, reading the text is what costs."""


def affordable(document: Document, releases: int = 1) -> int:
    """How often a text may be judged for so many releases; 0 where it is too long for even once.

    It is the data that counts, so that it is written in one format or another makes no difference.
    """
    size = max(64 + _size(document.root), len(document.text) // _LOOSEST)
    return max(_DATA // (size * min(releases, _CLASSES)), _AS_WRITTEN if size < _SMALL else 0)


def _size(root: Node | None) -> int:
    todo, size = [root] if root else [], 0
    while todo:
        node = todo.pop()
        size += _VALUE + (len(node.value) if isinstance(node.value, str) else 0)
        todo += node.items
        for member in node.members:
            size += len(member.key)
            todo.append(member.node)
    return size
