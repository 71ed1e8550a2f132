"""Text edits, and functions that apply and combine them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dsconfig.core.json_types import NamedTuple


class EditError(ValueError):
    """The edit cannot be made in this text; the message gives the reason."""


class TextEdit(NamedTuple):
    """Edit that replaces the code points from `start` to `end` (exclusive) with `text`."""

    start: int
    end: int
    text: str


def apply_edits(text: str, edits: Sequence[TextEdit]) -> str:
    """Apply edits to a text; they must refer to the original text and not overlap."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: edit[:2]):  # edits at the same place keep their order
        if edit.start < at:
            raise EditError("two edits overlap")
        pieces += text[at : edit.start], edit.text
        at = edit.end
    return "".join((*pieces, text[at:]))


def remove_overlaps(edits: Iterable[TextEdit]) -> list[TextEdit]:
    """Shorten the removals of neighboring entries so that they do not overlap."""
    disjoint: list[TextEdit] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: edit[:2]):
        disjoint.append(TextEdit(max(at, edit.start), max(at, edit.end), edit.text))
        at = disjoint[-1].end
    return disjoint


def smallest_edit(old: str, new: str) -> TextEdit:
    """Return the smallest single edit that turns `old` into `new`."""
    start, limit = 0, min(len(old), len(new))
    while start < limit and old[start] == new[start]:
        start += 1
    end = 0
    while end < limit - start and old[-1 - end] == new[-1 - end]:
        end += 1
    return TextEdit(start, len(old) - end, new[start : len(new) - end])
