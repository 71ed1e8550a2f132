"""Summary of a job, and protocols for a report and its parts, so that renderers do not depend on the checker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from dsconfig.core.json_types import NamedTuple

if TYPE_CHECKING:
    from dsconfig.core.diagnostic import Diagnostic, Effect


class JobSummary(NamedTuple):
    """Summary of a job whose config was found through a launch file or script."""

    location: str
    """File and line that start the job: `run.sh:12`."""
    consumer: str
    """Program and library that load the config, in words: `LLaMA-Factory, Trainer`."""
    config: str
    """Path of the config, or location of the call that receives the config from its program: `main.py:12`.

    Empty if the launch file contains the config, or if there is no config.
    """
    world_size: int | None
    batch: tuple[int, int, int] | None
    """`train_batch_size`, micro batch and accumulation steps, or None if they are unknown or impossible."""
    data_parallel_size: float | None
    formula: str
    """The batch size as a formula, if only the number of GPUs is unknown: `train_batch_size = 2 × 4 × GPUs`."""
    unknown: str
    """Why the world size or the batch is known only at run time, as a clause; empty if both are known."""
    why_not_checked: str
    """Why the config of the job is not checked, as a clause; empty if the config is checked."""
    notes: tuple[str, ...]
    """Notes of the report that this summary replaces."""
    counts: Mapping[str, int]
    """Number of diagnostics of the job by severity, including those that an earlier job has too."""


class SourceText(Protocol):
    """The part of a document that renderers need."""

    @property
    def text(self) -> str:
        """Source text of the document, or an empty string."""


class CheckedReleases(Protocol):
    """The part of a release target that renderers need."""

    @property
    def text(self) -> str:
        """The releases as written by the user."""

    @property
    def releases(self) -> Sequence[str]:
        """Names of the checked releases, oldest first."""

    @property
    def origin(self) -> str:
        """How the releases were chosen, as in `dsconfig.core.releases.Origin`."""

    @property
    def source(self) -> str:
        """File that pins the releases; empty for other origins."""


class DetectedConsumer(Protocol):
    """The part of a config's consumer that renderers need."""

    @property
    def name(self) -> str:
        """Name of the consumer."""

    @property
    def why(self) -> str:
        """Evidence for the consumer, as a clause."""

    @property
    def origin(self) -> str:
        """Kind of evidence, as in `dsconfig.job.detect_consumer.Origin`."""

    @property
    def likely(self) -> bool:
        """Whether other consumers are possible."""


class RulePage(Protocol):
    """The part of a rule that renderers need."""

    @property
    def title(self) -> str:
        """One-line summary of the rule."""

    @property
    def doc(self) -> str:
        """Documentation of the rule in Markdown."""

    @property
    def effect(self) -> Effect:
        """Default effect of the rule's diagnostics."""


class FileReport(Protocol):
    """The part of a file's report that renderers need."""

    @property
    def summary(self) -> JobSummary | None:
        """Summary of the job that loads the config, or None for a config without a job."""

    @property
    def name(self) -> str:
        """Path of the file, or a name in angle brackets."""

    @property
    def target(self) -> CheckedReleases:
        """Releases that were checked."""

    @property
    def reader(self) -> DetectedConsumer:
        """Consumer of the config."""

    @property
    def why_not_config(self) -> str | None:
        """Reason why the file is not a DeepSpeed config, or None for a config."""

    @property
    def read_error(self) -> str | None:
        """Reason why the file could not be read, or None."""

    @property
    def diagnostics(self) -> Sequence[Diagnostic]:
        """Diagnostics of the file, ordered by location."""

    @property
    def document(self) -> SourceText | None:
        """The checked document, or None."""

    def edits(self, diagnostic: Diagnostic) -> Sequence[tuple[int, int, str]]:
        """Return the edits of a diagnostic's fix as start, end and replacement text."""

    def rule(self, code: str) -> RulePage | None:
        """Return the rule with this code, or None."""
