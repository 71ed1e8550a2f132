"""JSON texts inside a program: string literals that it parses, and files that a notebook writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.document import read_text
from dsconfig.document.tree import LocatedTree, ObjectMember, TreeNode, shift_tree

if TYPE_CHECKING:
    from dsconfig.document.tree import TextSpan


def parse_json_tree(text: str, start: int) -> LocatedTree:
    """Return the tree of a JSON text that starts at an offset of a longer text."""
    document = read_text(text)
    tree = document.tree
    return shift_tree(tree, start)


def json_root_keys(text: str) -> frozenset[str]:
    """Return the root keys of a JSON text; none if it is no object."""
    if "{" not in text:
        return frozenset()
    value = read_text(text).value()
    return frozenset(value) if isinstance(value, dict) else frozenset()


def collapse_to_span(node: TreeNode, span: TextSpan) -> TreeNode:
    """Return a node all of whose parts are at one span, for a text whose characters cannot be located."""
    return node._replace(
        span=span,
        members=tuple(
            ObjectMember(each.key, span, collapse_to_span(each.node, span)) for each in node.members
        ),
        items=tuple(collapse_to_span(each, span) for each in node.items),
    )
