"""From operations on paths to edits of the text. What an edit does not mean stays byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from dsconfig.document.edit.edit import Edit, EditError, apply, trimmed

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.document import Document
    from dsconfig.document.tree import Node

__all__ = ["Edit", "EditError", "Editor", "apply", "editor", "trimmed"]


class Editor(Protocol):
    """Edits of one text. Each method gives the edits of one operation, or raises `EditError`."""

    def set(self, path: KeyPath, value: Json) -> list[Edit]:
        """Give the key this value; sections on the way to it are made where they are missing."""

    def remove(self, path: KeyPath) -> list[Edit]:
        """Take the entry out, with its comma, and with its lines where it has them to itself."""

    def remove_entries(self, parent: Node, indexes: Sequence[int]) -> list[Edit]:
        """Take some of the entries out, and not all that stand at the end."""

    def rename(self, path: KeyPath, name: str) -> list[Edit]:
        """Write another key, in the quotes that the old one has."""

    def copy(self, path: KeyPath, to: KeyPath) -> list[Edit]:
        """Add the value found at `path`, as it is written, at `to`; the first half of moving it."""


@lru_cache(maxsize=1)  # what stands around each entry is found once for all edits of a text
def editor(document: Document) -> Editor:
    """What edits this document.

    Raises:
        EditError: there is no text, or nothing could be read from it.
    """
    if document.is_data or document.root is None:
        raise EditError("there is no text to edit")
    if document.format == "yaml":
        from dsconfig.document.edit.yaml_editor import YamlEditor

        return YamlEditor(document)
    from dsconfig.document.edit.json_editor import JsonEditor

    return JsonEditor(document)
