"""Configs that a script writes as a here-document with values that only a run shows."""

from __future__ import annotations

import re

from dsconfig.document import Document, read_text
from dsconfig.document.tree import UNKNOWN, LocatedTree, ObjectMember, TextSpan, TreeNode

SUBSTITUTION = re.compile(r"\$\{[^{}\n]*\}|\$\(\([^()\n]*\)\)|\$\([^()\n]*\)|\$\w+|`[^`\n]*`")
"""A variable, arithmetic or the output of a command in a text."""
_VALUE = re.compile(rf'"(?:[^"\\\n]|\\.)*"|[\w.+-]*(?:(?:{SUBSTITUTION.pattern})[\w.+-]*)+')
"""A string, or variables with the characters that form one number with them: `${EXPONENT}e-5`."""


def read_with_variables(text: str, name: str) -> Document | None:
    """Read JSON text that still contains variables of the script as unknown values.

    None if a variable stands for a key or for several entries, so that the config is not known.
    """
    unknown: list[TextSpan] = []
    shown = text
    for match in _VALUE.finditer(text):
        if SUBSTITUTION.search(match[0]):
            start, end = match.span()
            unknown.append(TextSpan(start, end))
            shown = f'{shown[:start]}"{"_" * (end - start - 2)}"{shown[end:]}'
    document = read_text(shown, name, "json")
    root = document.root
    if root is None or document.problems or any(_is_key(each, root) for each in unknown):
        return None
    root = _mark_spans_unknown(root, unknown)
    result = Document(name, text, "json", LocatedTree(root, (), document.comments), value=root.value)
    result.has_unknown_values = True
    return result


def _is_key(span: TextSpan, node: TreeNode) -> bool:
    """Whether a span is the key of a member."""
    return any(each.key_span == span or _is_key(span, each.node) for each in node.members) or any(
        _is_key(span, each) for each in node.items
    )


def _mark_spans_unknown(node: TreeNode, spans: list[TextSpan]) -> TreeNode:
    """Return a copy of a node in which the values at the spans are unknown."""
    if node.span in spans:
        return TreeNode("unknown", node.span, UNKNOWN)
    members = tuple(
        ObjectMember(each.key, each.key_span, _mark_spans_unknown(each.node, spans)) for each in node.members
    )
    items = tuple(_mark_spans_unknown(each, spans) for each in node.items)
    value = node.value
    if node.kind == "object":
        value = {each.key: each.node.value for each in members}
    elif node.kind == "array":
        value = [each.value for each in items]
    return node._replace(members=members, items=items, value=value)
