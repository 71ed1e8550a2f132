"""The documents open in the editor: their text, changes and parsed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.core.file_access import unsaved
from dsconfig.document import Document, Format, read_text
from dsconfig.document.config_file_names import is_yaml_name
from dsconfig.lsp.protocol import Encoding, PositionConverter, canonical_path, document_name, path_from_uri

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.core.json_types import JsonObject


class OpenDocument:
    """A version of an open document, which is parsed when it is first needed."""

    __slots__ = ("_document", "language", "lines", "name", "uri", "version", "yaml")

    def __init__(self, uri: str, version: int | None, lines: PositionConverter, language: str) -> None:
        self.uri, self.version, self.lines, self.language = uri, version, lines, language
        self.yaml = "yaml" in language or is_yaml_name(uri)
        self.name = document_name(uri)
        self._document: Document | None = None

    @property
    def text(self) -> str:
        """Text of the document."""
        return self.lines.text

    @property
    def format(self) -> Format:
        """Format in which the text is parsed."""
        return "yaml" if self.yaml else "json"

    @property
    def document(self) -> Document:
        """The parsed document, even if its text has errors."""
        if self._document is None:
            self._document = read_text(self.text, self.name, self.format)
        return self._document

    def as_config(self, document: Document) -> OpenDocument:
        """Return this version with `document`, one of the configs in it, as its parsed form."""
        view = OpenDocument(self.uri, self.version, self.lines, self.language)
        view.name, view._document = document.name, document
        return view

    def apply_changes(self, version: int | None, changes: Sequence[JsonObject]) -> OpenDocument:
        """Apply changes one by one, each to the result of the previous one."""
        lines = self.lines
        for change in changes:
            text = str(change["text"])
            if "range" in change:
                start, end = lines.offsets_of(change["range"])
                text = lines.text[:start] + text + lines.text[end:]
            lines = PositionConverter(text, lines.encoding)
        return OpenDocument(self.uri, version, lines, self.language)


def open_document_from_item(item: JsonObject, encoding: Encoding) -> OpenDocument:
    """Create an open document from the editor's notification."""
    lines = PositionConverter(str(item["text"]), encoding)
    return OpenDocument(str(item["uri"]), item.get("version"), lines, str(item.get("languageId", "")))


def set_overlay(text: OpenDocument) -> None:
    """Make checks read the open text of a document instead of the file on disk."""
    if (path := path_from_uri(text.uri)) is not None:
        unsaved[canonical_path(path)] = text.text.encode("utf-8", "surrogatepass")


def remove_overlay(uri: str) -> None:
    """Make checks read the file on disk again."""
    if (path := path_from_uri(uri)) is not None:
        unsaved.pop(canonical_path(path), None)
