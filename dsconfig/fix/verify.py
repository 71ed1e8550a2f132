"""Verification of fixes: each is tried by itself, combined where they do not overlap, and kept if harmless."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.check.check import recheck
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import (
    SEVERITIES,
    Diagnostic,
    Effect,
    Fix,
    Move,
    Operation,
    Remove,
    Rename,
    Replace,
)
from dsconfig.core.json_types import NamedTuple
from dsconfig.document import Document, read_dict
from dsconfig.document.edit import again, carried_out, edits, same
from dsconfig.document.text_edit import Edit, EditError, apply
from dsconfig.document.tree import MAX_PROBLEMS

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.tree import Node


# The one place that tries fixes: which of a report are shown, because each was made by itself and did no
# harm.
#
# A fix is what editors and bots carry out unasked. One that brings a finding, perhaps of a rule that looks
# at other keys as well, stays in words alone.

if TYPE_CHECKING:
    Judge = Callable[[Document], Report]


def with_proven_fixes(report: Report) -> Report:
    """The report, and those of the files that it names, with the fixes that were tried and do no harm."""
    children = tuple(map(with_proven_fixes, report.children))
    if not any(found.fix for found in report):
        return report.replaced(children=children)
    return proven(report, partial(recheck, report)).replaced(children=children)


def proven(report: Report, judge: Judge) -> Report:
    """The report with the fixes that hold, marked safe where that is certain; `judge` is what made it."""
    if not any(_is_fixable(found) for found in report):
        return report
    return report.replaced(diagnostics=tuple(holding(report, judge, report.diagnostics)))


def holding(report: Report, judge: Judge, found: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Some of the findings of a report, with the fixes that hold."""
    document = report.document
    wanted = [each for each in found if _is_fixable(each)]
    if document is None or not wanted:
        return list(found)
    kept = set(map(id, _Proof(report, document, judge).of(wanted)))
    return [_shown(each, report, proven=id(each) in kept) for each in found]


def trial(
    report: Report, document: Document, judge: Judge, taken: Sequence[Taken]
) -> tuple[Document, Callable[[], Report]] | None:
    """Try fixes together: the text with them in it and what judges that; None where they do harm.

    No edit is trusted: what the new text says is compared with what the fixes mean, and it is judged like the old
    one. Of a text that is refused, what stands behind the mistake is seen only once that is gone.
    """
    new = edited(document, list(taken))
    if new is None:
        return None
    judged = cache(lambda: judge(new))
    if is_textual(taken[0].found) and any(problem.refused_by for problem in document.problems):
        return new, judged
    steps = [step for each in taken for step in each.fix.operations]
    return None if does_harm(report, judged(), steps) else (new, judged)


def _is_fixable(found: Diagnostic) -> bool:
    return found.fix is not None and bool(found.fix.operations)


def _shown(found: Diagnostic, report: Report, *, proven: bool) -> Diagnostic:
    fix = found.fix
    if fix is None or (proven and (not fix.safe or is_safe(found, report))):
        return found
    if proven:
        return found._replace(fix=fix._replace(safe=False))
    return found._replace(fix=None, help=found.help or fix.title)


class _Proof:
    """Tries fixes, as long as that costs little: one by one, or many at once where there are many."""

    def __init__(self, report: Report, document: Document, judge: Judge) -> None:
        self.report, self.document, self.judge = report, document, judge
        self.left = affordable(document, len(report.target.releases))

    def of(self, wanted: Sequence[Diagnostic]) -> list[Diagnostic]:
        """Those that hold."""
        if len(wanted) <= self.left:
            return [found for found in wanted if self._holds([found])]
        kept: list[Diagnostic] = []
        while wanted and self.left > 0:
            taken = [each.found for each in together(self.document, wanted)]
            if not taken:
                break
            kept += self._by_halves(taken)
            tried = set(map(id, taken))
            wanted = [found for found in wanted if id(found) not in tried]
        return kept

    def _by_halves(self, taken: list[Diagnostic]) -> list[Diagnostic]:
        if self.left <= 0 or not taken:
            return []
        if self._holds(taken):
            return taken
        middle = len(taken) // 2
        return [*self._by_halves(taken[:middle]), *self._by_halves(taken[middle:])] if middle else []

    def _holds(self, taken: list[Diagnostic]) -> bool:
        self.left -= 1
        placed = together(self.document, taken)
        return bool(placed) and trial(self.report, self.document, self.judge, placed) is not None


# Fixes made together: those that speak of different places in the config.
#
# Where two of them touch in the text, as neighbours do that share a comma, one is written after the other.
# What waits for a later pass is thus the same in every format.

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


# Whether a fix may be made without being asked for ("safe"), or only with `--unsafe-fixes`.


def is_safe(found: Diagnostic, report: Report) -> bool:
    """Whether the finding's fix is safe in every release that is checked, and loses no comment."""
    if found.fix is None or not found.fix.safe or set(report.target.releases) - set(found.releases):
        return False
    if report.document is None or not report.document.comments:
        return True
    try:
        return not _loses_comment(report.document, edits(report.document, found.fix))
    except EditError:
        return True


def _loses_comment(document: Document, made: Iterable[Edit]) -> bool:
    return any(
        text.strip() not in edit.text
        for edit in made
        for text in _comments_in(document, edit.start, edit.end)
    )


def _comments_in(document: Document, start: int, end: int) -> Iterator[str]:
    """The comments of which a part lies in the stretch."""
    comments = document.comments
    for at in range(bisect_right(comments, start, key=lambda comment: comment[0].end), len(comments)):
        span, text = comments[at]
        if span.start >= end:
            return
        yield text


# What is found after a change of a config that was not found before: whether the change does harm.

_Place: TypeAlias = "tuple[str, KeyPath, int]"


def does_harm(old: Report, new: Report, steps: Iterable[Operation]) -> bool:
    """Whether the operations bring a finding, or spread or worsen one, or leave fewer world sizes."""
    if new.foreign and not old.foreign:  # a text that is no longer a config has no findings, and no use
        return True
    before, after, steps = _found(old), _found(new), list(steps)
    if old.cut:  # what a fix makes room for in the list is not news
        return _errors(after) > _errors(before)
    if _of_text(after) - _of_text(before):
        return True
    if _is_taken(before) and new.sizes is not None and not set(new.sizes).issuperset(old.sizes or _ENDLESS):
        return True
    known: dict[_Place, set[str]] = {}
    ways = _by_place(steps)
    for found in before:
        path = _followed(found.path, ways)
        for rank in range(SEVERITIES.index(found.severity), len(SEVERITIES)):
            known.setdefault((found.code, path, rank), set()).update(_releases(found))
    return any(_releases(found) - known.get(_place(found), set()) for found in after if not _is_text(found))


def _place(found: Diagnostic) -> _Place:
    return found.code, found.path, SEVERITIES.index(found.severity)


def _releases(found: Diagnostic) -> set[str]:
    """Where it is found; one of no release is found in all of them."""
    return set(found.releases or ("",))


_ENDLESS = (0,)
"""Stands for world sizes without end."""


def _is_taken(found: Iterable[Diagnostic]) -> bool:
    return all(each.effect is not Effect.REJECTED for each in found)


def _errors(found: Iterable[Diagnostic]) -> int:
    return sum(each.severity == "error" for each in found)


def _found(report: Report) -> list[Diagnostic]:
    return [*report.diagnostics, *report.suppressed]


def _of_text(found: Iterable[Diagnostic]) -> Counter[str]:
    """How often each rule of the text speaks: one finding stands for all places, wherever the first is."""
    return Counter(each.code for each in found if _is_text(each))


def _is_text(found: Diagnostic) -> bool:
    return found.code.startswith("DSC0")


_Ways: TypeAlias = "dict[KeyPath, list[tuple[int, Operation]]]"
"""The operations that move something, with their numbers, by the place at or below which it stood."""


def _by_place(steps: Iterable[Operation]) -> _Ways:
    ways: _Ways = {}
    for number, step in enumerate(steps):
        if isinstance(step, Rename | Move):
            ways.setdefault(step.path, []).append((number, step))
        elif isinstance(step, Remove) and step.path and isinstance(step.path[-1], int):
            ways.setdefault(step.path[:-1], []).append((number, step))
    return ways


def _followed(path: KeyPath, ways: _Ways) -> KeyPath:
    """Where the key at a path stands after the operations."""
    done = -1
    while ways:
        places = (path[:length] for length in range(len(path) + 1))
        ahead = [way for place in places for way in ways.get(place, ()) if way[0] > done]
        if not ahead:
            break
        done, step = min(ahead, key=lambda way: way[0])
        match step:
            case Rename(moved, name):
                path = (*moved[:-1], name, *path[len(moved) :])
            case Move(moved, to):
                path = (*to, *path[len(moved) :])
            case Remove(gone):
                path = _closed_up(path, gone)
    return path


def _closed_up(path: KeyPath, gone: KeyPath) -> KeyPath:
    """The path in a list of which another element was taken out."""
    at = len(gone) - 1
    if at < 0 or len(path) <= at or path[:at] != gone[:at]:
        return path
    index, taken = path[at], gone[at]
    if isinstance(index, int) and isinstance(taken, int) and index > taken:
        return (*path[:at], index - 1, *path[at + 1 :])
    return path


# How often a text may be judged to find out which changes hold: a short one often, a long one seldom.

_DATA = 3 << 16
"""Code points of all configs together, once for each class of releases."""
_CLASSES = 16
"""Releases behave alike in classes: so many evaluations, about, the longest range costs."""
_VALUE = 12
"""Code points that a value takes in a text beside the words in it."""
_SMALL, _AS_WRITTEN = 4096, 64
"""A config as people write them is judged so often that all its fixes can be told apart."""
_LOOSEST = 4
"""Text for one of its data at most: beyond that, reading the text is what costs."""


def affordable(document: Document, releases: int = 1) -> int:
    """How often a text may be judged for so many releases; 0 where it is too long for even once.

    It is the data that counts, so that it is written in one format or another makes no difference.
    """
    size = max(64 + _size(document.root), len(document.text) // _LOOSEST)
    return max(_DATA // (size * min(releases, _CLASSES)), _AS_WRITTEN if size < _SMALL else 0)


def _size(root: Node | None) -> int:
    todo, size = [root] if root else [], 0
    while todo:
        node = todo.pop()
        size += _VALUE + (len(node.value) if isinstance(node.value, str) else 0)
        todo += node.items
        for member in node.members:
            size += len(member.key)
            todo.append(member.node)
    return size
