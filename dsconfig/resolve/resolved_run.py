"""`ResolvedRun`: a config resolved for one world size and release, with its text output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.core.batch_triplet import NONE, ParallelDegree, Parallelism
from dsconfig.core.releases import NUMBERS, ReleaseTarget
from dsconfig.job.consumers.autofill import ArgumentMismatch, AutofillMessage, FilledValue
from dsconfig.job.job import Job
from dsconfig.render.terminal_style import escape_unprintable
from dsconfig.resolve.errors import UnknownWorldSizeError

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.render.terminal_style import TerminalStyle


# `ResolvedRun`.


@dataclass(frozen=True, slots=True)
class ResolvedRun:
    """A resolved config: the triplet that DeepSpeed derives, and the config with which the release runs."""

    train_batch_size: Json
    train_micro_batch_size_per_gpu: Json
    gradient_accumulation_steps: Json
    config: JsonObject
    release: str
    consumer: str
    world_size: int
    """Number of ranks, one per GPU."""
    data_parallel_size: int | float
    """Number of data-parallel ranks; a fraction if `sequence_parallel_size` does not divide the world size."""
    messages: tuple[AutofillMessage, ...] = ()
    mismatches: tuple[ArgumentMismatch, ...] = ()
    filled: tuple[FilledValue, ...] = ()
    unknown: frozenset[str] = frozenset()
    """Keys that stay "auto" because the consumer's argument is not known."""
    elastic: bool = False
    """Whether the elastic solver chose the batch."""

    @property
    def triplet(self) -> tuple[Json, Json, Json]:
        """Batch size, micro batch size, and accumulation steps."""
        return (self.train_batch_size, self.train_micro_batch_size_per_gpu, self.gradient_accumulation_steps)

    def check(self) -> Report:
        """Check the resolved config at this world size (`dsconfig.check`)."""
        from dsconfig import check

        counts_all_ranks = (
            self.data_parallel_size == self.world_size or "sequence_parallel_size" in self.config
        )
        size = self.world_size if counts_all_ranks else int(self.data_parallel_size)
        return check(self.config, target=self.release, world_size=size, consumer="deepspeed")


# Target of a resolution: release, consumer, ranks and parallelism.

WORLD_SIZE = "WORLD_SIZE"
_KINDS = {"tp": "tensor", "pp": "pipeline", "sp": "sequence"}
_SAME = {"tensor": ("model",), "pipeline": ("model",), "sequence": ("context",)}
"""Other names that programs use for the kinds of parallelism."""


@dataclass(frozen=True, slots=True)
class ParallelDegrees:
    """Requested degrees of parallelism; None stands for the launch file's degree, or 1 if it sets none."""

    tp: int | None = None
    pp: int | None = None
    sp: int | None = None
    ep: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{field.name} {value!r}: expected a positive integer")

    def over(self, launch_world_size: Parallelism) -> Parallelism:
        """Merge these degrees with those of a launch file; the requested ones take precedence."""
        requested = [
            ParallelDegree(kind, size, name, is_asked=True)
            for name, kind in _KINDS.items()
            if (size := getattr(self, name)) is not None
        ]
        kinds = {other for degree in requested for other in (degree.kind, *_SAME.get(degree.kind, ()))}
        return Parallelism(
            (*requested, *(each for each in launch_world_size.degrees if each.kind not in kinds))
        )


class LaunchWorldSize(NamedTuple):
    """The world size that a launch file or the config's `"$dsconfig"` block sets, and its source."""

    ranks: int | None
    """Number of ranks; None if it is known only when the job runs."""
    source: str
    """Source of the size, such as `that of run.sh`; for an unknown size, what leaves it to the run."""
    gpus_per_node: int | None = None
    """Ranks per node, if only the number of nodes is unknown."""


@dataclass(frozen=True, slots=True)
class ResolutionTarget:
    """The setting in which a config is resolved: release, consumer, ranks and parallelism, with notes."""

    release: str
    consumer: str
    ranks: int
    requested: ParallelDegrees
    parallelism: Parallelism = NONE
    """Requested degrees of parallelism, merged with those of the launch file."""
    messages: tuple[AutofillMessage, ...] = ()

    @property
    def number(self) -> int:
        """The release's index; see `releases.NUMBERS`."""
        return NUMBERS[self.release]


def resolution_target(
    job: Job,
    degrees: tuple[int | None, int | None, int | None, int | None],
    launch_world_size: LaunchWorldSize | None,
) -> ResolutionTarget:
    """Return the target for a job; `degrees` are tp, pp, sp and ep.

    `launch_world_size` is the world size of the launch file, which is used if none is requested.

    Raises:
        UnknownWorldSizeError: the world size is unknown.
        ValueError: an argument, or `WORLD_SIZE` in the environment, is invalid.
    """
    parallel = ParallelDegrees(*degrees)
    messages: list[AutofillMessage] = []
    ranks, release = (
        _number_of_ranks(job, launch_world_size, messages),
        _single_release(job.releases, messages),
    )
    return ResolutionTarget(
        release, job.reader.consumer_spec, ranks, parallel, parallel.over(NONE), tuple(messages)
    )


def _number_of_ranks(
    job: Job, launch_world_size: LaunchWorldSize | None, messages: list[AutofillMessage]
) -> int:
    if job.world_size is not None and job.world_size.origin == "argument":
        return job.world_size.value
    text = os.environ.get(WORLD_SIZE)
    if text is None and launch_world_size is not None and launch_world_size.ranks is not None:
        messages.append(
            AutofillMessage("note", f"world size {launch_world_size.ranks} is {launch_world_size.source}")
        )
        return launch_world_size.ranks
    if text is None:
        raise UnknownWorldSizeError("" if launch_world_size is None else launch_world_size.source)
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise ValueError(f"the environment's {WORLD_SIZE} is {text!r}: expected a positive integer")
    messages.append(AutofillMessage("environment", f"world size {text} is the environment's {WORLD_SIZE}"))
    return int(text)


def _single_release(target: ReleaseTarget, messages: list[AutofillMessage]) -> str:
    if target.note:
        messages.append(AutofillMessage("note", target.note))
    if len(target.releases) > 1:
        text = f"resolved for {target.releases[-1]}, the newest release of {target.text}"
        messages.append(AutofillMessage("note", text))
    return target.releases[-1]


# Text output.

_TONES = {"refused": "error", "unfilled": "warning", "overridden": "warning", "removed": "warning"}


def run_lines(run: ResolvedRun, style: TerminalStyle) -> Iterator[str]:
    """Yield the lines of the text output, with line endings."""
    batch, micro, steps = run.triplet
    ranks = f"{run.data_parallel_size:g} ranks"
    if run.data_parallel_size != run.world_size:
        ranks = f"{run.data_parallel_size:g} data-parallel of {run.world_size} ranks"
    summary = f"{batch} samples a step = {micro} (micro batch) × {steps} (accumulation steps) × {ranks}"
    yield f"{style.paint(summary, 'bold')}, DeepSpeed {run.release}\n"
    for filled in run.filled:
        yield f"{style.paint('filled', 'good')}: `{filled.key}` = {filled.value!r} from {filled.origin}\n"
    for mismatch in run.mismatches:
        yield f"{style.paint('mismatch', 'error')}: {escape_unprintable(str(mismatch))}\n"
    for message in run.messages:
        yield f"{style.paint(message.kind, _TONES.get(message.kind, 'info'))}: {escape_unprintable(message.text)}\n"
