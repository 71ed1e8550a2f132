"""Strings as hjson 3.1.0 reads them: in double, single and triple quotes, with their escapes.

The functions take the text and the offset where the string starts. They return its value, where it ends,
and what was odd in it.
"""

from __future__ import annotations

import re
from typing import Final

from dsconfig.document.hjson.errors import ReadError
from dsconfig.document.tree import MAX_PROBLEMS, NOBODY, ONLY_JSON, Parser

Oddity = tuple[str, int, int, str, frozenset[Parser]]
"""The arguments of `TreeBuilder.note`."""

SIMPLE: Final = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
"""The run of ordinary characters inside a string, by its quote."""
_JSON_ESCAPES: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})?)')
SURROGATE: Final = re.compile("[\ud800-\udfff]")
_ESCAPES: Final = {
    '"': '"',
    "'": "'",
    "\\": "\\",
    "/": "/",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
}
_NEWLINES: Final = re.compile("\r\n?")


def quoted(text: str, start: int) -> tuple[str, int, list[Oddity]]:
    """The string in single or double quotes (`scanstring`). Raises `ReadError`."""
    quote = text[start]
    simple = SIMPLE[quote].match
    end = simple(text, start + 1).end()  # type: ignore[union-attr]  # it matches the empty string
    odd = [] if quote == '"' else [single_quotes(start)]
    if text[end : end + 1] == quote:
        return text[start + 1 : end], end + 1, odd
    chunks = [text[start + 1 : end]]
    while (char := text[end : end + 1]) != quote:
        if not char:
            raise ReadError("unclosed", start, start + 1, quote)
        if char != "\\":
            raise ReadError("control-character", end, end + 1, char)
        piece, after = unescape(text, end)
        if len(odd) < MAX_PROBLEMS and not _JSON_ESCAPES.fullmatch(text, end, after):
            odd.append(("bad-escape", end, after, text[end:after], ONLY_JSON))
        chunks.append(piece)
        end = simple(text, after).end()  # type: ignore[union-attr]
        chunks.append(text[after:end])
    value = "".join(chunks)
    if SURROGATE.search(value):
        odd.append(("lone-surrogate", start, end + 1, "", NOBODY))
    return value, end + 1, odd


def single_quotes(start: int) -> Oddity:
    """What is odd in the quote itself."""
    return "single-quotes", start, start + 1, "", ONLY_JSON


def unescape(text: str, at: int) -> tuple[str, int]:
    """The character that the escape at `at`, its backslash, stands for, and its end. Raises `ReadError`."""
    letter = text[at + 1 : at + 2]
    if letter != "u":
        if letter in _ESCAPES:
            return _ESCAPES[letter], at + 2
        raise ReadError("bad-escape", at, min(at + 2, len(text)), f"\\{letter}")
    code = _unit(text, at)
    end = at + 6
    if code & 0xFC00 == 0xD800 and text[end : end + 2] == "\\u":
        low = _unit(text, end, pair=True)
        if low & 0xFC00 == 0xDC00:
            code, end = 0x10000 + ((code - 0xD800) << 10 | (low - 0xDC00)), end + 6
    return chr(code), end


def _unit(text: str, at: int, *, pair: bool = False) -> int:
    """The number of a `\\uXXXX`. `scanstring` reads it with int(): signs, spaces, underscores pass."""
    digits = text[at + 2 : at + 6]
    if len(digits) != 4 or digits[1] in "xX":
        if pair:  # the second half is then read again as an escape of its own
            return 0
        raise ReadError("bad-escape", at, min(at + 6, len(text)), text[at : at + 6])
    try:
        code = int(digits, 16)
    except ValueError:
        raise ReadError("bad-escape", at, at + 6, text[at : at + 6]) from None
    if code < 0 and not pair:
        raise ReadError("bad-escape", at, at + 6, text[at : at + 6], fatal=True)
    return code


def multiline(text: str, start: int, *, translate: bool) -> tuple[str, int]:
    """The string in triple quotes (`mlscanstring`). Raises `ReadError`.

    `translate`: line ends are taken as `open()` gives them to hjson, `\\r` and `\\r\\n` as `\\n`.
    """
    indent = _column(text, start, translate=translate)
    close = text.find("'''", start + 3)
    if close < 0:
        at_end = not text[start + 3 :].strip(" \t\r")
        raise ReadError("unclosed", start, start + 3, "'''", fatal=at_end or indent is None)
    if indent is None:  # its search for a line end runs off the front of the text: IndexError
        raise ReadError("multiline-string", start, close + 3, "no line end in the whole text", fatal=True)
    body = text[start + 3 : close]
    body = _NEWLINES.sub("\n", body) if translate else body
    first = body.lstrip(" \t\r")
    lines = first.split("\n")
    if len(lines) > 1 and not lines[0]:
        del lines[0]
        lines[0] = _dedent(lines[0], indent)
    value = "\n".join([lines[0], *(_dedent(line, indent) for line in lines[1:])]).replace("\r", "")
    return value.removesuffix("\n"), close + 3


def _dedent(line: str, indent: int) -> str:
    stripped = line.lstrip(" \t\r")
    return line[min(indent, len(line) - len(stripped)) :]


def _column(text: str, at: int, *, translate: bool) -> int | None:
    """Characters before `at` on its line; on the first line hjson counts on from the end of the text."""

    def line_start(end: int) -> int:
        return max(text.rfind("\n", 0, end), text.rfind("\r", 0, end) if translate else -1) + 1

    before = line_start(at)
    if before:
        return at - before
    last = line_start(len(text))
    return at + len(text) - last if last else None
