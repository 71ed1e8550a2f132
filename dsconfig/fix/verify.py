"""The one place that tries fixes: which of a report are shown, because each was made by itself and did no harm.

A fix is what editors and bots carry out unasked. One that brings a finding, perhaps of a rule that looks at
other keys as well, stays in words alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import TYPE_CHECKING

from dsconfig.check.check import recheck
from dsconfig.check.report import Report
from dsconfig.fix.applicability import is_safe
from dsconfig.fix.combine_fixes import Taken, edited, is_textual, together
from dsconfig.fix.new_findings import does_harm
from dsconfig.fix.trial_budget import affordable

if TYPE_CHECKING:
    from collections.abc import Callable

    from dsconfig.core.diagnostic import Diagnostic
    from dsconfig.document import Document

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
