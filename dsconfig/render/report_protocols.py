"""Protocols of a report and its parts, so that renderers depend on them and not on the checker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Diagnostic, Effect
    from dsconfig.core.job_summary import JobSummary


class SourceText(Protocol):
    """Document, as far as renderers need it."""

    @property
    def text(self) -> str:
        """Source text; empty without one."""


class CheckedReleases(Protocol):
    """Checked releases, as far as renderers need them."""

    @property
    def text(self) -> str:
        """Releases as the user wrote them."""

    @property
    def releases(self) -> Sequence[str]:
        """Releases, oldest first."""

    @property
    def origin(self) -> str:
        """Origin of the choice, a word of `dsconfig.core.releases.Origin`."""

    @property
    def source(self) -> str:
        """File that pins the releases; empty for any other origin."""


class DetectedConsumer(Protocol):
    """Consumer of a config with the evidence for it, as far as renderers need them."""

    @property
    def name(self) -> str:
        """Consumer."""

    @property
    def why(self) -> str:
        """Evidence, as a clause."""

    @property
    def origin(self) -> str:
        """Origin of the evidence, a word of `dsconfig.job.detect_consumer.Origin`."""

    @property
    def likely(self) -> bool:
        """Whether other consumers are possible."""


class RulePage(Protocol):
    """Rule, as far as renderers need it."""

    @property
    def title(self) -> str:
        """Summary in one line."""

    @property
    def doc(self) -> str:
        """Page of the rule in Markdown."""

    @property
    def effect(self) -> Effect:
        """Default effect of its diagnostics."""


class FileReport(Protocol):
    """Result for one file, as far as renderers need it."""

    @property
    def summary(self) -> JobSummary | None:
        """Job that was followed; None for a config that is checked alone."""

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
        """Why the file is not a DeepSpeed config; None if it is one."""

    @property
    def read_error(self) -> str | None:
        """Why the file could not be read; None if it was."""

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """Diagnostics in the order of their locations."""

    @property
    def document(self) -> SourceText | None:
        """Source document, if there is one."""

    def edits(self, diagnostic: Diagnostic) -> Sequence[tuple[int, int, str]]:
        """Edits of the diagnostic's fix: start, end and replacement text."""

    def rule(self, code: str) -> RulePage | None:
        """Rule of a code."""
