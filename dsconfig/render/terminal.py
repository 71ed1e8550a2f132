"""Colour, width and encoding of the stream that is written to."""

from __future__ import annotations

import os
from typing import NamedTuple, TextIO

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
