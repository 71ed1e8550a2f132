"""Map the characters of an embedded config to offsets in its launch file, and read here-documents with variables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice

from dsconfig.document import Document, TextSpan, read_text
from dsconfig.document.located_tree import UNKNOWN, LocatedTree, ObjectMember, TreeNode
from dsconfig.launch.launch_file_formats import is_shell_script_name

SUBSTITUTION = re.compile(r"\$\{[^{}\n]*\}|\$\(\([^()\n]*\)\)|\$\([^()\n]*\)|\$\w+|`[^`\n]*`")
"""Pattern of a variable, an arithmetic expression or a command substitution in a shell text."""
_VALUE = re.compile(rf'"(?:[^"\\\n]|\\.)*"|[\w.+-]*(?:(?:{SUBSTITUTION.pattern})[\w.+-]*)+')
"""Pattern of a string, or of variables and the characters that form a number with them: `${EXPONENT}e-5`."""


def read_with_variables(text: str, name: str) -> Document | None:
    """Parse JSON text that contains shell variables, whose values are unknown.

    Return None if a variable stands for a key or for several entries, so that the config is unknown.
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
    """Return whether a span covers a key, rather than a value, below `node`."""
    return any(each.key_span == span or _is_key(span, each.node) for each in node.members) or any(
        _is_key(span, each) for each in node.items
    )


def _mark_spans_unknown(node: TreeNode, spans: list[TextSpan]) -> TreeNode:
    """Return a copy of a node in which the values at `spans` are replaced by unknown values."""
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


_START = re.compile(r"<<-?[ \t]*(['\"]?)(\w+)\1[^\n]*\n")
_MAX_DOCUMENTS = 50


def character_offsets(launch: Document, span: TextSpan, text: str) -> list[int]:
    """Return the launch-file offset of each character of a text and of its end; empty if the texts differ."""
    start = launch.text.find(text, *span)
    if start >= 0:
        return list(range(start, start + len(text) + 1))
    if is_shell_script_name(launch.name):
        return _offsets_in_script(launch.text, text)
    lines = launch.text[span.start : span.end].splitlines(keepends=True)[1:]  # below the `|`
    indent = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    at = span.start + launch.text[span.start :].find("\n") + 1
    offsets: list[int] = []
    for line in lines:
        offsets += range(at + min(indent, len(line) - 1), at + len(line))
        at += len(line)
    with_end = [*offsets, at]
    is_same = "".join(launch.text[each] for each in offsets).rstrip() == text.rstrip()
    return with_end if is_same and len(with_end) > len(text.rstrip()) else []


def _offsets_in_script(script: str, text: str) -> list[int]:
    """Return the script offset of each character of a text that the script writes, and of its end.

    The text is a here-document with its variables expanded; the characters of a variable's value all map to the
    variable. The result is empty unless exactly one here-document produces the text.
    """
    aligned = [
        each
        for each in (_align_expanded_text(script, body, text) for body in _here_document_spans(script))
        if each
    ]
    return aligned[0] if len(aligned) == 1 else []


def _here_document_spans(script: str) -> Iterator[TextSpan]:
    """Yield the spans of the here-documents of a script."""
    for match in islice(_START.finditer(script), _MAX_DOCUMENTS):
        end = re.compile(rf"^\t*{match[2]}$", re.MULTILINE).search(script, match.end())
        if end is not None:
            yield TextSpan(match.end(), end.start())


def _align_expanded_text(script: str, body: TextSpan, text: str) -> list[int]:
    """Return the script offset of each character of `text`, or an empty list if `body` does not expand to it."""
    offsets: list[int] = []
    position = body.start
    pending: TextSpan | None = None
    for match in [*SUBSTITUTION.finditer(script, *body), None]:
        literal = script[position : body.end if match is None else match.start()]
        at = (
            text.find(literal, len(offsets))
            if match is not None or pending is None
            else len(text) - len(literal)
        )
        if at < len(offsets) or not text.startswith(literal, at) or (pending is None and at > len(offsets)):
            return []
        if pending is not None:
            count = at - len(offsets)
            offsets += [pending.start] * (count - 1) + [pending.end - 1] * (count > 0)
        offsets += range(position, position + len(literal))
        if match is not None:
            pending, position = TextSpan(*match.span()), match.end()
    return [*offsets, body.end] if len(offsets) == len(text) else []
