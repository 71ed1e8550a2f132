"""Basic LSP types: positions, ranges, URIs and error codes."""

from __future__ import annotations

import os
from bisect import bisect_right
from typing import TYPE_CHECKING, Literal, TypeAlias
from urllib.parse import quote, unquote, urlsplit

from dsconfig.document.document import LINE_END, line_starts

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, JsonObject


# Positions count lines and characters from 0, in code units of an encoding.

Encoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]
ENCODINGS: tuple[Encoding, ...] = ("utf-8", "utf-16", "utf-32")
"""Position encodings in order of preference; a client that names none uses UTF-16."""


class PositionConverter:
    """Converts between code point offsets and LSP positions."""

    __slots__ = ("_is_plain", "_starts", "encoding", "text")

    def __init__(self, text: str, encoding: Encoding) -> None:
        self.text, self.encoding = text, encoding
        self._starts = line_starts(text)
        self._is_plain = encoding == "utf-32" or text.isascii()
        """Whether every character of the text is one code unit."""

    @property
    def line_count(self) -> int:
        """Number of lines in the text."""
        return len(self._starts)

    def position_of(self, offset: int) -> JsonObject:
        """Return the position of an offset."""
        line = bisect_right(self._starts, offset) - 1
        before = self.text[self._starts[line] : offset]
        return {"line": line, "character": len(before) if self._is_plain else self._code_units(before)}

    def range_between(self, start: int, end: int) -> JsonObject:
        """Return the range between two offsets."""
        return {"start": self.position_of(start), "end": self.position_of(end)}

    def offset_of(self, position: Json) -> int:
        """Return the offset of a position, clamped to the end of the line and of the text."""
        line, character = int(position["line"]), max(0, int(position["character"]))
        if line < 0:
            return 0
        if line >= len(self._starts):
            return len(self.text)
        start = self._starts[line]
        end = self._starts[line + 1] if line + 1 < len(self._starts) else len(self.text)
        text = LINE_END.split(self.text[start:end], maxsplit=1)[0]
        return start + (
            min(character, len(text)) if self._is_plain else self._characters_in_units(text, character)
        )

    def offsets_of(self, range: Json) -> tuple[int, int]:
        """Return the offsets of the start and end of a range."""
        start, end = self.offset_of(range["start"]), self.offset_of(range["end"])
        return min(start, end), max(start, end)

    def _code_units(self, text: str) -> int:
        if self.encoding == "utf-8":
            return len(text.encode("utf-8", "surrogatepass"))
        return len(text) + sum(char > "\uffff" for char in text)

    def _characters_in_units(self, text: str, units: int) -> int:
        """Convert code units to characters; a position inside a character is rounded down."""
        total = 0
        for count, char in enumerate(text):
            total += self._code_units(char)
            if total > units:
                return count
        return len(text)


# URIs and paths.


def path_from_uri(uri: str) -> str | None:
    """Return the path of a file URI, or None for another scheme, such as that of unsaved documents."""
    parts = urlsplit(uri)
    if parts.scheme != "file":
        return None
    path = unquote(parts.path)
    if os.name == "nt":
        path = path.lstrip("/").replace("/", os.sep)
        return f"{os.sep * 2}{parts.netloc}{os.sep}{path}" if parts.netloc else path
    return path or None


def uri_from_path(path: str) -> str:
    """Return the file URI of a path."""
    path = os.path.abspath(path)
    if os.name == "nt":
        path = path.replace(os.sep, "/")
        return f"file:{quote(path)}" if path.startswith("//") else f"file:///{quote(path, safe='/')}"
    return f"file://{quote(path, safe='/')}"


def canonical_path(name: str) -> str:
    """Return the canonical path of a file; a name in angle brackets is returned unchanged."""
    return name if name.startswith("<") else os.path.realpath(name)


def document_name(uri: str) -> str:
    """Return a document's name: its path, or the URI in angle brackets, which cannot be a file name."""
    return path_from_uri(uri) or f"<{uri}>"


# Error codes of the protocol.

INVALID, NOT_FOUND, INTERNAL = -32600, -32601, -32603
NOT_INITIALIZED, CANCELLED, REFUSED = -32002, -32800, -32803


class RequestError(Exception):
    """A failed request; `code` is the error code of the LSP response."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
