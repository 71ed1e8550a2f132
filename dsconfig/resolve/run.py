"""`Run`: a config at one world size in one release, with the target it is resolved for, and as text."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.consumers.autofill import Filled, Message, Mismatch
from dsconfig.core.batch_triplet import NONE, Degree, Parallelism
from dsconfig.core.releases import NUMBERS, Target
from dsconfig.job.job import Job
from dsconfig.render.terminal import printable
from dsconfig.resolve.errors import UnknownWorldSizeError

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.json_types import Json, JsonObject
    from dsconfig.render.terminal import Style


# `Run`: what a config comes to at one world size, in one release, and what was done to it on the way.


@dataclass(frozen=True, slots=True)
class Run:
    """A config resolved. The triplet is what DeepSpeed derives; `config` is what the release runs with."""

    train_batch_size: Json
    train_micro_batch_size_per_gpu: Json
    gradient_accumulation_steps: Json
    config: JsonObject
    release: str
    consumer: str
    world_size: int
    """Ranks, one a GPU."""
    data_parallel_size: int | float
    """Ranks that get samples of their own; a fraction where `sequence_parallel_size` does not divide."""
    messages: tuple[Message, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    filled: tuple[Filled, ...] = ()
    unknown: frozenset[str] = frozenset()
    """Keys that stay "auto" here alone: what the reader fills them with is not known."""
    elastic: bool = False
    """Whether the batch is the elastic solver's."""

    @property
    def triplet(self) -> tuple[Json, Json, Json]:
        """Batch, micro batch, accumulation steps."""
        return (self.train_batch_size, self.train_micro_batch_size_per_gpu, self.gradient_accumulation_steps)

    def check(self) -> Report:
        """What `dsconfig.check` says of the resolved config, at this world size."""
        from dsconfig import check

        divided = self.data_parallel_size == self.world_size or "sequence_parallel_size" in self.config
        size = self.world_size if divided else int(self.data_parallel_size)
        return check(self.config, target=self.release, world_size=size, consumer="deepspeed")


# What a config is resolved for: a release, a consumer, a number of ranks and how they share the model.

WORLD_SIZE = "WORLD_SIZE"
_KINDS = {"tp": "tensor", "pp": "pipeline", "sp": "sequence"}
_SAME = {"tensor": ("model",), "pipeline": ("model",), "sequence": ("context",)}
"""What programs also call these."""


@dataclass(frozen=True, slots=True)
class Parallel:
    """Degrees of parallelism that are asked for: ranks that share one copy of the model, or an expert.

    None: nobody asks; it is as the launch file of the job says, else 1.
    """

    tp: int | None = None
    pp: int | None = None
    sp: int | None = None
    ep: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{field.name} {value!r}: expected an integer of at least 1")

    def over(self, launch_world_size: Parallelism) -> Parallelism:
        """The degrees that are asked for, and the others as a launch file has them."""
        asked = [
            Degree(kind, size, name, is_asked=True)
            for name, kind in _KINDS.items()
            if (size := getattr(self, name)) is not None
        ]
        kinds = {other for degree in asked for other in (degree.kind, *_SAME.get(degree.kind, ()))}
        return Parallelism((*asked, *(each for each in launch_world_size.degrees if each.kind not in kinds)))


class LaunchWorldSize(NamedTuple):
    """The world size of a launch file, or of the config's own block, and what says so, in words."""

    ranks: int | None
    """None: only a run shows it."""
    source: str
    """`that of run.sh`; of a size that is not known, what leaves it to the run."""
    gpus_per_node: int | None = None
    """The ranks of a node, where the number of nodes alone is left to the run."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The circumstances of one run, and messages about how they were found out."""

    release: str
    consumer: str
    ranks: int
    requested: Parallel
    parallelism: Parallelism = NONE
    """What is asked for, over what the launch file of the job has."""
    messages: tuple[Message, ...] = ()

    @property
    def number(self) -> int:
        """The release as a number, see `releases.NUMBERS`."""
        return NUMBERS[self.release]


def runtime(
    job: Job,
    degrees: tuple[int | None, int | None, int | None, int | None],
    launch_world_size: LaunchWorldSize | None,
) -> Runtime:
    """The circumstances of the run of a job; `degrees` are tp, pp, sp and ep.

    `launched` is the world size where nobody asks for one, and what tells it.

    Raises:
        UnknownWorldSizeError: nothing says how many ranks there are.
        ValueError: an argument is impossible, or the environment's `WORLD_SIZE` is.
    """
    parallel = Parallel(*degrees)
    messages: list[Message] = []
    ranks, release = _ranks(job, launch_world_size, messages), _release(job.releases, messages)
    return Runtime(release, job.reader.spec, ranks, parallel, parallel.over(NONE), tuple(messages))


def _ranks(job: Job, launch_world_size: LaunchWorldSize | None, messages: list[Message]) -> int:
    if job.world_size is not None and job.world_size.origin == "argument":
        return job.world_size.value
    text = os.environ.get(WORLD_SIZE)
    if text is None and launch_world_size is not None and launch_world_size.ranks is not None:
        messages.append(
            Message("note", f"world size {launch_world_size.ranks} is {launch_world_size.source}")
        )
        return launch_world_size.ranks
    if text is None:
        raise UnknownWorldSizeError("" if launch_world_size is None else launch_world_size.source)
    if not text.isdecimal() or len(text) > 9 or int(text) < 1:
        raise ValueError(f"the environment's {WORLD_SIZE} is {text!r}: expected an integer of at least 1")
    messages.append(Message("environment", f"world size {text} is the environment's {WORLD_SIZE}"))
    return int(text)


def _release(chosen: Target, messages: list[Message]) -> str:
    if chosen.note:
        messages.append(Message("note", chosen.note))
    if len(chosen.releases) > 1:
        text = f"of the releases {chosen.text} the newest, {chosen.releases[-1]}, is resolved for"
        messages.append(Message("note", text))
    return chosen.releases[-1]


# A resolved run for people: the batch with its arithmetic, and what was done to the config.

_TONES = {"refused": "error", "unfilled": "warning", "overridden": "warning", "removed": "warning"}


def run_lines(run: Run, style: Style) -> Iterator[str]:
    """The lines of it, each with its end."""
    batch, micro, steps = run.triplet
    ranks = f"{run.data_parallel_size:g} ranks"
    if run.data_parallel_size != run.world_size:
        ranks = f"{run.data_parallel_size:g} data-parallel of {run.world_size} ranks"
    head = f"{batch} samples a step = {micro} (micro batch) × {steps} (accumulation steps) × {ranks}"
    yield f"{style.paint(head, 'bold')}, DeepSpeed {run.release}\n"
    for filled in run.filled:
        yield f"{style.paint('filled', 'good')}: `{filled.key}` = {filled.value!r} from {filled.origin}\n"
    for mismatch in run.mismatches:
        yield f"{style.paint('mismatch', 'error')}: {printable(str(mismatch))}\n"
    for message in run.messages:
        yield f"{style.paint(message.kind, _TONES.get(message.kind, 'info'))}: {printable(message.text)}\n"
