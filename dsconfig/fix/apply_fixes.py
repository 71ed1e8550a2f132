"""One pass over a document: the fixes that do not meet, made together and checked.

A fix that the text does not carry, or that brings a finding which was not there, is withdrawn; see `verify.trial`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.check.report import Report
from dsconfig.core.diagnostic import SEVERITIES, Diagnostic
from dsconfig.document import Document
from dsconfig.fix.applicability import is_safe
from dsconfig.fix.combine_fixes import Taken, is_textual, together
from dsconfig.fix.verify import trial

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath

Judge: TypeAlias = Callable[[Document], Report]
MOST_TRIALS = 64
"""Texts judged in one pass at most, while it is found out which of many fixes must be withdrawn."""


@dataclass(slots=True)
class Pass:
    """Fixes tried on one document. `withdrawn` names those that no later pass needs to try."""

    document: Document
    report: Report
    judge: Judge
    withdrawn: set[tuple[str, KeyPath, str]] = field(default_factory=set)
    most: int = MOST_TRIALS
    """Texts that are tried at most."""
    trials: int = 0
    made: list[Taken] = field(default_factory=list)
    result: tuple[Document, Report] | None = None
    """The document with `made` in it, and its report."""

    def run(self, *, unsafe: bool) -> bool:
        """Make every fix that need not wait for another one; False where none was made."""
        if self.document.is_data or self.document.root is None:
            return False
        for wanted in self._wanted(unsafe=unsafe):
            withdrawn = -1
            while self.result is None and len(self.withdrawn) > withdrawn:
                withdrawn = len(self.withdrawn)  # what waited for a fix that is withdrawn waits no longer
                left = [found for found in wanted if _name(found) not in self.withdrawn]
                self._accept(together(self.document, left))
            if self.result is not None:
                break
        return self.result is not None

    def _wanted(self, *, unsafe: bool) -> Iterator[list[Diagnostic]]:
        """The findings to fix, errors first.

        The text itself comes before its values: what a parser refuses was read by guessing.
        """
        found = [
            each
            for each in self.report.diagnostics
            if each.fix is not None
            and each.fix.operations
            and _name(each) not in self.withdrawn
            and (unsafe or is_safe(each, self.report))
        ]
        yield [each for each in found if is_textual(each)]
        if self.document.readable():
            yield sorted(found, key=lambda each: SEVERITIES.index(each.severity))

    def _accept(self, taken: list[Taken]) -> list[Taken]:
        """Those of the fixes that hold together; all at once where they do, else found by halves."""
        if not taken or self._holds(taken):
            return taken
        if len(taken) == 1 or self.trials >= self.most:
            if self.trials < self.most:
                self.withdrawn.add(_name(taken[0].found))
            return []
        left = self._accept(taken[: len(taken) // 2])
        right = self._accept(taken[len(taken) // 2 :])
        if not left or not right or self._holds([*left, *right]):
            return [*left, *right]
        self._holds(left)
        return left

    def _holds(self, taken: list[Taken]) -> bool:
        """Whether the new text says what the fixes mean, and brings no finding that was not there."""
        if self.made == taken:
            return True
        if self.trials >= self.most:
            return False
        self.trials += 1
        tried = trial(self.report, self.document, self.judge, taken)
        if tried is None:
            return False
        new, judged = tried
        self.made, self.result = taken, (new, judged())
        return True


def _name(found: Diagnostic) -> tuple[str, KeyPath, str]:
    return found.code, found.path, found.fix.title if found.fix else ""
