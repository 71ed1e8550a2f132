"""Strings that hjson refuses: read to their closing quote, or to the end of their line."""

from __future__ import annotations

from dsconfig.document.hjson.errors import ReadError
from dsconfig.document.hjson.strings import SIMPLE, Oddity, quoted, single_quotes, unescape
from dsconfig.document.tree import BOTH_JSON, MAX_PROBLEMS


def read_string(text: str, start: int, *, is_key: bool = False) -> tuple[str, int, list[Oddity]]:
    """The string in single or double quotes, or what is left of it; its end; what was odd in it."""
    try:
        return quoted(text, start)
    except ReadError:
        return _broken(text, start, is_key=is_key)


def _broken(text: str, start: int, *, is_key: bool) -> tuple[str, int, list[Oddity]]:
    quote, at, chunks = text[start], start + 1, []
    odd = [] if quote == '"' else [single_quotes(start)]
    while True:
        end = SIMPLE[quote].match(text, at).end()  # type: ignore[union-attr]  # it matches the empty string
        chunks.append(text[at:end])
        char = text[end : end + 1]
        if char == quote:
            return "".join(chunks), end + 1, odd
        if char in ("", "\r", "\n"):
            odd.append(("unclosed", start, start + 1, quote, BOTH_JSON))
            return *_cut_off(text[start + 1 : end], "".join(chunks), start + 1, is_key=is_key), odd
        piece, at = _odd_piece(text, char, end, odd)
        del odd[MAX_PROBLEMS:]  # no more are kept of a whole text
        chunks.append(piece)


def _odd_piece(text: str, char: str, at: int, odd: list[Oddity]) -> tuple[str, int]:
    """A control character or an escape inside a string."""
    if char != "\\":
        odd.append(("control-character", at, at + 1, char, BOTH_JSON))
        return char, at + 1
    try:
        return unescape(text, at)
    except ReadError as fault:
        odd.append((fault.kind, fault.start, fault.end, fault.detail, BOTH_JSON))
        piece = text[at : at + 2].rstrip("\r\n")
        return piece, at + len(piece)


def _cut_off(raw: str, content: str, start: int, *, is_key: bool) -> tuple[str, int]:
    """A string that its line ends: a key stops at its colon, a value before its comma."""
    cut = raw.find(":") if is_key else len(raw.rstrip(", \t"))
    if cut < 0:
        return content.rstrip(", \t"), start + len(raw)
    return raw[:cut].rstrip() if content == raw else content.rstrip(", \t"), start + cut
