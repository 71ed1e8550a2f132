"""Documents that are open in the editor: their text, changes, and parsed form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.core.file_access import unsaved
from dsconfig.document import Document, Format, read_text
from dsconfig.document.config_file_names import is_yaml
from dsconfig.lsp.protocol import Encoding, Lines, name_of, path_of, real

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.core.json_types import JsonObject


class OpenText:
    """One version of an open document, parsed on first use."""

    __slots__ = ("_document", "language", "lines", "name", "uri", "version", "yaml")

    def __init__(self, uri: str, version: int | None, lines: Lines, language: str) -> None:
        self.uri, self.version, self.lines, self.language = uri, version, lines, language
        self.yaml = "yaml" in language or is_yaml(uri)
        self.name = name_of(uri)
        self._document: Document | None = None

    @property
    def text(self) -> str:
        """Text of the document."""
        return self.lines.text

    @property
    def format(self) -> Format:
        """Format as which the text is parsed."""
        return "yaml" if self.yaml else "json"

    @property
    def document(self) -> Document:
        """Parsed document, whatever its errors."""
        if self._document is None:
            self._document = read_text(self.text, self.name, self.format)
        return self._document

    def as_config(self, document: Document) -> OpenText:
        """The same version of the document as one of the configs in it."""
        view = OpenText(self.uri, self.version, self.lines, self.language)
        view.name, view._document = document.name, document
        return view

    def changed(self, version: int | None, changes: Sequence[JsonObject]) -> OpenText:
        """Document after the changes, each relative to the result of the one before."""
        lines = self.lines
        for change in changes:
            text = str(change["text"])
            if "range" in change:
                start, end = lines.offsets(change["range"])
                text = lines.text[:start] + text + lines.text[end:]
            lines = Lines(text, lines.encoding)
        return OpenText(self.uri, version, lines, self.language)


def from_item(item: JsonObject, encoding: Encoding) -> OpenText:
    """Document that the editor opens."""
    lines = Lines(str(item["text"]), encoding)
    return OpenText(str(item["uri"]), item.get("version"), lines, str(item.get("languageId", "")))


def set_overlay(text: OpenText) -> None:
    """Make every reader of the file, such as the check of a launch file, use this text."""
    if (path := path_of(text.uri)) is not None:
        unsaved[real(path)] = text.text.encode("utf-8", "surrogatepass")


def remove_overlay(uri: str) -> None:
    """Make readers of the file use its content on disk again."""
    if (path := path_of(uri)) is not None:
        unsaved.pop(real(path), None)
