"""Batch arithmetic: derive the batch triplet and the data-parallel size like DeepSpeed."""

from __future__ import annotations

from math import prod

from dsconfig.core.json_types import Json, NamedTuple

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import Literal, TypeAlias

# The batch triplet, derived step by step as DeepSpeed does, from any values.
#
# DeepSpeed calculates before it validates, on the raw values: floats stay floats, true counts as 1, and a
# string raises a TypeError halfway. The same operations run here in the same order, so that the same inputs
# fail. Source: runtime/config.py, DeepSpeedConfig._set_batch_related_parameters and _batch_assertion,
# unchanged in everything that matters from 0.3.1 to 0.19.8.

TRAIN = "train_batch_size"
MICRO = "train_micro_batch_size_per_gpu"
STEPS = "gradient_accumulation_steps"
KEYS = (TRAIN, MICRO, STEPS)
SEQUENCE = "sequence_parallel_size"
SEQUENCE_SINCE = 17000
_DIVISION_RAISES_SINCE = 19003
ABSENT = object()
"""Value of `sequence_parallel_size` if the config does not contain the key, as opposed to null."""

Failure: TypeAlias = "Literal['none-given', 'arithmetic', 'zero-divisor', 'not-positive', 'mismatch']"


class BatchTriplet(NamedTuple):
    """Samples per step on all ranks, samples per forward pass on one rank, and forward passes per step."""

    train_batch_size: Json
    train_micro_batch_size_per_gpu: Json
    gradient_accumulation_steps: Json

    def values_in_key_order(self) -> tuple[Json, Json, Json]:
        """Return the three values in the order of the keys in `KEYS`."""
        return (self.train_batch_size, self.train_micro_batch_size_per_gpu, self.gradient_accumulation_steps)


class ImpossibleTriplet(NamedTuple):
    """The reason why DeepSpeed cannot derive a triplet, and the invalid key if only one is at fault."""

    failure: Failure
    triplet: BatchTriplet
    key: str | None = None


def derive_batch_triplet(
    train: Json, micro: Json, steps: Json, world_size: float
) -> BatchTriplet | ImpossibleTriplet:
    """Return the triplet that DeepSpeed derives; None stands for an absent key or null."""
    given_values = BatchTriplet(train, micro, steps)
    if train is None and micro is None:
        return ImpossibleTriplet("none-given", given_values)
    try:
        triplet = _complete_triplet(train, micro, steps, world_size)
        failure = _check_triplet(triplet, world_size)
    except TypeError:
        return ImpossibleTriplet("arithmetic", given_values, _non_numeric_key(given_values))
    except ZeroDivisionError:
        return ImpossibleTriplet(
            "zero-divisor", given_values, MICRO if micro is not None and not micro else STEPS
        )
    except OverflowError:
        return ImpossibleTriplet("arithmetic", given_values, None)
    return failure or triplet


def _complete_triplet(train: Json, micro: Json, steps: Json, world: float) -> BatchTriplet:
    if train is not None and micro is not None and steps is not None:
        return BatchTriplet(train, micro, steps)
    if train is not None and micro is not None:
        return BatchTriplet(train, micro, train // micro // world)
    if train is not None and steps is not None:
        return BatchTriplet(train, train // world // steps, steps)
    if micro is not None and steps is not None:
        return BatchTriplet(_multiply_sizes(micro, steps, world), micro, steps)
    if train is not None:
        return BatchTriplet(train, train // world, 1)
    return BatchTriplet(_multiply_sizes(micro, world), micro, 1)


def _multiply_sizes(*factors: Json) -> Json:
    """Return the product; raise TypeError for a string or list, which Python would repeat."""
    if not all(isinstance(factor, int | float) for factor in factors):
        raise TypeError
    return prod(factors)


def _check_triplet(triplet: BatchTriplet, world: float) -> ImpossibleTriplet | None:
    for key, value in zip(KEYS, triplet.values_in_key_order(), strict=True):
        if not value > 0:
            return ImpossibleTriplet("not-positive", triplet, key)
    train, micro, steps = triplet.values_in_key_order()
    return None if train == micro * steps * world else ImpossibleTriplet("mismatch", triplet)


def _non_numeric_key(triplet: BatchTriplet) -> str | None:
    """Return the first key whose value is neither None nor a number, or None."""
    for key, value in zip(KEYS, triplet.values_in_key_order(), strict=True):
        if value is not None and not isinstance(value, int | float):
            return key
    return None


def data_parallel_world_size(
    ranks: int, sequence_parallel_size: Json, release: int, *, from_file: bool
) -> float:
    """Return the data-parallel world size that DeepSpeedConfig uses.

    DeepSpeedConfig divides the ranks by `sequence_parallel_size` only if the config is a dict. For a file, it
    searches the *path* of the file for the name of the key, and does not divide. The division is a float
    division. Source: runtime/config.py, DeepSpeedConfig.__init__, since 0.17.0.

    Raises:
        TypeError, ZeroDivisionError: `sequence_parallel_size` is not a valid divisor (since 0.19.3).
    """
    if from_file or sequence_parallel_size is ABSENT or release < SEQUENCE_SINCE:
        return ranks
    try:
        return ranks / sequence_parallel_size  # type: ignore[no-any-return]
    except (TypeError, ZeroDivisionError, OverflowError):
        if release < _DIVISION_RAISES_SINCE:
            return 1  # releases before 0.19.3 catch the error and use 1
        raise


def nearest_multiples(value: Json, step: Json) -> tuple[Json, ...]:
    """Return the positive multiples of `step` next to `value`, one below and one above."""
    if not isinstance(value, int | float) or not step:
        return ()
    value, step = (int(n) if isinstance(n, float) and n.is_integer() else n for n in (value, step))
    below = value // step * step  # integer arithmetic: floats beyond 2^53 are inexact
    return tuple(number for number in (below, below + step) if number > 0)


# The data-parallel size: the number of rank groups with samples of their own.
#
# DeepSpeed divides the batch by it (runtime/config.py, DeepSpeedConfig.__init__) and determines it in three
# ways: from an `mpu` that the script passes or a pipelined model brings (exact division); since 0.17.0 from
# the key `sequence_parallel_size` of a dict (float division); else every rank counts. AutoTP is the third
# case: its groups are created after the config is read.


class ParallelDegree(NamedTuple):
    """A degree of parallelism: how many ranks share a layer, a sequence, or the stages of a pipeline."""

    kind: str
    """Kind of parallelism: `tensor`, `pipeline`, `sequence`, `context` or `model`."""
    size: int | None
    """The number of ranks, or None if the number is known only at run time."""
    source: str
    """The origin of the degree, in words: `--tensor-model-parallel-size in run.sh:12`."""
    divides: bool | None = True
    """Whether DeepSpeed divides the batch by this degree; None if that depends on unknown code."""
    capped: bool = False
    """Whether the program caps the degree at the number of ranks."""
    is_asked: bool = False
    """Whether the user gave the degree explicitly, rather than in a launch file."""

    def __str__(self) -> str:
        """Describe the degree, such as ``--tp-size` in run.sh:3 is 2`, noting an unknown effect on the batch."""
        if self.size is None:
            return f"{self.source} is known only at run time"
        only = ", and its effect depends on the program's code" if not self.is_known else ""
        return f"{self.source} is {self.size}{only}"

    @property
    def is_known(self) -> bool:
        """Whether it is known how this degree affects the batch."""
        return self.size is not None and (self.divides is not None or self.size == 1)


class Parallelism(NamedTuple):
    """The degrees of parallelism of a job, other than data parallelism."""

    degrees: tuple[ParallelDegree, ...] = ()

    @property
    def unknown_degree(self) -> ParallelDegree | None:
        """The first degree whose effect on the batch is unknown, or None."""
        return next((degree for degree in self.degrees if not degree.is_known), None)

    @property
    def dividing_degrees(self) -> tuple[ParallelDegree, ...]:
        """The degrees by which DeepSpeed divides the number of ranks."""
        return tuple(each for each in self.degrees if each.divides and each.size not in (None, 1))

    @property
    def degrees_unknown_to_deepspeed(self) -> tuple[ParallelDegree, ...]:
        """Degrees that DeepSpeed does not know about, so that it counts each sample repeatedly."""
        return tuple(each for each in self.degrees if each.divides is False and each.size not in (None, 1))

    def ranks_per_sample(self, ranks: int | None = None) -> int:
        """Return how many of `ranks` ranks share one sample in DeepSpeed's arithmetic."""
        divisor = 1
        for each in self.dividing_degrees:
            size = each.size or 1
            divisor *= min(size, max(1, ranks // divisor)) if each.capped and ranks is not None else size
        return divisor

    def degree_of_kind(self, kind: str) -> int:
        """Return the product of the dividing degrees of one kind."""
        return prod(each.size or 1 for each in self.dividing_degrees if each.kind == kind)

    @property
    def dividing_sources(self) -> str:
        """The sources of the dividing degrees, as text."""
        return " and ".join(dict.fromkeys(each.source for each in self.dividing_degrees))

    def __str__(self) -> str:
        """Describe the dividing degrees: `2 tensor × 4 pipeline`."""
        return " × ".join(f"{each.size} {each.kind}" for each in self.dividing_degrees)


NONE = Parallelism()


class UnevenRanksError(ValueError):
    """The number of ranks is not divisible by the product of the parallel degrees."""

    def __init__(self, ranks: int, divisor: int) -> None:
        super().__init__(f"{ranks} ranks in groups of {divisor}")
        self.ranks, self.divisor = ranks, divisor


def data_parallel_size(
    ranks: int, parallelism: Parallelism, sequence_parallel_size: Json, release: int, *, from_file: bool
) -> int | float:
    """Return the data-parallel size that DeepSpeed uses to divide the batch.

    Args:
        ranks: the world size.
        parallelism: the degrees of the job; unknown ones count as 1.
        sequence_parallel_size: the value in the config, or `batch_triplet.ABSENT`.
        release: the number of the DeepSpeed release.
        from_file: whether DeepSpeed itself opens the file.

    Raises:
        UnevenRanksError: the degrees of the job do not divide the ranks.
        TypeError, ZeroDivisionError: DeepSpeed cannot divide the ranks by `sequence_parallel_size`.
    """
    divisor = parallelism.ranks_per_sample(ranks)
    if divisor == 1:
        return data_parallel_world_size(ranks, sequence_parallel_size, release, from_file=from_file)
    if ranks % divisor:
        raise UnevenRanksError(ranks, divisor)
    return ranks // divisor


# The batch with an unknown number of ranks


def batch_formula(train: Json, micro: Json, steps: Json, ranks: str = "GPUs", divisor: int = 1) -> str | None:
    """Return the batch size as a formula in the number of GPUs, such as `train_batch_size = 4 × 8 × GPUs`.

    A key whose value the consumer has yet to fill in appears by name. Return None if the keys do not determine the
    batch size.

    Args:
        train: `train_batch_size` in the config, or None if the key is absent.
        micro: `train_micro_batch_size_per_gpu` in the config.
        steps: `gradient_accumulation_steps` in the config.
        ranks: the name for the number of ranks.
        divisor: the number of ranks that share one sample.
    """
    groups = f"{ranks} / {divisor}" if divisor > 1 else ranks
    sizes = {TRAIN: train, MICRO: micro, STEPS: steps}
    if any(not _is_valid_size(value) for value in sizes.values()):
        return None
    words = {key: key if value == "auto" else str(value) for key, value in sizes.items()}
    if train in (None, "auto"):
        if micro is None:
            return None
        step_text = "1" if steps is None else words[STEPS]
        return f"{TRAIN} = {words[MICRO]} × {step_text} × {groups}"
    factor = f"({groups})" if divisor > 1 else groups
    if micro in (None, "auto"):
        if steps in (None, 1):
            return f"{MICRO} = {train} / {factor}"
        return f"{MICRO} = {train} / ({words[STEPS]} × {groups})"
    if steps in (None, "auto"):
        return f"{STEPS} = {train} / ({micro} × {groups})"
    return f"{TRAIN} {train} = {micro} × {steps} × {groups}"


def _is_valid_size(value: Json) -> bool:
    return value is None or value == "auto" or (isinstance(value, int) and value > 0)
