"""Edits of a config dict in a Python source: brackets and commas are JSON's, words and quotes are Python's."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING

from dsconfig.document.json_editor import JsonEditor, find_entry, new_entry
from dsconfig.document.text_edit import Edit, EditError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath


class PythonEditor(JsonEditor):
    """The `Editor` of a dict in a Python source.

    A key of `dict(...)` is an argument, so it may be renamed, removed or given another value, and none is added there.
    """

    def rename(self, path: KeyPath, name: str) -> list[Edit]:
        """Write another key, in the quotes that the old one has; an argument has none."""
        parent, index = find_entry(self.document, path)
        span = parent.members[index].key_span
        is_argument = self.document.text[span.start] not in "\"'"
        if is_argument and (not name.isidentifier() or keyword.iskeyword(name)):
            raise EditError(f"`{name}` cannot be an argument of dict()")
        if is_argument:
            return [Edit(span.start, span.end, name)]
        if self.document.text[span.start : span.start + 3] in ('"""', "'''"):
            raise EditError("the key has triple quotes")
        return super().rename(path, name)

    def _add(self, path: KeyPath, value: Json) -> list[Edit]:
        section, _, _ = new_entry(self.document, path, value)
        if self.document.text[section.span.start] != "{":
            raise EditError("keys are added to braces only, not to a call of dict()")
        return super()._add(path, value)
