"""Text of a config in Markdown: no link, picture or tag of it is one."""

from __future__ import annotations

import re

from dsconfig.render.printable import printable

_SPAN = re.compile(r"`([^`]+)`")
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~&@]|(?<=www)\.|:(?=//)", re.IGNORECASE)


def code(text: str) -> str:
    """A code span that holds the text, whatever backticks are in it."""
    shown = printable(text)
    longest = max((len(run) for run in re.findall("`+", shown)), default=0)
    fence = "`" * (longest + 1)
    blank = " " if longest or not shown.strip() else ""
    return f"{fence}{blank}{shown}{blank}{fence}"


def escaped(text: str) -> str:
    """Running text of ours with code spans, in which nothing else is Markdown, no bare address either."""
    parts = _SPAN.split(printable(text))
    return "".join(code(part) if at % 2 else _SPECIAL.sub(r"\\\g<0>", part) for at, part in enumerate(parts))
