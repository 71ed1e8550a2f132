"""The texts that an editor has open: how they came, how they change, and how they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.core.file_access import unsaved
from dsconfig.document import Document, Format, read_text
from dsconfig.document.file_names import is_yaml
from dsconfig.lsp.protocol import Encoding, Lines, name_of, path_of, real

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dsconfig.core.json_types import JsonObject


class OpenText:
    """One text in the editor, of one version. What is read of it is read once."""

    __slots__ = ("_document", "language", "lines", "name", "uri", "version", "yaml")

    def __init__(self, uri: str, version: int | None, lines: Lines, language: str) -> None:
        self.uri, self.version, self.lines, self.language = uri, version, lines, language
        self.yaml = "yaml" in language or is_yaml(uri)
        self.name = name_of(uri)
        self._document: Document | None = None

    @property
    def text(self) -> str:
        """The text."""
        return self.lines.text

    @property
    def format(self) -> Format:
        """How it is read."""
        return "yaml" if self.yaml else "json"

    @property
    def document(self) -> Document:
        """The text as it is read, whatever is wrong with it."""
        if self._document is None:
            self._document = read_text(self.text, self.name, self.format)
        return self._document

    def changed(self, version: int | None, changes: Sequence[JsonObject]) -> OpenText:
        """The text after the changes, each of which speaks of what the one before it leaves."""
        lines = self.lines
        for change in changes:
            text = str(change["text"])
            if "range" in change:
                start, end = lines.offsets(change["range"])
                text = lines.text[:start] + text + lines.text[end:]
            lines = Lines(text, lines.encoding)
        return OpenText(self.uri, version, lines, self.language)


def opened(item: JsonObject, encoding: Encoding) -> OpenText:
    """The text that an editor opens."""
    lines = Lines(str(item["text"]), encoding)
    return OpenText(str(item["uri"]), item.get("version"), lines, str(item.get("languageId", "")))


def keep(text: OpenText) -> None:
    """Whoever reads the file, as the launch file that names it does, gets this text from now on."""
    if (path := path_of(text.uri)) is not None:
        unsaved[real(path)] = text.text.encode("utf-8", "surrogatepass")


def forget(uri: str) -> None:
    """Whoever reads the file gets what is on disk from now on."""
    if (path := path_of(uri)) is not None:
        unsaved.pop(real(path), None)
