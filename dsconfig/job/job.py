"""`Job`: facts about the run of a config, the source of each, and which source wins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

from dsconfig.core.batch_triplet import NONE
from dsconfig.core.json_types import NamedTuple
from dsconfig.job.detect_consumer import Origin, Reader
from dsconfig.job.run_facts import Known, Model

if TYPE_CHECKING:
    from dsconfig.core.batch_triplet import Parallelism
    from dsconfig.core.releases import Target
    from dsconfig.job.detect_consumer import Given


# What is known about the run of a config: facts, each with the source that tells it.
#
# `dsconfig.job.job.merge` decides which source wins; `dsconfig.check.build_job` collects them.

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Fact(Generic[T_co]):
    """A value, where it comes from, and a source in words: `--world-size`, `run.sh:12`."""

    __slots__ = ("origin", "source", "value")

    def __init__(self, value: T_co, origin: Origin, source: str) -> None:
        self.value, self.origin, self.source = value, origin, source

    def __repr__(self) -> str:
        return f"Fact({self.value!r}, {self.origin!r}, {self.source!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fact):
            return NotImplemented
        return (self.value, self.origin, self.source) == (other.value, other.origin, other.source)

    def __hash__(self) -> int:  # a mapping among the values has none
        return hash((self.origin, self.source))


class Consumer(NamedTuple):
    """Who reads a config before DeepSpeed does."""

    name: str
    version: str | None = None
    """The version, where it does not do all that the newest one does."""
    likely: bool = False
    """Whether the content fits this consumer better than the others, and does not rule them out."""
    others: tuple[str, ...] = ()
    """Who else may read it: what is an error for this consumer alone is none that is known."""


class Job(NamedTuple):
    """What is known about the run of a config. None: nothing tells it, and nothing is made up for it."""

    target: Fact[Target] | None = None
    """The DeepSpeed releases that read the config."""
    consumer: Fact[Consumer] | None = None
    """Who reads the config before DeepSpeed does."""
    world_size: Fact[int] | None = None
    """Ranks, one a GPU."""
    arguments: Fact[Given] | None = None
    """The training arguments that the consumer is started with."""
    model: Fact[Model] | None = None
    host_memory: Fact[int] | None = None
    """Bytes that a host has."""
    gpus_per_node: Fact[int] | None = None
    """Ranks that share a host."""
    parallelism: Fact[Parallelism] | None = None
    """Degrees of parallelism beside data parallelism."""
    launch: Fact[str] | None = None
    """The launch file whose arguments count, where several start a job with the config."""
    launched_by: Fact[str] | None = None
    """The scripts and launch files that start the job with the config, in words."""
    program: Fact[str] | None = None
    """The program of the launch file, which may do things to the model of its own accord."""
    adapters: Fact[bool] | None = None
    """Whether the job trains adapters, or parts of the model, and leaves the rest."""

    @property
    def releases(self) -> Target:
        """The releases of the target, which every job that is built has."""
        assert self.target is not None
        return self.target.value

    @property
    def ranks(self) -> int | None:
        """The world size; None where nothing tells it."""
        return self.world_size.value if self.world_size else None

    @property
    def given(self) -> Given | None:
        """The training arguments; None where nothing tells them."""
        return self.arguments.value if self.arguments else None

    @property
    def known(self) -> Known:
        """The model, the hosts and what else is known of the run beside config and arguments."""
        return Known(
            self.model.value if self.model else None,
            self.host_memory.value if self.host_memory else None,
            self.gpus_per_node.value if self.gpus_per_node else None,
            self.program.value if self.program else None,
            self.adapters is not None and self.adapters.value,
            self.parallelism.value if self.parallelism else NONE,
        )

    @property
    def reader(self) -> Reader:
        """Who reads the config, with what that is known by, as reports show it."""
        assert self.consumer is not None
        consumer, size = self.consumer.value, self.world_size
        launched = size is not None and size.origin in ("launch file", "script")
        return Reader(
            consumer.name,
            self.consumer.source,
            self.consumer.origin,
            consumer.likely,
            self.given,
            self.ranks if launched else None,
            consumer.version,
            self.launched_by.value if self.launched_by else "",
            self.known,
            consumer.others,
        )


NOTHING = Job()


def layer(known: Known, origin: Origin, source: str) -> Job:
    """The facts of what one source tells of the model, the hosts and the parallelism."""
    model = known.model
    return Job(
        model=model and Fact(model, model.origin, model.why),
        host_memory=_fact(known.host_memory, origin, source),
        gpus_per_node=_fact(known.gpus_per_node, origin, source),
        parallelism=Fact(known.parallelism, origin, source) if known.parallelism.degrees else None,
        program=_fact(known.program, origin, source),
        adapters=Fact(True, origin, source) if known.adapters else None,
    )


def _fact(value: T | None, origin: Origin, source: str) -> Fact[T] | None:
    return Fact(value, origin, source) if value else None


def of_reader(reader: Reader, origin: Origin = "script") -> Job:
    """The facts of a reader that was found out: who it is, and the arguments and the world size of its job."""
    launch = reader.launch
    return layer(reader.known, origin, launch)._replace(
        consumer=Fact(
            Consumer(reader.name, reader.version, reader.likely, reader.others), reader.origin, reader.why
        ),
        world_size=None if reader.processes is None else Fact(reader.processes, origin, launch),
        arguments=None if reader.given is None else Fact(reader.given, origin, launch),
        launched_by=Fact(launch, origin, launch) if launch else None,
    )


# Precedence: which source of a fact about the job wins, for every verb and function.
#
# A layer is what one source tells: the arguments of a command or function, the environment, the config's own block
# `"$dsconfig"`, settings, a launch file, the repository. `merge` takes each fact of the strongest layer that has it.


def merge(*layers: Job) -> Job:
    """Each fact of the first layer that has it; the layers stand in the order of their strength.

    Arguments come before the environment, that before the config's own block, settings, the launch file, the
    repository and what the content of the config suggests.
    """
    facts = list[Any](NOTHING)
    for each in layers:
        for index, fact in enumerate(each):
            if facts[index] is None:
                facts[index] = fact
    return Job(*facts)
