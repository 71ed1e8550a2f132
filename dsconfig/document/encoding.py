"""How bytes that are not UTF-8 text were probably written, and how a string is written as text."""

from __future__ import annotations

import json
import re
from typing import Final

_MARKS: Final = (
    ("\xff\xfe\0\0", "UTF-32"),
    ("\0\0\xfe\xff", "UTF-32"),
    ("\xff\xfe", "UTF-16"),
    ("\xfe\xff", "UTF-16"),
)
"""Byte order marks, each byte as the character with its number; the longer ones first."""
_LOOKED_AT: Final = 1024


def wide_encoding(text: str) -> str | None:
    """`UTF-16` or `UTF-32`, where the characters, each of one byte, look like it.

    A byte order mark says so, as PowerShell writes it; without one the zeros do, which stand beside each
    ASCII character.
    """
    for mark, name in _MARKS:
        if text.startswith(mark):
            return name
    head = text[: min(_LOOKED_AT, len(text) // 4 * 4 or len(text) // 2 * 2)]
    zeros = [head[phase::4].count("\0") * 4 / len(head) for phase in range(4)] if head else []
    if sum(zero > _MOSTLY for zero in zeros) == 3:
        return "UTF-32"
    evens, odds = head[::2].count("\0") * 2, head[1::2].count("\0") * 2
    is_wide = max(evens, odds) > _MOSTLY * len(head) and min(evens, odds) < _RARELY * len(head)
    return "UTF-16" if head and is_wide else None


_MOSTLY: Final = 0.6
_RARELY: Final = 0.1


def in_latin(byte: int) -> str | None:
    """The character of a byte in Windows-1252, which extends Latin-1; None where it has none."""
    char = bytes([byte]).decode("cp1252", errors="replace")
    return char if char.isprintable() and char != "\ufffd" else None


def in_quotes(text: str) -> str:
    """The string as JSON writes it, readable; half a UTF-16 pair, which no file can hold, stays an escape."""
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isascii() else _HALF_PAIR.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


_HALF_PAIR: Final = re.compile("[\ud800-\udfff]")
