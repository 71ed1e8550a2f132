"""Protocols of a report and its parts, so that renderers depend on them and not on the checker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Diagnostic, Effect
    from dsconfig.core.job_summary import JobSummary


class SourceText(Protocol):
    """A document, as far as renderers need it."""

    @property
    def text(self) -> str:
        """Source text of the document; empty if there is none."""


class CheckedReleases(Protocol):
    """The releases that a config was checked for, as far as renderers need them."""

    @property
    def text(self) -> str:
        """Releases as the user wrote them."""

    @property
    def releases(self) -> Sequence[str]:
        """Names of the checked releases, oldest first."""

    @property
    def origin(self) -> str:
        """How the releases were chosen: a word of `dsconfig.core.releases.Origin`."""

    @property
    def source(self) -> str:
        """File that pins the releases; empty for any other origin."""


class DetectedConsumer(Protocol):
    """The consumer of a config and the evidence for it, as far as renderers need them."""

    @property
    def name(self) -> str:
        """Name of the consumer."""

    @property
    def why(self) -> str:
        """Evidence for the consumer, as a clause."""

    @property
    def origin(self) -> str:
        """Kind of the evidence: a word of `dsconfig.job.detect_consumer.Origin`."""

    @property
    def likely(self) -> bool:
        """Whether other consumers are possible."""


class RulePage(Protocol):
    """A rule, as far as renderers need it."""

    @property
    def title(self) -> str:
        """Summary of the rule in one line."""

    @property
    def doc(self) -> str:
        """Documentation page of the rule in Markdown."""

    @property
    def effect(self) -> Effect:
        """Default effect of the rule's diagnostics."""


class FileReport(Protocol):
    """The report on one file, as far as renderers need it."""

    @property
    def summary(self) -> JobSummary | None:
        """Summary of the job that loads the config; None for a config that is checked alone."""

    @property
    def name(self) -> str:
        """Path of the file, or a name in angle brackets."""

    @property
    def target(self) -> CheckedReleases:
        """Checked releases."""

    @property
    def reader(self) -> DetectedConsumer:
        """Consumer of the config."""

    @property
    def why_not_config(self) -> str | None:
        """Why the file is not a DeepSpeed config; None for a config."""

    @property
    def read_error(self) -> str | None:
        """Why the file could not be read; None if it was read."""

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """Diagnostics of the file in the order of their locations."""

    @property
    def document(self) -> SourceText | None:
        """Document that was checked; None if there is none."""

    def edits(self, diagnostic: Diagnostic) -> Sequence[tuple[int, int, str]]:
        """Return the edits of the diagnostic's fix, each with start, end and replacement text."""

    def rule(self, code: str) -> RulePage | None:
        """Return the rule with this code, if there is one."""
