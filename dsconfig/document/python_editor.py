"""Edits of a config dict in a Python source: JSON's brackets and commas, Python's literals and quotes."""

from __future__ import annotations

import ast
import keyword
from typing import TYPE_CHECKING

from dsconfig.document.json_editor import JsonEditor, find_entry, new_entry
from dsconfig.document.python_source import open_objects
from dsconfig.document.text_edit import Edit, EditError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.tree import Node


class PythonEditor(JsonEditor):
    """Editor of a dict in a Python source.

    In `dict(...)` a key is a keyword argument: it can be renamed, removed or set, but no key can be added.
    """

    def rename(self, path: KeyPath, name: str) -> list[Edit]:
        """Rename a key and keep its quotes; a keyword argument has none."""
        parent, index = find_entry(self.document, path)
        span = parent.members[index].key_span
        is_argument = not any(quote in self.document.text[span.start : span.end] for quote in "\"'")
        if not is_argument and self.document.text[span.start] not in "\"'":
            raise EditError("the key has a string prefix")
        if is_argument and (not name.isidentifier() or keyword.iskeyword(name)):
            raise EditError(f"`{name}` is not a valid keyword argument of dict()")
        if is_argument:
            return [Edit(span.start, span.end, name)]
        if self.document.text[span.start : span.start + 3] in ('"""', "'''"):
            raise EditError("the key is in triple quotes")
        return super().rename(path, name)

    def remove_entries(self, parent: Node, indexes: Sequence[int]) -> list[Edit]:
        """Remove entries, but not the only visible one beside `**other` or a key that is not a literal."""
        if len(parent.members) == 1 and _has_hidden_entries(
            self.document.text[parent.span.start : parent.span.end]
        ):
            raise EditError("the dict has keys that its source does not show")
        return super().remove_entries(parent, indexes)

    def _add(self, path: KeyPath, value: Json) -> list[Edit]:
        section, _, _ = new_entry(self.document, path, value)
        if self.document.text[section.span.start] != "{":
            raise EditError("a key can be added to a dict literal, but not to a call of dict()")
        return super()._add(path, value)


def _has_hidden_entries(source: str) -> bool:
    """Whether a dict has entries that its source does not show."""
    try:
        value = ast.parse(f"({source})", mode="eval").body
    except SyntaxError:
        return True
    return () in open_objects(value)
