"""What stands without quotes, as hjson 3.1.0 reads it: white space, comments, keys, numbers, words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dsconfig.document.hjson.errors import ReadError
from dsconfig.document.strict_json import number

if TYPE_CHECKING:
    from dsconfig.document.hjson.tree_builder import TreeBuilder

KEY: Final = re.compile(r"([^ \t\n\r:{}\[\],]+)([ \t\n\r]*):")
"""A key without quotes, as `scanKeyName` takes it, up to its colon."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_TO_LINE_END: Final = re.compile(r"[^\r\n]*")
_NUMBER: Final = re.compile(r"[\t ]*(-?(?:0|[1-9]\d*))(\.\d+)?([eE][-+]?\d+)?[\t ]*")
"""hjson `decoder.py`, `NUMBER_RE`: `\\d` takes the digits of every script, as there."""
_WORD_END: Final = re.compile(r"[,}\]#\r\n]|/[/*]|\Z")
"""Where `scantfnns` first asks whether a bare word is a number, true, false or null."""
_LITERALS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}

_PLACEHOLDER: Final = re.compile(
    r"[$%<@{][{(%]?[\w .|:'\"-]*[})%>@]{0,2}|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|__\w+__"
)
_NAN: Final = re.compile(r"-?(?:NaN|Infinity)\b")
_LIKE_NUMBER: Final = re.compile(r"[-+]?\.?\d[\w.+-]*")


def skip_mark(builder: TreeBuilder) -> int:
    """Step over a byte order mark at the start of the text, or its three bytes read as Latin-1."""
    for mark in ("\ufeff", "\xef\xbb\xbf"):
        if builder.text.startswith(mark):
            builder.note("bom", 0, len(mark))
            return len(mark)
    return 0


def skip(builder: TreeBuilder, pos: int) -> tuple[str, int]:
    """Step over white space and comments (`getNext`). The character that follows is empty at the end.

    Raises:
        ReadError: a comment is never closed, or there are too many of them.
    """
    text = builder.text
    while True:
        pos = _SPACE.match(text, pos).end()  # type: ignore[union-attr]  # it matches the empty string
        char = text[pos : pos + 1]
        if char not in ("#", "/"):
            return char, pos
        end = _comment_end(text, pos)
        if end == pos:
            return char, pos
        builder.comment(pos, end)
        pos = end


def _comment_end(text: str, start: int) -> int:
    """Where the comment ends that starts here; the start itself where none does."""
    if text[start] == "#" or text.startswith("//", start):
        return line_end(text, start)
    if not text.startswith("/*", start):
        return start
    close = text.find("*/", start + 2)
    if close < 0:
        raise ReadError("unclosed", start, start + 2, "/*", fatal=True)
    return close + 2


def line_end(text: str, pos: int) -> int:
    """Where the line ends."""
    return _TO_LINE_END.match(text, pos).end()  # type: ignore[union-attr]  # it matches the empty string


def literal(text: str, start: int, limit: int | None = None) -> tuple[bool | float | None, int, str] | None:
    """The number, true, false or null at `start`, where its reading ends, and its own text.

    None for other words. Nothing is read behind `limit`. Raises `ReadError` for a number too large.
    """
    limit = len(text) if limit is None else limit
    stop = _WORD_END.search(text, start, limit).start()  # type: ignore[union-attr]  # it matches at the end
    word = text[start:stop].strip()
    if word in _LITERALS and word[0] == text[start]:
        return _LITERALS[word], stop, word
    if text[start] not in "-0123456789":
        return None
    match = _NUMBER.match(text, start, limit)
    if not match or match.end() != stop:
        return None
    word = "".join(filter(None, match.groups()))
    try:
        return number(word), stop, word
    except OverflowError:
        raise ReadError("huge-number", start, start + len(word), word[:20], fatal=True) from None


def kind_of_word(word: str) -> str:
    """What a word without quotes was meant to be."""
    core = word.rstrip(", \t")
    if _NAN.match(core):
        return "nan"
    if _PLACEHOLDER.fullmatch(core):
        return "placeholder"
    if _LIKE_NUMBER.fullmatch(core) and not _NUMBER.fullmatch(core):
        return "bad-number"
    return "unquoted-string"
