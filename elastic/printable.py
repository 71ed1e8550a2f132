"""Text that another machine wrote, made safe to show on a terminal and in a log."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line; terminal escapes and all else that cannot be seen are written out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
