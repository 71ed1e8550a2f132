"""One pass over a document: the fixes that do not meet, made together and checked.

No edit is trusted: what the new text says is compared with what the fixes mean, and it is judged like the old
one. A fix that the text does not carry, or that brings a finding which was not there, is withdrawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.checking.patches import again, carried_out, same
from dsconfig.checking.report import Report
from dsconfig.diagnostic import SEVERITIES, Diagnostic, Replace
from dsconfig.document import Document
from dsconfig.document.edit import apply
from dsconfig.fixing.safety import is_safe
from dsconfig.fixing.together import Taken, together

if TYPE_CHECKING:
    from dsconfig.json_types import Json, KeyPath

Judge: TypeAlias = Callable[[Document], Report]
_MOST_TRIALS = 64
"""Texts judged in one pass at most, while it is found out which of many fixes must be withdrawn."""


@dataclass(slots=True)
class Pass:
    """Fixes tried on one document. `withdrawn` names those that no later pass needs to try."""

    document: Document
    report: Report
    judge: Judge
    withdrawn: set[tuple[str, KeyPath, str]] = field(default_factory=set)
    trials: int = 0
    made: list[Taken] = field(default_factory=list)
    result: tuple[Document, Report] | None = None
    """The document with `made` in it, and its report."""

    def run(self, *, unsafe: bool) -> bool:
        """Make every fix that need not wait for another one; False where none was made."""
        if self.document.is_data or self.document.root is None:
            return False
        for wanted in self._wanted(unsafe=unsafe):
            if self._accept(together(self.document, wanted)):
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
        yield [each for each in found if _is_textual(each)]
        if self.document.readable():
            yield sorted(found, key=lambda each: SEVERITIES.index(each.severity))

    def _accept(self, taken: list[Taken]) -> list[Taken]:
        """Those of the fixes that hold together; all at once where they do, else found by halves."""
        if not taken or self._holds(taken):
            return taken
        if len(taken) == 1 or self.trials >= _MOST_TRIALS:
            if self.trials < _MOST_TRIALS:
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
        if self.trials >= _MOST_TRIALS:
            return False
        new = _edited(self.document, taken)
        if new is None:
            return False
        self.trials += 1
        report = self.judge(new)
        # What stands behind a mistake in the text is seen only once it is gone.
        if not _is_textual(taken[0].found) and _is_worse(report, self.report):
            return False
        self.made, self.result = taken, (new, report)
        return True


def _name(found: Diagnostic) -> tuple[str, KeyPath, str]:
    return found.code, found.path, found.fix.title if found.fix else ""


def _is_textual(found: Diagnostic) -> bool:
    return found.fix is not None and isinstance(found.fix.operations[0], Replace)


def _is_worse(new: Report, old: Report) -> bool:
    """Whether a rule speaks more often: a renamed section takes its findings along, so paths do not count.

    Where not all is listed, what a fix makes room for is no news: only the number of errors counts.
    """
    if old.cut:
        return _errors(new) > _errors(old)
    return bool(_spoken(new) - _spoken(old))


def _spoken(report: Report) -> Counter[str]:
    return Counter(found.code for found in (*report.diagnostics, *report.suppressed))


def _errors(report: Report) -> int:
    return sum(found.severity == "error" for found in (*report.diagnostics, *report.suppressed))


def _edited(document: Document, taken: list[Taken]) -> Document | None:
    """The document with the fixes in it, where it holds what they make of its value."""
    try:
        steps = [step for each in taken for step in each.fix.operations]
        value: Json = carried_out(document.value(), steps)
    except (KeyError, IndexError, TypeError, AttributeError):
        return None
    new = again(document, apply(document.text, [edit for each in taken for edit in each.edits]))
    if document.readable() and not new.readable():
        return None
    # A text past help grows comma by comma.
    if _is_textual(taken[0].found) and len(new.problems) >= len(document.problems):
        return None
    return new if same(new.value(), value) else None
