"""Fixes made together: those that speak of different places in the config.

Where two of them touch in the text, as neighbours do that share a comma, one is written after the other. What
waits for a later pass is thus the same in every format.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Diagnostic, Fix, Move, Operation, Remove, Replace
from dsconfig.core.json_types import NamedTuple
from dsconfig.document import Document, read_dict
from dsconfig.document.edit import again, carried_out, edits, same
from dsconfig.document.text_edit import Edit, EditError, apply
from dsconfig.document.tree import MAX_PROBLEMS

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath


_ROUNDS = 8
"""How often a text is written, and read again, for fixes that touch in it."""
LONG = 1 << 16
"""Code points from which on a text is read once a pass: each reading of a long one takes time and memory."""


class Taken(NamedTuple):
    """A fix on its way into the text."""

    found: Diagnostic
    fix: Fix


def is_textual(found: Diagnostic) -> bool:
    """Whether the finding's fix changes the text itself, and not what stands at a path."""
    return found.fix is not None and isinstance(found.fix.operations[0], Replace)


def edited(document: Document, taken: list[Taken]) -> Document | None:
    """The document with the fixes in it, where it holds what they make of its value."""
    try:
        steps = [step for each in taken for step in each.fix.operations]
        value: Json = carried_out(document.value(), steps)
        if document.is_data:
            return read_dict(value, document.name)
        new = _written(document, taken)
    except (KeyError, IndexError, TypeError, AttributeError, EditError):
        return None
    if new is None or (document.readable() and not new.readable()):
        return None
    # A text past help grows comma by comma. Of one that can be read, not all that is odd may be known.
    known = len(document.problems) < MAX_PROBLEMS or not document.readable()
    if known and is_textual(taken[0].found) and len(new.problems) >= len(document.problems):
        return None
    return new if same(new.value(), value) else None


def _written(document: Document, taken: list[Taken]) -> Document | None:
    """The document with the fixes in its text; None where too many of them touch."""
    for _ in range(_rounds(document)):
        if not taken:
            return document
        stretches, now, later = _Stretches(), list[Edit](), list[Taken]()
        for each in taken:
            own = edits(document, each.fix)
            if stretches.claim(own):
                now += own
            else:
                later.append(each)
        document, taken = again(document, apply(document.text, now)), later
    return None if taken else document


def _rounds(document: Document) -> int:
    return _ROUNDS if len(document.text) < LONG else 1


def together(document: Document, wanted: Iterable[Diagnostic]) -> list[Taken]:
    """The fixes that the text has a place for, without those that meet one before them."""
    taken: list[Taken] = []
    places = _Places()
    rounds = [_Stretches() for _ in range(_rounds(document))]
    for found in wanted:
        assert found.fix is not None
        try:
            own = [] if document.is_data else edits(document, found.fix)
        except EditError:
            continue
        paths = _paths(found.fix)
        # Places in the text, as a fix of the text itself has them, are those of this text alone.
        most = None if paths else 1
        if places.are_free(paths) and any(each.claim(own) for each in rounds[:most]):
            places.take(paths)
            taken.append(Taken(found, found.fix))
    return taken


class _Places:
    """The paths that are spoken of already."""

    def __init__(self) -> None:
        self.paths: set[KeyPath] = set()
        self.above: set[KeyPath] = set()
        """The taken paths and all paths that lead to them."""

    def are_free(self, paths: Iterable[KeyPath]) -> bool:
        """Whether no taken path is one of these, leads to one or lies below one."""
        return not any(
            path in self.above or any(path[:length] in self.paths for length in range(len(path)))
            for path in paths
        )

    def take(self, paths: Iterable[KeyPath]) -> None:
        """Leave these to nobody else."""
        for path in paths:
            self.paths.add(path)
            self.above.update(path[:length] for length in range(len(path) + 1))


class _Stretches:
    """The stretches of one text that are taken, in their order."""

    def __init__(self) -> None:
        self.taken: list[tuple[int, int]] = []

    def claim(self, edits: Iterable[Edit]) -> bool:
        """Take the places of these edits, or none of them where one is taken."""
        edits = list(edits)
        if any(self._touches(edit) for edit in edits):
            return False
        for edit in edits:
            insort(self.taken, (edit.start, edit.end))
        return True

    def _touches(self, edit: Edit) -> bool:
        """Whether a taken stretch overlaps; one that only inserts meets what it touches."""
        at = bisect_left(self.taken, (edit.start, edit.end))
        # Taken stretches do not overlap: only the neighbours can, and an insertion beside one of them.
        near = self.taken[max(0, at - 2) : at + 2]
        return any(_meet((edit.start, edit.end), stretch) for stretch in near)


def _meet(one: tuple[int, int], two: tuple[int, int]) -> bool:
    if one[0] == one[1] or two[0] == two[1]:
        return one[0] <= two[1] and two[0] <= one[1]
    return one[0] < two[1] and two[0] < one[1]


def _paths(fix: Fix) -> list[KeyPath]:
    """The places that the fix speaks of; taking an item out of a list moves the others."""
    return [path for operation in fix.operations for path in _touched(operation)]


def _touched(operation: Operation) -> list[KeyPath]:
    if isinstance(operation, Replace):
        return []
    path = operation.path
    if isinstance(operation, Remove | Move) and path and isinstance(path[-1], int):
        path = path[:-1]
    return [path, operation.to] if isinstance(operation, Move) else [path]
