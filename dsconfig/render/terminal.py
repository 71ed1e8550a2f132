"""Text for a terminal: colors, width, line wrapping, and escapes of unprintable characters."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple, TextIO

# Colour, width and encoding of the stream that is written to.

CODES = {
    "bold": "1",
    "dim": "2",
    "error": "1;31",
    "warning": "1;33",
    "info": "1;36",
    "place": "34",
    "good": "32",
}


class Style(NamedTuple):
    """How text is written: plain, unless told otherwise."""

    color: bool = False
    width: int = 100
    encoding: str = "utf-8"
    wraps: bool = False
    """Whether lines end at the width, between words: on a terminal, which would end them within words."""
    links: bool = False
    """Whether a word can be a link."""

    def paint(self, text: str, tone: str) -> str:
        """`text` in one of the tones of `CODES`, or as it is where colour is off."""
        return f"\x1b[{CODES[tone]}m{text}\x1b[0m" if self.color and text else text

    def link(self, text: str, url: str) -> str:
        """`text` as a link (OSC 8), or as it is where nothing shows links."""
        return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\" if self.links else text


def style_of(stream: TextIO, color: str = "auto") -> Style:
    """The style for `stream`, by the environment and the terminal where `color` is `auto`."""
    terminal = stream.isatty()
    colored = color == "always" or (color == "auto" and _wanted(terminal))
    width = columns(stream) if terminal else 100
    return Style(colored, width, stream.encoding or "utf-8", terminal, _shows_links(terminal and colored))


def _wanted(terminal: bool) -> bool:
    """What the first of NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE and CLICOLOR says, then the terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if said := os.environ.get(name):
            return said != "0"
    return terminal and os.environ.get("TERM") != "dumb" and os.environ.get("CLICOLOR") != "0"


def _shows_links(colored: bool) -> bool:
    """Terminals that know no links pass over them, save the console of Linux, which prints a part."""
    if said := os.environ.get("FORCE_HYPERLINK"):
        return said != "0"
    return colored and os.environ.get("TERM") != "linux"


def columns(stream: TextIO | None = None) -> int:
    """The width of a terminal: COLUMNS, else its own; 100 where there is none."""
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said[:6]) > 0:
        return max(40, int(said[:6]))
    try:
        return max(40, os.get_terminal_size(*([stream.fileno()] if stream else [])).columns or 100)
    except (OSError, ValueError):
        return 100


# Text made safe to show: what is not printable is written out, and every character has its width.

TAB = 4


def printable(text: str) -> str:
    """`text` on one line with its unprintable characters written as escapes.

    That covers control characters, lone surrogates, marks that turn the direction of the line, and the
    no-break spaces that nobody sees in a config. Nor is it a line that a CI service takes for a command.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escape(c) for c in text)
    if text.lstrip().startswith("::"):
        text = text.replace(":", r"\x3a", 1)
    for at in reversed(_commands(text)):
        text = rf"{text[:at]}\x23{text[at + 1 :]}"
    return text


_AGENT_COMMAND = (
    r"##\w+\[|##\[(?:group|endgroup|section|command|debug|notice|warning|error|echo|[a-z]+-[a-z-]+)\b"
)
"""A command to Azure Pipelines, TeamCity or GitHub's runner wherever it stands in a line."""


def is_line_command(line: str) -> bool:
    """Whether GitHub's runner takes a line for a command, such as `::stop-commands::`, behind blanks, too."""
    return line.lstrip().startswith("::")


def is_agent_command(line: str) -> bool:
    """Whether a CI service takes a part of the line for a command, such as `##vso[task.complete]`."""
    if "##" not in line:
        return False
    import re

    return re.search(_AGENT_COMMAND, line, re.IGNORECASE) is not None


def visible(line: str) -> str:
    """A line of a file with its end, and all but tabs that nobody can see in it written as escapes."""
    inner = line.removesuffix("\n")
    if inner.isprintable():
        return line
    return "".join(c if c.isprintable() or c == "\t" else _escape(c) for c in inner) + line[len(inner) :]


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _commands(text: str) -> list[int]:
    """Where in a line something begins that is a command to a CI service: `##[group]`, `##vso[...]`."""
    if "##" not in text:
        return []
    import re

    return [match.start() for match in re.finditer(r"#(?=#\w*\[)", text)]


def cells(text: str, encoding: str = "utf-8") -> list[tuple[str, int]]:
    """Each character of a line as it is shown, and the columns that it fills."""
    commands = _commands(text)
    if text.isascii() and text.isprintable() and not commands:
        return [(char, 1) for char in text]
    shown: list[tuple[str, int]] = []
    column = 0
    for at, char in enumerate(text):
        if at in commands:
            piece = r"\x23"
        else:
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


# Lines that end between words, where a terminal would end them within one.

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
        width = _word_width(word, style)
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


def _word_width(word: str, style: Style) -> int:
    shown = re.sub(_INVISIBLE, "", word) if "\x1b" in word else word
    return sum(width for _, width in cells(shown, style.encoding))
