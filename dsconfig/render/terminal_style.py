"""Style text for a terminal: colors, width, line wrapping, and escaping of unprintable characters."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from dsconfig.core.json_types import NamedTuple

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import TextIO

# Color, width and encoding of the output stream.

CODES = {
    "bold": "1",
    "dim": "2",
    "error": "1;31",
    "warning": "1;33",
    "info": "1;36",
    "place": "34",
    "good": "32",
}


class TerminalStyle(NamedTuple):
    """The style of terminal output; plain text by default."""

    color: bool = False
    width: int = 100
    encoding: str = "utf-8"
    wraps: bool = False
    """Whether lines are wrapped between words, as on a terminal, which would itself break lines within words."""
    links: bool = False
    """Whether the terminal supports hyperlinks."""

    def paint(self, text: str, tone: str) -> str:
        """Return `text` in one of the tones of `CODES` if color is on, else unchanged."""
        return f"\x1b[{CODES[tone]}m{text}\x1b[0m" if self.color and text else text

    def link(self, text: str, url: str) -> str:
        """Return `text` as a hyperlink (OSC 8) if the terminal supports it, else unchanged."""
        return f"\x1b]8;;{url}\x1b\\{text}\x1b]8;;\x1b\\" if self.links else text


def style_of(stream: TextIO, color: str = "auto") -> TerminalStyle:
    """Return the style for `stream`; `color="auto"` depends on environment variables and the terminal."""
    terminal = stream.isatty()
    escapes = terminal and understands_escapes(stream)
    colored = color == "always" or (color == "auto" and _uses_color(escapes))
    width = terminal_width(stream) if terminal else 100
    return TerminalStyle(
        colored, width, stream.encoding or "utf-8", terminal, _shows_links(escapes and colored)
    )


def use_utf8(stream: TextIO) -> None:
    """Write UTF-8 to a file or pipe that a program reads; Windows would use the user's code page."""
    if hasattr(stream, "reconfigure") and not stream.isatty():
        stream.reconfigure(encoding="utf-8")


def understands_escapes(stream: TextIO) -> bool:
    """Return whether a terminal interprets escape sequences; on Windows, enable them in the console."""
    if os.name != "nt":
        return True
    import ctypes
    import msvcrt

    try:
        kernel = ctypes.windll.kernel32  # type: ignore[attr-defined, unused-ignore]
        handle = msvcrt.get_osfhandle(stream.fileno())  # type: ignore[attr-defined, unused-ignore]
        mode = ctypes.c_ulong()
        if not kernel.GetConsoleMode(handle, ctypes.byref(mode)):
            return False
        # ENABLE_VIRTUAL_TERMINAL_PROCESSING; consoles before Windows 10 reject it.
        return bool(kernel.SetConsoleMode(handle, mode.value | 4))
    except (OSError, ValueError):  # the stream has no descriptor
        return False


def _uses_color(terminal: bool) -> bool:
    """Return whether to use color, according to environment variables such as NO_COLOR, or else the terminal.

    The first of these variables that is set decides.
    """
    if os.environ.get("NO_COLOR"):
        return False
    for name in ("FORCE_COLOR", "CLICOLOR_FORCE"):
        if value := os.environ.get(name):
            return value != "0"
    return terminal and os.environ.get("TERM") != "dumb" and os.environ.get("CLICOLOR") != "0"


def _shows_links(colored: bool) -> bool:
    """Return whether to print hyperlinks, which every terminal except the Linux console shows or ignores."""
    if value := os.environ.get("FORCE_HYPERLINK"):
        return value != "0"
    return colored and os.environ.get("TERM") != "linux"


def terminal_width(stream: TextIO | None = None) -> int:
    """Return the width in columns from COLUMNS or the terminal; the default is 100."""
    value = os.environ.get("COLUMNS", "")
    if value.isdecimal() and int(value[:6]) > 0:
        return max(40, int(value[:6]))
    try:
        return max(40, os.get_terminal_size(*([stream.fileno()] if stream else [])).columns or 100)
    except (OSError, ValueError):
        return 100


# Escaping and character widths.

TAB = 4


def escape_unprintable(text: str) -> str:
    """Return `text` on a single line, with unprintable characters escaped.

    This includes control characters, lone surrogates, direction marks and no-break spaces, and the start of commands
    that CI services execute.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else _escape_character(c) for c in text)
    if text.lstrip().startswith("::"):
        text = text.replace(":", r"\x3a", 1)
    for at in reversed(_ci_command_offsets(text)):
        text = rf"{text[:at]}\x23{text[at + 1 :]}"
    return text


_AGENT_COMMAND = (
    r"##\w+\[|##\[(?:group|endgroup|section|command|debug|notice|warning|error|echo|[a-z]+-[a-z-]+)\b"
)
"""Pattern of a command to Azure Pipelines, TeamCity or GitHub's runner, anywhere in a line."""


def is_line_command(line: str) -> bool:
    """Return whether GitHub's runner executes a line, such as `::stop-commands::`, possibly indented."""
    return line.lstrip().startswith("::")


def is_agent_command(line: str) -> bool:
    """Return whether a CI service executes part of a line, such as `##vso[task.complete]`."""
    if "##" not in line:
        return False
    import re

    return re.search(_AGENT_COMMAND, line, re.IGNORECASE) is not None


def escape_invisible(line: str) -> str:
    """Escape the invisible characters in a line of a file, except tabs and the line ending."""
    inner = line.removesuffix("\n")
    if inner.isprintable():
        return line
    return (
        "".join(c if c.isprintable() or c == "\t" else _escape_character(c) for c in inner)
        + line[len(inner) :]
    )


def _escape_character(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _ci_command_offsets(text: str) -> list[int]:
    """Return the offsets at which CI commands start, such as `##[group]` or `##vso[...]`."""
    if "##" not in text:
        return []
    import re

    return [match.start() for match in re.finditer(r"#(?=#\w*\[)", text)]


def character_cells(text: str, encoding: str = "utf-8") -> list[tuple[str, int]]:
    """Return the characters of a line as displayed, each with its width in columns."""
    commands = _ci_command_offsets(text)
    if text.isascii() and text.isprintable() and not commands:
        return [(char, 1) for char in text]
    result: list[tuple[str, int]] = []
    column = 0
    for at, char in enumerate(text):
        if at in commands:
            piece = r"\x23"
        else:
            piece = " " * (TAB - column % TAB) if char == "\t" else _displayed_character(char, encoding)
        width = len(piece) if len(piece) != 1 else _character_width(piece)
        column += width
        result.append((piece, width))
    return result


def _displayed_character(char: str, encoding: str) -> str:
    if not char.isprintable():
        return _escape_character(char)
    try:
        return char.encode(encoding, "backslashreplace").decode(encoding)
    except (LookupError, UnicodeError):
        return _escape_character(char)


def _character_width(char: str) -> int:
    if char.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if category(char) in ("Mn", "Me"):
        return 0
    return 2 if east_asian_width(char) in "WF" else 1


# Wrapping.

_INVISIBLE = r"\x1b\[[0-9;]*m|\x1b\]8;;[^\x1b]*\x1b\\"


def wrap_line(text: str, style: TerminalStyle, hanging: int = 0) -> str:
    """Wrap a line to the width of the terminal, indenting all but the first line by `hanging` columns.

    A word longer than a line is not broken, because it may be a path that a user copies.
    """
    if not style.wraps or len(text) <= style.width:
        return text
    return "\n".join(_wrapped_lines(text, style, min(hanging, style.width // 2)))


def wrap_lines(text: str, style: TerminalStyle) -> str:
    """Wrap each line of a text separately, indenting continuation lines by two columns."""
    if not style.wraps:
        return text
    lines = text.split("\n")
    return "\n".join(wrap_line(line, style, len(line) - len(line.lstrip(" ")) + 2) for line in lines)


def _wrapped_lines(text: str, style: TerminalStyle, hanging: int) -> Iterator[str]:
    room = style.width
    line, used = "", 0
    for blank, word in _words_with_blanks(text):
        width = _word_width(word, style)
        if line.strip() and used + len(blank) + width > room:
            yield line
            line, used = " " * hanging + word, hanging + width
        else:
            line, used = line + blank + word, used + len(blank) + width
    yield line


def _words_with_blanks(text: str) -> Iterator[tuple[str, str]]:
    """Yield each word with the blanks before it."""
    for match in re.finditer(r"( *)([^ ]*)", text):
        if match[0]:
            yield match[1], match[2]


def _word_width(word: str, style: TerminalStyle) -> int:
    visible_word = re.sub(_INVISIBLE, "", word) if "\x1b" in word else word
    return sum(width for _, width in character_cells(visible_word, style.encoding))
