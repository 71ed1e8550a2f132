"""From one release to another: what must change on the way, and what the way does about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dsconfig.check.check import check_document
from dsconfig.check.report import Report
from dsconfig.core.diagnostic import Diagnostic, Effect, Fix, Remove
from dsconfig.core.releases import NUMBERS, Target
from dsconfig.document import Document
from dsconfig.document.edit import same
from dsconfig.evaluation.context import Context, Source
from dsconfig.fix.elasticity_handover import Handover
from dsconfig.fix.release_semantics import Meaning, readings

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath

REMOVED_KEY = "DSC104"
"""The rule of keys that earlier releases read: its fixes say the same as today's keys do, or only remove."""


@dataclass(slots=True)
class Transition:
    """The way of a config from the release that it was written for to a later one."""

    document: Document
    origin: str
    to: str
    world_size: int | None
    consumer: str
    handover: Handover | None = None
    meant: Meaning = field(init=False)
    """What the file means to the release that it was written for."""
    offered: dict[tuple[str, KeyPath], Fix] = field(default_factory=dict)
    """What `check` offers for findings that the way deals with otherwise."""
    reports: dict[tuple[str, str], Report] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.meant = Meaning(self.context(self.document, self.origin))

    def report(self, document: Document, release: str) -> Report:
        """What `check` says at this release; several parts of a migration ask it of the same text."""
        key = (document.text, release)
        if key not in self.reports:
            target = Target((release,), release, "argument")
            report = check_document(document, target, world_size=self.world_size, consumer=self.consumer)
            self.reports[key] = report
        return self.reports[key]

    def context(self, document: Document, release: str) -> Context:
        """The document in the eyes of this release."""
        return Context(Source(document, self.consumer, self.world_size), NUMBERS[release])

    def judge(self, document: Document) -> Report:
        """What must change, each finding with what the way does about it, if it knows.

        An `elasticity` block that is handed over is looked past.
        """
        if self.handover is not None:
            document = self.handover.looked_past(document)
        report = self.report(document, self.to)
        silenced = [found for found in report.suppressed if found.severity == "error"]
        context = self.context(document, self.to)
        gone: set[KeyPath] = set()
        must = (self._must(found, context, gone) for found in (*report.diagnostics, *silenced))
        return report.replaced(diagnostics=tuple(each for each in must if each), suppressed=())

    def _must(self, found: Diagnostic, new: Context, gone: set[KeyPath]) -> Diagnostic | None:
        """The finding with its remedy; None where the file may stay as it is."""
        if found.severity == "error":
            return found._replace(fix=self._remedy(found, new, gone))
        if found.code == REMOVED_KEY and found.fix is not None:
            read = self.meant.ignored(found.path) is None
            return found if read and not only_removes(found) else None
        if found.effect is Effect.ALTERED and found.path in self.meant.read:
            later = new.once(readings).get(found.path)
            if not same(later, self.meant.read[found.path]):
                return found._replace(fix=self.meant.fix(found, new.data, gone))
        return None

    def _remedy(self, found: Diagnostic, new: Context, gone: set[KeyPath]) -> Fix | None:
        """What keeps the meaning; else, of a key that the release has no place for, taking it out."""
        kept = self.meant.fix(found, new.data, gone)
        if kept is not None:
            if found.fix is not None:
                self.offered[found.code, found.path] = found.fix
            return kept
        if found.fix is not None and (found.fix.safe or found.code == REMOVED_KEY):
            return found.fix
        if found.code == REMOVED_KEY:
            return Fix(f"remove `{found.path[-1]}`", (Remove(found.path),))
        return None


def only_removes(found: Diagnostic) -> bool:
    """Whether the finding's fix only takes something out."""
    return found.fix is not None and all(isinstance(step, Remove) for step in found.fix.operations)
