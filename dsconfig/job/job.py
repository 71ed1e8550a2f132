"""`Job`: what is known about the run of a config, where it comes from, and which source takes precedence."""

from __future__ import annotations

from dsconfig.core.batch_triplet import NONE
from dsconfig.core.json_types import NamedTuple
from dsconfig.job.detect_consumer import ConsumerEvidence, Origin
from dsconfig.job.job_facts import NamedModel, RunFacts

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Any, Generic, TypeVar

    from dsconfig.core.batch_triplet import Parallelism
    from dsconfig.core.releases import ReleaseTarget
    from dsconfig.job.detect_consumer import LaunchArguments

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
else:
    T_co, Generic = "T_co", {"T_co": object}  # at run time, `JobFact` is not generic


# `dsconfig.job.job.merge_jobs` decides which source wins; `dsconfig.check.build_job` collects the facts.


class JobFact(Generic[T_co]):
    """A fact about a job, with its origin and source, such as `--world-size` or `run.sh:12`."""

    __slots__ = ("origin", "source", "value")

    def __init__(self, value: T_co, origin: Origin, source: str) -> None:
        self.value, self.origin, self.source = value, origin, source

    def __repr__(self) -> str:
        return f"Fact({self.value!r}, {self.origin!r}, {self.source!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, JobFact):
            return NotImplemented
        return (self.value, self.origin, self.source) == (other.value, other.origin, other.source)

    def __hash__(self) -> int:  # the value may contain a mapping, which is not hashable
        return hash((self.origin, self.source))


class DetectedConsumer(NamedTuple):
    """The library that loads a config and passes it to DeepSpeed."""

    name: str
    version: str | None = None
    """Version of the consumer, if it fills other keys than the newest version."""
    likely: bool = False
    """Whether other consumers are possible, although less likely."""
    others: tuple[str, ...] = ()
    """Other possible consumers; a problem for this consumer alone is then not reported as an error."""


class Job(NamedTuple):
    """Facts about the run of a config; a fact that no source states is None, never a guess."""

    target: JobFact[ReleaseTarget] | None = None
    """DeepSpeed releases to check the config for."""
    consumer: JobFact[DetectedConsumer] | None = None
    """Program that reads the config and passes it to DeepSpeed."""
    world_size: JobFact[int] | None = None
    """Number of ranks, one per GPU."""
    arguments: JobFact[LaunchArguments] | None = None
    """Training arguments of the consumer."""
    model: JobFact[NamedModel] | None = None
    host_memory: JobFact[int] | None = None
    """CPU memory of a node, in bytes."""
    gpus_per_node: JobFact[int] | None = None
    """Ranks per node."""
    parallelism: JobFact[Parallelism] | None = None
    """Degrees of parallelism other than data parallelism."""
    launch: JobFact[str] | None = None
    """Launch file that the user selected, if several start a job with the config."""
    launched_by: JobFact[str] | None = None
    """Scripts and launch files that start a job with the config, as shown in messages."""
    program: JobFact[str] | None = None
    """Program of the launch file, which may change the model in code."""
    adapters: JobFact[bool] | None = None
    """Whether the job trains adapters or parts of the model and freezes the rest."""
    uses_trainer: JobFact[bool] | None = None
    """Whether the program trains with a Transformers Trainer."""
    program_files: JobFact[tuple[str, ...]] | None = None
    """Paths of the Python programs that pass the config to its consumer."""
    loads_whole: JobFact[bool] | None = None
    """Whether `zero3_init_flag` of Accelerate is off, so that no model is partitioned while it is loaded."""

    @property
    def releases(self) -> ReleaseTarget:
        """The releases against which to check the config, known in every complete job."""
        assert self.target is not None
        return self.target.value

    @property
    def ranks(self) -> int | None:
        """The world size, or None if unknown."""
        return self.world_size.value if self.world_size else None

    @property
    def training_arguments(self) -> LaunchArguments | None:
        """The training arguments, or None if unknown."""
        return self.arguments.value if self.arguments else None

    @property
    def run_facts(self) -> RunFacts:
        """The model, hosts, program and parallelism."""
        return RunFacts(
            self.model.value if self.model else None,
            self.host_memory.value if self.host_memory else None,
            self.gpus_per_node.value if self.gpus_per_node else None,
            self.program.value if self.program else None,
            self.adapters is not None and self.adapters.value,
            self.parallelism.value if self.parallelism else NONE,
            self.uses_trainer is not None and self.uses_trainer.value,
            self.program_files.value if self.program_files else (),
            self.loads_whole is not None and self.loads_whole.value,
        )

    @property
    def reader(self) -> ConsumerEvidence:
        """The consumer and the evidence for it, as shown in reports."""
        assert self.consumer is not None
        consumer, size = self.consumer.value, self.world_size
        launched = size is not None and size.origin in ("launch file", "script")
        return ConsumerEvidence(
            consumer.name,
            self.consumer.source,
            self.consumer.origin,
            consumer.likely,
            self.training_arguments,
            self.ranks if launched else None,
            consumer.version,
            self.launched_by.value if self.launched_by else "",
            self.run_facts,
            consumer.others,
        )


EMPTY_JOB = Job()


def job_from_facts(facts: RunFacts, origin: Origin, source: str) -> Job:
    """Convert facts about model, hosts and parallelism from one source to a job."""
    model = facts.model
    return Job(
        model=model and JobFact(model, model.origin, model.why),
        host_memory=_make_fact(facts.host_memory, origin, source),
        gpus_per_node=_make_fact(facts.gpus_per_node, origin, source),
        parallelism=JobFact(facts.parallelism, origin, source) if facts.parallelism.degrees else None,
        program=_make_fact(facts.program, origin, source),
        adapters=JobFact(True, origin, source) if facts.adapters else None,
        uses_trainer=JobFact(True, origin, source) if facts.uses_trainer else None,
        program_files=_make_fact(facts.program_files, origin, source),
        loads_whole=JobFact(True, origin, source) if facts.loads_whole else None,
    )


def _make_fact(value: T | None, origin: Origin, source: str) -> JobFact[T] | None:
    return JobFact(value, origin, source) if value else None


def job_from_consumer(reader: ConsumerEvidence, origin: Origin = "script") -> Job:
    """Convert a detected consumer, with its job's arguments and world size, to a job."""
    launch = reader.launch
    return job_from_facts(reader.facts, origin, launch)._replace(
        consumer=JobFact(
            DetectedConsumer(reader.name, reader.version, reader.likely, reader.others),
            reader.origin,
            reader.why,
        ),
        world_size=None if reader.processes is None else JobFact(reader.processes, origin, launch),
        arguments=None
        if reader.training_arguments is None
        else JobFact(reader.training_arguments, origin, launch),
        launched_by=JobFact(launch, origin, launch) if launch else None,
    )


# Precedence of sources, for every command and function. A layer holds the facts of one source: arguments of
# the command or function, the environment, the config's own block `"$dsconfig"`, settings, a launch file, the
# repository.


def merge_jobs(*layers: Job) -> Job:
    """Merge several layers of facts into one job; each fact comes from the first layer that has it.

    The order is: arguments, environment, the config's own `"$dsconfig"` block, settings, launch file, repository, and
    the content of the config.
    """
    merged: list[Any] = list(EMPTY_JOB)
    for each in layers:
        for index, fact in enumerate(each):
            if merged[index] is None:
                merged[index] = fact
    return Job(*merged)
