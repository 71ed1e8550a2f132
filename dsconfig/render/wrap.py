"""Lines that end between words, where a terminal would end them within one."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.render.printable import cells
from dsconfig.render.terminal import Style

_INVISIBLE = r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\"


def wrapped(text: str, style: Style, hanging: int = 0) -> str:
    """One line of text as so many as the terminal needs; those after the first begin `hanging` columns in.

    A word that is longer than a line is not broken: it may be a path, which somebody copies.
    """
    if not style.wraps or len(text) <= style.width:
        return text
    return "\n".join(_lines(text, style, min(hanging, style.width // 2)))


def flowed(text: str, style: Style) -> str:
    """Text of several lines, each wrapped by itself; what it goes on with begins two columns further in."""
    if not style.wraps:
        return text
    lines = text.split("\n")
    return "\n".join(wrapped(line, style, len(line) - len(line.lstrip(" ")) + 2) for line in lines)


def _lines(text: str, style: Style, hanging: int) -> Iterator[str]:
    room = style.width
    line, used = "", 0
    for blank, word in _words(text):
        width = _width(word, style)
        if line.strip() and used + len(blank) + width > room:
            yield line
            line, used = " " * hanging + word, hanging + width
        else:
            line, used = line + blank + word, used + len(blank) + width
    yield line


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Each word with the blanks before it."""
    for found in re.finditer(r"( *)([^ ]*)", text):
        if found[0]:
            yield found[1], found[2]


def _width(word: str, style: Style) -> int:
    shown = re.sub(_INVISIBLE, "", word) if "\x1b" in word else word
    return sum(width for _, width in cells(shown, style.encoding))
