"""Build the tree of plain JSON, whose value json's C scanner has parsed."""

from __future__ import annotations

import re
from functools import partial

from dsconfig.document.located_tree import LocatedTree, ObjectMember, TextSpan, TreeNode

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from dsconfig.core.json_types import Json
    from dsconfig.document.located_tree import NodeKind

_TOKEN: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]|[^\s{}\[\]:,"]+')
"""A string, bracket, number or constant; commas and colons are skipped because the value implies them."""
_KINDS: Final[dict[type, NodeKind]] = {
    str: "string",
    int: "number",
    float: "number",
    bool: "boolean",
    type(None): "null",
}
_new: Final = tuple.__new__


def locate_plain_json(text: str, value: Json) -> LocatedTree:
    """Locate every key and value of a JSON text whose value is already known.

    The Hjson parser builds the same tree, but takes three times as long.

    Args:
        text: strict JSON without repeated keys, as `parse_plain_json` accepts it.
        value: the value of the text; the nodes share its parts.
    """
    # Without a Python call for each span.
    spans = map(partial(tuple.__new__, TextSpan), map(re.Match.span, _TOKEN.finditer(text)))
    return LocatedTree(_node(value, spans.__next__), ())


def _node(value: Json, next_span: Callable[[], TextSpan]) -> TreeNode:
    """Build the node of a value, taking the spans from its tokens; `MAX_DEPTH` limits the recursion."""
    # Hot path: `tuple.__new__` spares the call of the constructor, which is a Python function.
    span = next_span()
    kind = _KINDS.get(type(value))
    if kind is not None:
        return _new(TreeNode, (kind, span, value, (), ()))
    if type(value) is dict:
        members = tuple(
            [_new(ObjectMember, (key, next_span(), _node(item, next_span))) for key, item in value.items()]
        )
        return TreeNode("object", TextSpan(span.start, next_span().end), value, members)
    items = tuple([_node(item, next_span) for item in value])
    return TreeNode("array", TextSpan(span.start, next_span().end), value, (), items)
