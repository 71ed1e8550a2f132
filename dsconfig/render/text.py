"""Text made safe to show: what is not printable is written out, and every character has its width."""

from __future__ import annotations

TAB = 4


def printable(text: str) -> str:
    """`text` on one line with its unprintable characters written as escapes.

    That covers control characters, lone surrogates, marks that turn the direction of the line, and the
    no-break spaces that nobody sees in a config.
    """
    return text if text.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def cells(text: str, encoding: str = "utf-8") -> list[tuple[str, int]]:
    """Each character of a line as it is shown, and the columns that it fills."""
    if text.isascii() and text.isprintable():
        return [(char, 1) for char in text]
    shown: list[tuple[str, int]] = []
    column = 0
    for char in text:
        piece = " " * (TAB - column % TAB) if char == "\t" else _piece(char, encoding)
        width = len(piece) if len(piece) != 1 else _width(piece)
        column += width
        shown.append((piece, width))
    return shown


def _piece(char: str, encoding: str) -> str:
    if not char.isprintable():
        return _escape(char)
    try:
        return char.encode(encoding, "backslashreplace").decode(encoding)
    except (LookupError, UnicodeError):
        return _escape(char)


def _width(char: str) -> int:
    if char.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if category(char) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1
