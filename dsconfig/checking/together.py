"""Fixes made together: those that speak of different places, in the text and in the config."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.checking.patches import again, carried_out, edits, same
from dsconfig.diagnostic import Diagnostic, Fix, Move, Operation, Remove, Replace
from dsconfig.document import Document, read_dict
from dsconfig.document.edit import Edit, EditError, apply
from dsconfig.document.tree import MAX_PROBLEMS

if TYPE_CHECKING:
    from dsconfig.json_types import Json, KeyPath


class Taken(NamedTuple):
    """A fix on its way into the text."""

    found: Diagnostic
    fix: Fix
    edits: list[Edit]


def is_textual(found: Diagnostic) -> bool:
    """Whether the finding's fix changes the text itself, and not what stands at a path."""
    return found.fix is not None and isinstance(found.fix.operations[0], Replace)


def edited(document: Document, taken: list[Taken]) -> Document | None:
    """The document with the fixes in it, where it holds what they make of its value."""
    try:
        steps = [step for each in taken for step in each.fix.operations]
        value: Json = carried_out(document.value(), steps)
        text = apply(document.text, [edit for each in taken for edit in each.edits])
    except (KeyError, IndexError, TypeError, AttributeError, EditError):
        return None
    if document.is_data:
        return read_dict(value, document.name)
    new = again(document, text)
    if document.readable() and not new.readable():
        return None
    # A text past help grows comma by comma. Of one that can be read, not all that is odd may be known.
    known = len(document.problems) < MAX_PROBLEMS or not document.readable()
    if known and is_textual(taken[0].found) and len(new.problems) >= len(document.problems):
        return None
    return new if same(new.value(), value) else None


def together(document: Document, wanted: Iterable[Diagnostic]) -> list[Taken]:
    """The fixes that the text has a place for, without those that meet one before them."""
    taken: list[Taken] = []
    places = _Places()
    for found in wanted:
        assert found.fix is not None
        try:
            own = Taken(found, found.fix, [] if document.is_data else edits(document, found.fix))
        except EditError:
            continue
        if places.claim(_paths(found.fix), own.edits):
            taken.append(own)
    return taken


class _Places:
    """What is taken already: paths, and stretches of the text in their order."""

    def __init__(self) -> None:
        self.paths: set[KeyPath] = set()
        self.above: set[KeyPath] = set()
        """The taken paths and all paths that lead to them."""
        self.stretches: list[tuple[int, int]] = []

    def claim(self, paths: Iterable[KeyPath], edits: Iterable[Edit]) -> bool:
        """Take these places, or none of them where one is taken."""
        paths, edits = list(paths), list(edits)
        if any(self._speaks_of(path) for path in paths) or any(self._touches(edit) for edit in edits):
            return False
        for path in paths:
            self.paths.add(path)
            self.above.update(path[:length] for length in range(len(path) + 1))
        for edit in edits:
            insort(self.stretches, (edit.start, edit.end))
        return True

    def _speaks_of(self, path: KeyPath) -> bool:
        """Whether a taken path is this one, leads to it or lies below it."""
        return path in self.above or any(path[:length] in self.paths for length in range(len(path)))

    def _touches(self, edit: Edit) -> bool:
        """Whether a taken stretch overlaps; one that only inserts meets what it touches."""
        at = bisect_left(self.stretches, (edit.start, edit.end))
        # Taken stretches do not overlap: only the neighbours can, and an insertion beside one of them.
        near = self.stretches[max(0, at - 2) : at + 2]
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
