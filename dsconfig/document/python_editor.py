"""Edits of a config dict in a Python source: JSON's brackets and commas, Python's literals and quotes."""

from __future__ import annotations

import ast
import keyword
import re
from typing import TYPE_CHECKING

from dsconfig.document.json_editor import JsonEditor, add_entry, entry_to_add, find_entry
from dsconfig.document.python_source import has_hidden_entries
from dsconfig.document.text_edit import EditError, TextEdit
from dsconfig.document.tree import UNKNOWN, ObjectMember, TextSpan, TreeNode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document


class PythonEditor(JsonEditor):
    """Editor of a dict in a Python source.

    In `dict(...)` a key is a keyword argument: it can be renamed, removed or set, but no key can be added. A key that a
    statement sets (`ds_config["fp16"] = {...}`) is removed with its statement; new keys go into the literal.
    """

    def __init__(self, document: Document) -> None:
        super().__init__(document)
        self._literals: dict[int, TreeNode] = {}

    def rename_key(self, path: KeyPath, name: str) -> list[TextEdit]:
        """Rename a key and keep its quotes; a keyword argument has none."""
        parent, index = find_entry(self.document, path)
        span = parent.members[index].key_span
        is_argument = not any(quote in self.document.text[span.start : span.end] for quote in "\"'")
        if not is_argument and self.document.text[span.start] not in "\"'":
            raise EditError("the key has a string prefix")
        if is_argument and (not name.isidentifier() or keyword.iskeyword(name)):
            raise EditError(f"`{name}` is not a valid keyword argument of dict()")
        if is_argument:
            return [TextEdit(span.start, span.end, name)]
        if self.document.text[span.start : span.start + 3] in ('"""', "'''"):
            raise EditError("the key is in triple quotes")
        return super().rename_key(path, name)

    def remove_entries(self, parent: TreeNode, indexes: Sequence[int]) -> list[TextEdit]:
        """Remove entries, but not the only visible one beside `**other` or a key that is not a literal."""
        literal = self._node_of_literal(parent)
        if len(literal.members) == 1 and _has_hidden_entries(
            self.document.text[parent.span.start : parent.span.end]
        ):
            raise EditError("the dict has keys that its source does not show")
        if parent.kind != "object":
            return super().remove_entries(parent, indexes)
        keys = [each.key_span for each in literal.members]
        removed = [parent.members[index] for index in indexes]
        inside = [keys.index(each.key_span) for each in removed if each.key_span in keys]
        edits = [self._remove_statement(each) for each in removed if each.key_span not in keys]
        return [*super().remove_entries(literal, inside), *edits]

    def _add_entry(self, path: KeyPath, value: Json) -> list[TextEdit]:
        section, key, value = entry_to_add(self.document, path, value)
        if self.document.text[section.span.start] != "{":
            raise EditError("a key can be added to a dict literal, but not to a call of dict()")
        return add_entry(self.around, self._node_of_literal(section), key, value)

    def _node_of_literal(self, node: TreeNode) -> TreeNode:
        """Return an object with the members that its literal has, and the name of a variable instead of its dict."""
        if id(node) not in self._literals:
            members = tuple(
                self._member_as_written(each) for each in node.members if _is_inside(each.key_span, node.span)
            )
            self._literals[id(node)] = node._replace(members=members)
        return self._literals[id(node)]

    def _member_as_written(self, member: ObjectMember) -> ObjectMember:
        name = _NAME.match(self.document.text, member.key_span.end)
        if name is None or name.start(1) == member.node.span.start:
            return member
        return member._replace(node=TreeNode("unknown", TextSpan(*name.span(1)), UNKNOWN))

    def _remove_statement(self, member: ObjectMember) -> TextEdit:
        """Remove the statement `variable["key"] = value` with its line."""
        text, start = self.document.text, self.around.line_start(member.key_span.start)
        end = self.around.skip_blanks(member.node.span.end)
        newline = self.around.line_break_end(end)
        if (newline is None and end < len(text)) or not _TARGET.fullmatch(
            text[start : member.key_span.start]
        ):
            raise EditError("the key is part of a statement that does more")
        return TextEdit(start, end if newline is None else newline, "")


_NAME = re.compile(r"\s*[:=]\s*([A-Za-z_]\w*(?:\.\w+)*)(?=\s*[,})#])")
"""The variable behind a key: `"zero_optimization": zero`."""
_TARGET = re.compile(r"""[ \t]*[A-Za-z_][\w.]*(?:\[["']\w+["']\])*\[""")
"""The statement in front of its last key: `ds_config["zero_optimization"][`."""


def _is_inside(inner: TextSpan, outer: TextSpan) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _has_hidden_entries(source: str) -> bool:
    """Whether a dict has entries that its source does not show."""
    try:
        value = ast.parse(f"({source})", mode="eval").body
    except SyntaxError:
        return True
    return has_hidden_entries(value)
