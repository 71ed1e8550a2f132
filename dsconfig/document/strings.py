"""Strings and bare words as hjson 3.1.0 reads them: escapes, triple quotes, bare words.

Functions take the text and an offset and say what stands there; the parser decides what to do about it.
"""

from __future__ import annotations

import re
from typing import Final

from dsconfig.document.numbers import number

SIMPLE: Final = {'"': re.compile(r'[^"\\\x00-\x1f]*'), "'": re.compile(r"[^'\\\x00-\x1f]*")}
"""The run of ordinary characters inside a string, by its quote."""
NUMBER: Final = re.compile(r"[\t ]*(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?[\t ]*")
"""hjson `decoder.py`, `NUMBER_RE`: `\\d` takes the digits of every script, as there."""
WORD_END: Final = re.compile(r"[,}\]#\r\n]|/[/*]|\Z")
"""Where `scantfnns` first asks whether a bare word is a number, true, false or null."""
TO_LINE_END: Final = re.compile(r"[^\r\n]*")
JSON_ESCAPES: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}(?:\\u[0-9a-fA-F]{4})?)')
SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}
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


class ReadError(Exception):
    """What hjson refuses. `fatal`: with an error not its own, after which it tries no other reading."""

    def __init__(self, kind: str, start: int, end: int, detail: str, *, fatal: bool = False) -> None:
        super().__init__(detail)
        self.kind, self.start, self.end, self.detail, self.fatal = kind, start, end, detail, fatal


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


def bare(text: str, start: int) -> tuple[bool | float | None, int, str] | None:
    """The number or literal at `start`, where its reading ends, and its own text; None for other words."""
    stop = WORD_END.search(text, start).start()  # type: ignore[union-attr]  # it matches at the end
    word = text[start:stop].strip()
    if word in _LITERALS and word[0] == text[start]:
        return _LITERALS[word], stop, word
    if text[start] in "-0123456789" and (match := NUMBER.match(text, start)) and match.end() == stop:
        word = "".join(group for group in match.groups() if group)
        try:
            return number(word), stop, word
        except OverflowError:
            raise ReadError("huge-number", start, start + len(word), word[:20], fatal=True) from None
    return None


def multiline(text: str, start: int, *, translate: bool) -> tuple[str, int]:
    """The string in triple quotes at `start`, and its end (`mlscanstring`). Raises `ReadError`.

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
