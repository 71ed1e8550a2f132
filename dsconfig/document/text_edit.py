"""Edits of a text: what they replace, and how they are applied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class EditError(ValueError):
    """The operation cannot be carried out on this text; the message says why."""


class Edit(NamedTuple):
    """Put `text` in place of the code points from `start` to `end`, exclusive."""

    start: int
    end: int
    text: str


def apply(text: str, edits: Sequence[Edit]) -> str:
    """The text with the edits made. They speak of the same text and do not overlap."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: edit[:2]):  # what stands first at a place comes first
        if edit.start < at:
            raise EditError("two edits overlap")
        pieces += text[at : edit.start], edit.text
        at = edit.end
    return "".join((*pieces, text[at:]))


def apart(edits: Iterable[Edit]) -> list[Edit]:
    """Removals of neighbours, of which each may take the space between them, without what they share."""
    found: list[Edit] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: edit[:2]):
        found.append(Edit(max(at, edit.start), max(at, edit.end), edit.text))
        at = found[-1].end
    return found


def trimmed(old: str, new: str) -> Edit:
    """The one edit that leads from the old text to the new."""
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return Edit(start, len(old) - end, new[start : len(new) - end])
