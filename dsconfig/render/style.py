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

    def paint(self, text: str, tone: str) -> str:
        """`text` in one of the tones of `CODES`, or as it is where colour is off."""
        return f"\x1b[{CODES[tone]}m{text}\x1b[0m" if self.color and text else text


def style_of(stream: TextIO, color: str = "auto") -> Style:
    """The style for `stream`. `auto` obeys NO_COLOR, FORCE_COLOR, TERM and the terminal, in this order."""
    terminal = stream.isatty()
    width = max(40, _columns(stream)) if terminal else 100
    colored = color == "always" or (color == "auto" and _wanted(terminal))
    return Style(colored, width, stream.encoding or "utf-8")


def _wanted(terminal: bool) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return terminal and os.environ.get("TERM") != "dumb"


def _columns(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return 100
