"""Choices are tried before they are offered: the text that they lead to is judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dsconfig.document.edit import carried_out, edited, same
from dsconfig.document.text_edit import EditError
from dsconfig.fix.migration_plan import Transition
from dsconfig.fix.trial_budget import affordable

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.diagnostic import Operation
    from dsconfig.document import Document

MOST = 48
"""Texts that are judged for one migration at most; what is not judged is not offered."""


class Trial:
    """A text, the later release's report of it, and what becomes of them by one choice or another."""

    def __init__(self, way: Transition, document: Document) -> None:
        self.way, self.document = way, document
        self.report = way.report(document, way.to)
        self.left = min(MOST, affordable(document))

    def holds(self, operations: Sequence[Operation], gone: str | None = None) -> bool:
        """Whether the release takes the text that the operations make, and finds no more in it than now.

        `gone`: the code of a finding that must come to an end by it.
        """
        report = self._report(operations)
        if report is None or not report.ok:
            return False
        before, after = _counted(self.report), _counted(report)
        return not after - before and (gone is None or after[gone] < before[gone])

    def _report(self, operations: Sequence[Operation]) -> Report | None:
        if self.left == 0:
            return None
        self.left -= 1
        try:
            value = carried_out(self.document.value(), operations)
            new = edited(self.document, operations)
        except (EditError, KeyError, IndexError, TypeError, AttributeError):
            return None
        return self.way.report(new, self.way.to) if same(new.value(), value) else None


def _counted(report: Report) -> Counter[str]:
    found = (*report.diagnostics, *report.suppressed)
    return Counter(each.code for each in found if each.severity != "info")
