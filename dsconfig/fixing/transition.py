"""From one release to another: what stops the later one, with what the way there does about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.checking.check import check_document
from dsconfig.checking.report import Report
from dsconfig.diagnostic import Diagnostic, Effect
from dsconfig.document import Document
from dsconfig.evaluation.context import Context, Source
from dsconfig.fixing.meaning import Meaning
from dsconfig.releases import NUMBERS, Target

if TYPE_CHECKING:
    from dsconfig.json_types import KeyPath


@dataclass(frozen=True, slots=True)
class Transition:
    """The way of a config to a later release; `origin` is None where no earlier release takes it."""

    origin: str | None
    to: str
    world_size: int | None
    consumer: str

    def report(self, document: Document, release: str) -> Report:
        """What `check` says at this release."""
        target = Target((release,), release, "argument")
        return check_document(document, target, world_size=self.world_size, consumer=self.consumer)

    def context(self, document: Document, release: str) -> Context:
        """The document in the eyes of this release."""
        return Context(Source(document, self.consumer, self.world_size), NUMBERS[release])

    def judge(self, document: Document) -> Report:
        """What stops the later release, or is new in it, each finding with what the way does about it."""
        report = self.report(document, self.to)
        if self.origin is None:
            return report
        known = {
            _identity(found)
            for found in self.report(document, self.origin)
            if found.effect is not Effect.DEPRECATED
        }
        meant = Meaning(self.context(document, self.origin))
        new = self.context(document, self.to)
        found = [
            each._replace(fix=meant.fix(each) or each.fix)
            for each in report.diagnostics
            if _identity(each) not in known or each.severity == "error" or meant.differs(each, new)
        ]
        return report.replaced(diagnostics=tuple(found))


def _identity(found: Diagnostic) -> tuple[str, KeyPath, str]:
    return found.code, found.path, found.effect.value
