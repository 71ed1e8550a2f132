"""Numbers as hjson 3.1.0 makes them from their text."""

from __future__ import annotations

from dsconfig.document.tree import MAX_DIGITS


def number(word: str) -> int | float:
    """The number that hjson makes of a match of NUMBER: a whole float below 1e10 becomes an int."""
    if word.lstrip("-").isdigit():
        if len(word) > MAX_DIGITS and len(word.lstrip("-")) > MAX_DIGITS:
            raise OverflowError(word)
        return int(word)
    value = float(word)
    if value in (float("inf"), float("-inf")):
        raise OverflowError(word)
    return int(value) if abs(value) < 1e10 and int(value) == value else value
