"""Verify fixes by applying them, alone or with others that do not overlap, and keep the harmless ones."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, partial

from dsconfig.check.check import recheck_text
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import (
    SEVERITIES,
    Diagnostic,
    Effect,
    Fix,
    MoveKey,
    Operation,
    RemoveKey,
    RenameKey,
    ReplaceText,
)
from dsconfig.core.json_types import NamedTuple
from dsconfig.document import Document, read_dict
from dsconfig.document.apply_operations import (
    apply_operations_to_value,
    are_equal_for_parsers,
    edits_for_fix,
    reparse_document,
)
from dsconfig.document.located_tree import MAX_PROBLEMS
from dsconfig.document.text_edit import EditError, TextEdit, apply_edits

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.document.located_tree import TreeNode


# Nothing else tries fixes. Editors and bots apply fixes unasked, so a fix that introduces a diagnostic,
# perhaps of a rule that looks at other keys as well, is only described in words.

if TYPE_CHECKING:
    Checker = Callable[[Document], Report]


def verify_fixes_of_reports(report: Report) -> Report:
    """Return a report and its children without the fixes that proved harmful."""
    children = tuple(map(verify_fixes_of_reports, report.children))
    if not any(map(is_fixable, report)):
        return report.copy_with(children=children)
    return verify_fixes_of_report(report, partial(recheck_text, report, is_located=False)).copy_with(
        children=children
    )


def lacks_exactly(report: Report, new_report: Report, fixes: Sequence[PlacedFix]) -> bool:
    """Return whether two reports differ only in the diagnostics that the fixes resolve."""
    diagnostics = [each.diagnostic for each in fixes]
    after = _all_diagnostics(new_report)
    remaining = {(each.code, each.path) for each in after}
    resolved = {(each.code, each.path) for each in diagnostics}
    return len(after) + len(fixes) == len(_all_diagnostics(report)) and remaining.isdisjoint(resolved)


def verify_fixes_of_report(report: Report, checker: Checker) -> Report:
    """Return a report with only the fixes that work; those that are certainly safe are marked so."""
    return report.copy_with(diagnostics=tuple(verify_fixes(report, checker, report.diagnostics)))


def verify_fixes(report: Report, checker: Checker, diagnostics: Sequence[Diagnostic]) -> list[Diagnostic]:
    """Return diagnostics of a report with only the fixes that work."""
    document = report.document
    fixable = [each for each in diagnostics if is_fixable(each)]
    if document is None or not fixable:
        return list(diagnostics)
    verified = set(map(id, _FixVerifier(report, document, checker).verify_candidates(fixable)))
    return [apply_verdict(each, report, is_verified=id(each) in verified) for each in diagnostics]


def try_fixes(
    report: Report, document: Document, checker: Checker, fixes: Sequence[PlacedFix]
) -> tuple[Document, Callable[[], Report]] | None:
    """Apply fixes together; return the new document and its checker, or None if they are harmful.

    No edit is trusted: the new value is compared with the one that the fixes intend, and the new text is
    checked like
    the old one. In a rejected text, what follows the syntax error is visible only once the error is fixed.
    """
    new = apply_fixes(document, list(fixes))
    if new is None:
        return None
    new_report = cache(lambda: checker(new))
    if fixes_text_itself(fixes[0].diagnostic) and any(problem.rejected_by for problem in document.problems):
        return new, new_report
    steps = [step for each in fixes for step in each.fix.operations]
    return None if do_operations_harm(report, new_report(), steps) else (new, new_report)


def is_fixable(diagnostic: Diagnostic) -> bool:
    """Return whether a diagnostic has a fix that consists of at least one operation."""
    return diagnostic.fix is not None and bool(diagnostic.fix.operations)


def apply_verdict(diagnostic: Diagnostic, report: Report, *, is_verified: bool) -> Diagnostic:
    """Return a diagnostic without its fix if not verified, or with the fix's safety reassessed."""
    fix = diagnostic.fix
    if fix is None or (is_verified and (not fix.safe or is_fix_safe(diagnostic, report))):
        return diagnostic
    if is_verified:
        return diagnostic._replace(fix=fix._replace(safe=False))
    return diagnostic._replace(fix=None, help=diagnostic.help or fix.title)


class _FixVerifier:
    """Tries fixes within a budget: one by one or, if there are many, in groups."""

    def __init__(self, report: Report, document: Document, checker: Checker) -> None:
        self.report, self.document, self.checker = report, document, checker
        self.remaining = trial_budget(document, len(report.target.releases))

    def verify_candidates(self, candidates: Sequence[Diagnostic]) -> list[Diagnostic]:
        """Return the diagnostics whose fixes work."""
        if len(candidates) <= self.remaining:
            placed = combine_fixes(self.document, candidates)
            if len(placed) == len(candidates) and self._are_independent(placed):
                return list(candidates)
            single = {id(each.diagnostic): [each] for each in placed}
            return [each for each in candidates if self._do_fixes_hold([each], single.get(id(each)))]
        verified: list[Diagnostic] = []
        while candidates and self.remaining > 0:
            batch = [each.diagnostic for each in combine_fixes(self.document, candidates)]
            if not batch:
                break
            verified += self._verify_by_halves(batch)
            tried = set(map(id, batch))
            candidates = [diagnostic for diagnostic in candidates if id(diagnostic) not in tried]
        return verified

    def _are_independent(self, fixes: Sequence[PlacedFix]) -> bool:
        """Return whether a single trial can prove that each fix resolves its own diagnostic and no other.

        A fix that changes more may be harmless only because of another one, and is tried alone.
        """
        diagnostics = [each.diagnostic for each in fixes]
        if len(fixes) < 2 or self.report.is_truncated or any(map(fixes_text_itself, diagnostics)):
            return False
        outcome = try_fixes(self.report, self.document, self.checker, fixes)
        return outcome is not None and lacks_exactly(self.report, outcome[1](), fixes)

    def _verify_by_halves(self, diagnostics: list[Diagnostic]) -> list[Diagnostic]:
        if self.remaining <= 0 or not diagnostics:
            return []
        if self._do_fixes_hold(diagnostics):
            return diagnostics
        middle = len(diagnostics) // 2
        return (
            [*self._verify_by_halves(diagnostics[:middle]), *self._verify_by_halves(diagnostics[middle:])]
            if middle
            else []
        )

    def _do_fixes_hold(self, diagnostics: list[Diagnostic], placed: list[PlacedFix] | None = None) -> bool:
        """Return whether fixes work together; `placed` are the same fixes, already combined."""
        self.remaining -= 1
        placed = combine_fixes(self.document, diagnostics) if placed is None else placed
        return bool(placed) and try_fixes(self.report, self.document, self.checker, placed) is not None


# Combined fixes: those at different paths of the config.
#
# If two of them touch in the text, like neighbors that share a comma, one is written after the other. What
# has to wait for a later pass is thus the same in every format.

_ROUNDS = 8
"""Maximal number of times that a text is written and parsed for fixes that touch each other in it."""
LONG_TEXT = 1 << 16
"""Number of code points from which a text is parsed only once per pass, because parsing it is slow."""


class PlacedFix(NamedTuple):
    """A fix with the edits that write it into the text."""

    diagnostic: Diagnostic
    fix: Fix
    edits: list[TextEdit]
    """The edits of the text that the fix makes; none for a dict."""


def fixes_text_itself(diagnostic: Diagnostic) -> bool:
    """Return whether a diagnostic's fix changes the text itself rather than the value at a path."""
    return diagnostic.fix is not None and isinstance(diagnostic.fix.operations[0], ReplaceText)


def apply_fixes(document: Document, fixes: list[PlacedFix]) -> Document | None:
    """Apply fixes to a document; return None if the resulting value is not as intended."""
    try:
        steps = [step for each in fixes for step in each.fix.operations]
        value: Json = apply_operations_to_value(document.value(), steps)
        if document.is_data:
            return read_dict(value, document.name)
        new = _write_fixes(document, fixes)
    except (KeyError, IndexError, TypeError, AttributeError, EditError):
        return None
    if new is None or (document.is_readable() and not new.is_readable()):
        return None
    # A hopeless text would grow comma by comma: a fix of the text must reduce its problems. A text that
    # parses may have more problems than are listed, so it is not counted.
    all_problems_listed = len(document.problems) < MAX_PROBLEMS or not document.is_readable()
    if (
        all_problems_listed
        and fixes_text_itself(fixes[0].diagnostic)
        and len(new.problems) >= len(document.problems)
    ):
        return None
    return new if are_equal_for_parsers(new.value(), value) else None


def _write_fixes(document: Document, fixes: list[PlacedFix]) -> Document | None:
    """Return the document with the fixes applied to its text, or None if too many of them overlap."""
    for number in range(_max_rounds(document)):
        if not fixes:
            return document
        ranges, now, later = ClaimedRanges(), list[TextEdit](), list[PlacedFix]()
        for each in fixes:
            fix_edits = edits_for_fix(document, each.fix) if number else each.edits
            if ranges.claim_ranges(fix_edits):
                now += fix_edits
            else:
                later.append(each)
        document, fixes = reparse_document(document, apply_edits(document.text, now)), later
    return None if fixes else document


def _max_rounds(document: Document) -> int:
    return _ROUNDS if len(document.text) < LONG_TEXT else 1


def combine_fixes(document: Document, diagnostics: Iterable[Diagnostic]) -> list[PlacedFix]:
    """Return the fixes that can be applied to the text without overlapping an earlier one."""
    accepted: list[PlacedFix] = []
    paths_taken = _ClaimedPaths()
    rounds = [ClaimedRanges() for _ in range(_max_rounds(document))]
    for diagnostic in diagnostics:
        assert diagnostic.fix is not None
        try:
            fix_edits = [] if document.is_data else edits_for_fix(document, diagnostic.fix)
        except EditError:
            continue
        paths = _paths_changed_by_fix(diagnostic.fix)
        # Offsets of a fix of the text are valid in the original text only, so it must go into the first
        # round.
        round_limit = None if paths else 1
        claim = partial(ClaimedRanges.claim_ranges, edits=fix_edits)
        if paths_taken.are_paths_free(paths) and any(map(claim, rounds[:round_limit])):
            paths_taken.claim_paths(paths)
            accepted.append(PlacedFix(diagnostic, diagnostic.fix, fix_edits))
    return accepted


class _ClaimedPaths:
    """The paths that accepted fixes change."""

    def __init__(self) -> None:
        self.paths: set[KeyPath] = set()
        self.ancestors: set[KeyPath] = set()
        """The changed paths, and all parents of these paths."""

    def are_paths_free(self, paths: Iterable[KeyPath]) -> bool:
        """Return whether no claimed path equals, contains or is inside any of these paths."""
        for path in paths:
            if path in self.ancestors or not self.paths.isdisjoint([path[:end] for end in range(len(path))]):
                return False
        return True

    def claim_paths(self, paths: Iterable[KeyPath]) -> None:
        """Mark `paths` as changed by an accepted fix."""
        for path in paths:
            self.paths.add(path)
            self.ancestors.update([path[:end] for end in range(len(path) + 1)])


class ClaimedRanges:
    """Sorted ranges of a text that edits change."""

    def __init__(self) -> None:
        self.ranges: list[tuple[int, int]] = []

    def claim_ranges(self, edits: Iterable[TextEdit]) -> bool:
        """Claim the ranges of all edits, or none if any overlaps; return whether it succeeded."""
        edits = list(edits)
        if any(map(self._overlaps_claimed_range, edits)):
            return False
        for edit in edits:
            insort(self.ranges, (edit.start, edit.end))
        return True

    def _overlaps_claimed_range(self, edit: TextEdit) -> bool:
        """Return whether an edit overlaps a claimed range; an insertion overlaps if it touches one."""
        at = bisect_left(self.ranges, (edit.start, edit.end))
        # Claimed ranges do not overlap, so only neighbors can conflict.
        neighbors = self.ranges[max(0, at - 2) : at + 2]
        return any(map(partial(_do_edits_conflict, (edit.start, edit.end)), neighbors))


def _do_edits_conflict(first: tuple[int, int], second: tuple[int, int]) -> bool:
    if first[0] == first[1] or second[0] == second[1]:
        return first[0] <= second[1] and second[0] <= first[1]
    return first[0] < second[1] and second[0] < first[1]


def _paths_changed_by_fix(fix: Fix) -> list[KeyPath]:
    """Return the paths that a fix changes; removing a list item changes the whole list, as later items shift."""
    return [path for operation in fix.operations for path in _paths_changed_by_operation(operation)]


def _paths_changed_by_operation(operation: Operation) -> list[KeyPath]:
    if isinstance(operation, ReplaceText):
        return []
    path = operation.path
    if isinstance(operation, RemoveKey | MoveKey) and path and isinstance(path[-1], int):
        path = path[:-1]
    return [path, operation.to] if isinstance(operation, MoveKey) else [path]


# Safe fixes are applied by default, the others with `--unsafe-fixes`.


def is_fix_safe(diagnostic: Diagnostic, report: Report) -> bool:
    """Return whether a fix is safe in every checked release and keeps all comments."""
    if (
        diagnostic.fix is None
        or not diagnostic.fix.safe
        or set(report.target.releases) - set(diagnostic.releases)
    ):
        return False
    if report.document is None or not report.document.comments:
        return True
    try:
        return not _removes_comment(report.document, edits_for_fix(report.document, diagnostic.fix))
    except EditError:
        return True


def _removes_comment(document: Document, changes: Iterable[TextEdit]) -> bool:
    return any(
        text.strip() not in edit.text
        for edit in changes
        for text in _comments_in_range(document, edit.start, edit.end)
    )


def _comments_in_range(document: Document, start: int, end: int) -> Iterator[str]:
    """Yield the comments that overlap a range of text."""
    comments = document.comments
    for at in range(bisect_right(comments, start, key=lambda comment: comment[0].end), len(comments)):
        span, text = comments[at]
        if span.start >= end:
            return
        yield text


# Harm: what a changed config has and the original did not.

_Key: TypeAlias = "tuple[str, KeyPath, int]"


def do_operations_harm(old: Report, new: Report, steps: Iterable[Operation]) -> bool:
    """Return whether operations add, spread or worsen a diagnostic, or make fewer world sizes valid."""
    # A text that is no longer a config has no diagnostics, and is of no use.
    if new.why_not_config and not old.why_not_config:
        return True
    before, after, steps = _all_diagnostics(old), _all_diagnostics(new), list(steps)
    if old.is_truncated:  # other diagnostics move up in the truncated list
        return _count_errors(after) > _count_errors(before)
    if _count_text_diagnostics(after) - _count_text_diagnostics(before):
        return True
    if (
        _accepts_config(before)
        and new.sizes is not None
        and not set(new.sizes).issuperset(old.sizes or _ANY_SIZE)
    ):
        return True
    before_by_place: dict[_Key, set[str]] = {}
    moves = _moves_of_operations(steps)
    for diagnostic in before:
        path = _path_after_moves(diagnostic.path, moves)
        for rank in range(SEVERITIES.index(diagnostic.severity), len(SEVERITIES)):
            before_by_place.setdefault((diagnostic.code, path, rank), set()).update(
                _releases_of_diagnostic(diagnostic)
            )
    for diagnostic in after:
        if diagnostic.code.startswith(_TEXT_RULES):
            continue
        key = diagnostic.code, diagnostic.path, SEVERITIES.index(diagnostic.severity)
        if not _releases_of_diagnostic(diagnostic) <= before_by_place.get(key, set()):
            return True
    return False


def _releases_of_diagnostic(diagnostic: Diagnostic) -> set[str]:
    """Return the releases to which a diagnostic applies; all of them if it lists none."""
    return set(diagnostic.releases or ("",))


_ANY_SIZE = (0,)
"""Value that stands for an unlimited set of world sizes."""


def _accepts_config(diagnostics: Iterable[Diagnostic]) -> bool:
    return Effect.REJECTED not in {each.effect for each in diagnostics}


def _count_errors(diagnostics: Iterable[Diagnostic]) -> int:
    return sum(each.severity == "error" for each in diagnostics)


def _all_diagnostics(report: Report) -> list[Diagnostic]:
    return [*report.diagnostics, *report.suppressed]


def _count_text_diagnostics(diagnostics: Iterable[Diagnostic]) -> Counter[str]:
    """Count the diagnostics of each text rule; one diagnostic covers all occurrences."""
    return Counter([each.code for each in diagnostics if each.code.startswith(_TEXT_RULES)])


_TEXT_RULES = "DSC0"
"""Prefix of the codes of rules about the text itself."""


_Moves: TypeAlias = "dict[KeyPath, list[tuple[int, Operation]]]"
"""The operations that move keys, with their numbers, by the path whose contents they move."""


def _moves_of_operations(steps: Iterable[Operation]) -> _Moves:
    moves: _Moves = {}
    for number, step in enumerate(steps):
        if isinstance(step, RenameKey | MoveKey):
            moves.setdefault(step.path, []).append((number, step))
        elif isinstance(step, RemoveKey) and step.path and isinstance(step.path[-1], int):
            moves.setdefault(step.path[:-1], []).append((number, step))
    return moves


def _path_after_moves(path: KeyPath, moves: _Moves) -> KeyPath:
    """Return the path of a key after operations have moved it."""
    last_number = -1
    while moves:
        pending = [
            move
            for end in range(len(path) + 1)
            for move in moves.get(path[:end], ())
            if move[0] > last_number
        ]
        if not pending:
            break
        last_number, step = min(pending, key=lambda move: move[0])
        match step:
            case RenameKey(moved, name):
                path = (*moved[:-1], name, *path[len(moved) :])
            case MoveKey(moved, to):
                path = (*to, *path[len(moved) :])
            case RemoveKey(removed):
                path = _path_after_removal(path, removed)
    return path


def _path_after_removal(path: KeyPath, removed: KeyPath) -> KeyPath:
    """Return a path after another item of the same list was removed."""
    at = len(removed) - 1
    if at < 0 or len(path) <= at or path[:at] != removed[:at]:
        return path
    index, removed_index = path[at], removed[at]
    if isinstance(index, int) and isinstance(removed_index, int) and index > removed_index:
        return (*path[:at], index - 1, *path[at + 1 :])
    return path


# The trial budget: a short text may be checked often, a long one rarely.

_DATA = 3 << 16
"""Number of code points that all trials together may check, for each class of releases."""
_CLASSES = 16
"""Number of classes of releases with the same behavior: about this many evaluations cover the longest range."""
_VALUE = 12
"""Number of code points that a value takes in a text, apart from its strings."""
_SMALL, _AS_WRITTEN = 4096, 64
"""Size of a usual config, and its number of trials, which is enough to test every fix on its own."""
_LOOSEST = 4
"""Maximal ratio of text to data; beyond this ratio, parsing the text dominates the cost."""


def trial_budget(document: Document, releases: int = 1) -> int:
    """Return how many times a text may be checked for this many releases; 0 if a single check is too slow.

    The budget depends on the size of the data, so that the format of the text makes no difference.
    """
    size = max(64 + _count_values(document.root), len(document.text) // _LOOSEST)
    return max(_DATA // (size * min(releases, _CLASSES)), _AS_WRITTEN if size < _SMALL else 0)


def _count_values(root: TreeNode | None) -> int:
    todo, size = [root] if root else [], 0
    while todo:
        node = todo.pop()
        size += _VALUE + (len(node.value) if isinstance(node.value, str) else 0)
        todo += node.items
        for member in node.members:
            size += len(member.key)
            todo.append(member.node)
    return size
