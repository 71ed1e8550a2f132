"""One pass over a document: the fixes that do not meet, made together.

No edit is trusted: what the new text says is compared with what the fixes mean, and a fix that the text does
not carry is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.checking.patches import again, carried_out, edits, same
from dsconfig.checking.report import Report
from dsconfig.diagnostic import SEVERITIES, Diagnostic, Fix, Move, Operation, Remove, Replace
from dsconfig.document import Document
from dsconfig.document.edit import Edit, EditError, apply
from dsconfig.fixing.safety import is_safe

if TYPE_CHECKING:
    from dsconfig.json_types import Json, KeyPath


@dataclass(frozen=True, slots=True)
class Taken:
    """A fix on its way into the text."""

    found: Diagnostic
    fix: Fix
    edits: list[Edit]
    paths: list[KeyPath]

    def meets(self, other: Taken) -> bool:
        """Whether the two concern one place; an edit that only inserts meets what it touches."""
        if any(_related(one, two) for one in self.paths for two in other.paths):
            return True
        return any(_meet(one, two) for one in self.edits for two in other.edits)


def apply_fixes(document: Document, report: Report, *, unsafe: bool) -> tuple[str, list[Diagnostic]]:
    """The text with every fix made that does not have to wait for another one, and the findings fixed."""
    if document.is_data or document.root is None:
        return document.text, []
    taken: list[Taken] = []
    for wanted in _wanted(document, report, unsafe=unsafe):
        taken = _compatible(document, wanted)
        if taken:
            break
    while len(taken) > 1 and not _means(document, taken):  # as where nothing of a section would be left
        del taken[len(taken) // 2 :]
    return _edited(document, taken), [each.found for each in taken]


def _wanted(document: Document, report: Report, *, unsafe: bool) -> Iterator[list[Diagnostic]]:
    """The findings to fix, errors first.

    The text itself comes before its values: what a parser refuses was read by guessing.
    """
    found = [
        each
        for each in report.diagnostics
        if each.fix is not None and each.fix.operations and (unsafe or is_safe(each, report))
    ]
    yield [each for each in found if each.fix and isinstance(each.fix.operations[0], Replace)]
    if document.readable():
        yield sorted(found, key=lambda each: SEVERITIES.index(each.severity))


def _compatible(document: Document, wanted: list[Diagnostic]) -> list[Taken]:
    """The fixes that the text carries, without those that meet one before them."""
    taken: list[Taken] = []
    for found in wanted:
        assert found.fix is not None
        try:
            own = Taken(found, found.fix, edits(document, found.fix), _paths(found.fix))
        except EditError:
            continue
        if not any(own.meets(other) for other in taken) and _means(document, [own]):
            taken.append(own)
    return taken


def _meet(one: Edit, two: Edit) -> bool:
    if one.start == one.end or two.start == two.end:
        return one.start <= two.end and two.start <= one.end
    return one.start < two.end and two.start < one.end


def _related(one: KeyPath, two: KeyPath) -> bool:
    length = min(len(one), len(two))
    return one[:length] == two[:length]


def _edited(document: Document, taken: list[Taken]) -> str:
    return apply(document.text, [edit for each in taken for edit in each.edits])


def _means(document: Document, taken: list[Taken]) -> bool:
    """Whether the new text holds what the fixes make of the old one's value."""
    try:
        value: Json = document.value()
        for each in taken:
            value = carried_out(value, each.fix.operations)
    except (KeyError, IndexError, TypeError, AttributeError):
        return False
    new = again(document, _edited(document, taken))
    if document.readable() and not new.readable():
        return False
    # A text past help grows comma by comma.
    textual = isinstance(taken[0].fix.operations[0], Replace)
    if textual and len(new.problems) >= len(document.problems):
        return False
    return same(new.value(), value)


def _paths(fix: Fix) -> list[KeyPath]:
    """The places that the fix concerns; taking an item out of a list moves the others."""
    paths: list[KeyPath] = []
    for operation in fix.operations:
        paths += _touched(operation)
    return paths


def _touched(operation: Operation) -> list[KeyPath]:
    if isinstance(operation, Replace):
        return []
    path = operation.path
    if isinstance(operation, Remove | Move) and path and isinstance(path[-1], int):
        path = path[:-1]
    return [path, operation.to] if isinstance(operation, Move) else [path]
