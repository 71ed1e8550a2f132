"""Text made safe to show: what is not printable is written out, and every character has its width."""

from __future__ import annotations

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
