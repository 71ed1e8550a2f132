"""Batch arithmetic: the triplet as DeepSpeed derives it, and the data-parallel size."""

from __future__ import annotations

from math import prod
from typing import Literal, TypeAlias

from dsconfig.core.json_types import Json, NamedTuple

# The batch triplet as DeepSpeed derives it, step by step, with whatever was written.
#
# DeepSpeed calculates before it checks, on the raw values: floats stay floats, true counts as 1, a string
# ends in a TypeError in the middle. The same operations are done here in the same order, so that the same
# inputs fail. Source: runtime/config.py, DeepSpeedConfig._set_batch_related_parameters and
# _batch_assertion, unchanged in everything that matters from 0.3.1 to 0.19.8.

TRAIN = "train_batch_size"
MICRO = "train_micro_batch_size_per_gpu"
STEPS = "gradient_accumulation_steps"
KEYS = (TRAIN, MICRO, STEPS)
SEQUENCE = "sequence_parallel_size"
SEQUENCE_SINCE = 17000
_ERRORS_SEEN = 19003
ABSENT = object()
"""Given for `sequence_parallel_size` where the key is not written; null is a value."""

Failure: TypeAlias = Literal["none-given", "arithmetic", "zero-divisor", "not-positive", "mismatch"]


class Triplet(NamedTuple):
    """Samples a step over all ranks, samples a forward pass on one rank, and forward passes a step."""

    train_batch_size: Json
    train_micro_batch_size_per_gpu: Json
    gradient_accumulation_steps: Json

    def values(self) -> tuple[Json, Json, Json]:
        """In the order of `KEYS`."""
        return (self.train_batch_size, self.train_micro_batch_size_per_gpu, self.gradient_accumulation_steps)


class Impossible(NamedTuple):
    """Why there is no triplet. `key` is the one whose value is at fault, if it is a single one."""

    failure: Failure
    triplet: Triplet
    key: str | None = None


def derive(train: Json, micro: Json, steps: Json, world_size: float) -> Triplet | Impossible:
    """The triplet that DeepSpeed derives from what is written (None: not written, or null)."""
    written = Triplet(train, micro, steps)
    if train is None and micro is None:
        return Impossible("none-given", written)
    try:
        found = _complete(train, micro, steps, world_size)
        failure = _check(found, world_size)
    except TypeError:
        return Impossible("arithmetic", written, _not_a_number(written))
    except ZeroDivisionError:
        return Impossible("zero-divisor", written, MICRO if micro is not None and not micro else STEPS)
    except OverflowError:
        return Impossible("arithmetic", written, None)
    return failure or found


def _complete(train: Json, micro: Json, steps: Json, world: float) -> Triplet:
    if train is not None and micro is not None and steps is not None:
        return Triplet(train, micro, steps)
    if train is not None and micro is not None:
        return Triplet(train, micro, train // micro // world)
    if train is not None and steps is not None:
        return Triplet(train, train // world // steps, steps)
    if micro is not None and steps is not None:
        return Triplet(_product(micro, steps, world), micro, steps)
    if train is not None:
        return Triplet(train, train // world, 1)
    return Triplet(_product(micro, world), micro, 1)


def _product(*factors: Json) -> Json:
    """The product; a TypeError, which comes anyway, before Python repeats a text or a list."""
    if not all(isinstance(factor, int | float) for factor in factors):
        raise TypeError
    return prod(factors)


def _check(found: Triplet, world: float) -> Impossible | None:
    for key, value in zip(KEYS, found.values(), strict=True):
        if not value > 0:
            return Impossible("not-positive", found, key)
    train, micro, steps = found.values()
    return None if train == micro * steps * world else Impossible("mismatch", found)


def _not_a_number(triplet: Triplet) -> str | None:
    """The key whose value cannot be calculated with."""
    for key, value in zip(KEYS, triplet.values(), strict=True):
        if value is not None and not isinstance(value, int | float):
            return key
    return None


def world_size(ranks: int, sequence_parallel_size: Json, release: int, *, from_file: bool) -> float:
    """The data-parallel world size that DeepSpeedConfig uses.

    It divides the ranks by `sequence_parallel_size` only where the config is a dict: of a file it asks
    whether the *path* contains that word. The division is a true one. Source: runtime/config.py,
    DeepSpeedConfig.__init__, from 0.17.0 on.

    Raises:
        TypeError, ZeroDivisionError: from 0.19.3 on, for a size that cannot be divided by.
    """
    if from_file or sequence_parallel_size is ABSENT or release < SEQUENCE_SINCE:
        return ranks
    try:
        return ranks / sequence_parallel_size  # type: ignore[no-any-return]
    except (TypeError, ZeroDivisionError, OverflowError):
        if release < _ERRORS_SEEN:
            return 1  # the release swallows the error and goes on as if it ran alone
        raise


def nearest_multiples(value: Json, step: Json) -> tuple[Json, ...]:
    """The multiples of `step` just below and above `value`, positive ones only."""
    if not isinstance(value, int | float) or not step:
        return ()
    value, step = (int(n) if isinstance(n, float) and n.is_integer() else n for n in (value, step))
    below = value // step * step  # in integers, of which floats beyond 2^53 are not sure
    return tuple(number for number in (below, below + step) if number > 0)


# The data-parallel size: how many groups of ranks get samples of their own.
#
# DeepSpeed divides its batch by it (runtime/config.py, DeepSpeedConfig.__init__), and has three ways to
# know it: an `mpu` that the script hands over or a pipelined model brings, which divides the ranks exactly;
# from 0.17.0 on the key `sequence_parallel_size` of a dict, by which they are truly divided; or neither,
# and every rank counts. AutoTP is the third: its groups are made after the config was read.


class Degree(NamedTuple):
    """Ranks that share a layer, the stages of a pipeline, or a sequence."""

    kind: str
    """`tensor`, `pipeline`, `sequence`, `context` or `model`."""
    size: int | None
    """None: only the run shows it."""
    source: str
    """Where it is written, in words: `--tensor-model-parallel-size in run.sh:12`."""
    divides: bool | None = True
    """Whether DeepSpeed's batch is divided by it. False: it counts every rank. None: only the code shows."""
    capped: bool = False
    """Whether the program takes as many ranks as there are where there are fewer."""
    is_asked: bool = False
    """Whether the user asked for it, and no launch file has it."""

    def __str__(self) -> str:
        """``--tp-size` in run.sh:3 is 2`, and why it is not known what that does, if it is not."""
        if self.size is None:
            return f"{self.source} is left to the run"
        only = ", and only the program's code shows what it does" if not self.is_known else ""
        return f"{self.source} is {self.size}{only}"

    @property
    def is_known(self) -> bool:
        """Whether it is known what it does to the batch."""
        return self.size is not None and (self.divides is not None or self.size == 1)


class Parallelism(NamedTuple):
    """The degrees of parallelism of a job, beside data parallelism."""

    degrees: tuple[Degree, ...] = ()

    @property
    def unknown(self) -> Degree | None:
        """The first degree of which it is not known what it does to the batch."""
        return next((degree for degree in self.degrees if not degree.is_known), None)

    @property
    def dividing(self) -> tuple[Degree, ...]:
        """The degrees by which DeepSpeed's batch is divided."""
        return tuple(each for each in self.degrees if each.divides and each.size not in (None, 1))

    @property
    def counted(self) -> tuple[Degree, ...]:
        """The degrees that DeepSpeed does not know of, so that it counts each sample as often."""
        return tuple(each for each in self.degrees if each.divides is False and each.size not in (None, 1))

    def divisor(self, ranks: int | None = None) -> int:
        """How many ranks share one sample, as DeepSpeed has it; `ranks`: how many there are."""
        found = 1
        for each in self.dividing:
            size = each.size or 1
            found *= min(size, max(1, ranks // found)) if each.capped and ranks is not None else size
        return found

    def of(self, kind: str) -> int:
        """How many ranks share a layer, a sequence, or the model in stages, as DeepSpeed's batch has it."""
        return prod(each.size or 1 for each in self.dividing if each.kind == kind)

    @property
    def sources(self) -> str:
        """Where the degrees are written that divide the batch, in words."""
        return " and ".join(dict.fromkeys(each.source for each in self.dividing))

    def __str__(self) -> str:
        """`2 tensor × 4 pipeline`."""
        return " × ".join(f"{each.size} {each.kind}" for each in self.dividing)


NONE = Parallelism()


class UnevenError(ValueError):
    """The ranks cannot be shared out in groups of this size."""

    def __init__(self, ranks: int, divisor: int) -> None:
        super().__init__(f"{ranks} ranks in groups of {divisor}")
        self.ranks, self.divisor = ranks, divisor


def data_parallel_size(
    ranks: int, parallelism: Parallelism, sequence_parallel_size: Json, release: int, *, from_file: bool
) -> int | float:
    """The data-parallel size that DeepSpeed divides the batch by.

    Args:
        ranks: the world size.
        parallelism: the degrees of the job; what is unknown in it counts as 1.
        sequence_parallel_size: as the config has it, or `batch_triplet.ABSENT`.
        release: the number of the DeepSpeed release.
        from_file: whether DeepSpeed itself reads the file.

    Raises:
        UnevenError: the degrees of the job do not divide the ranks.
        TypeError, ZeroDivisionError: DeepSpeed cannot divide by `sequence_parallel_size`.
    """
    divisor = parallelism.divisor(ranks)
    if divisor == 1:
        return world_size(ranks, sequence_parallel_size, release, from_file=from_file)
    if ranks % divisor:
        raise UnevenError(ranks, divisor)
    return ranks // divisor


# The batch where the number of ranks is not known
# --------------------------------------------------------------------------------------------------


def batch_formula(train: Json, micro: Json, steps: Json, ranks: str = "GPUs", divisor: int = 1) -> str | None:
    """The batch as a formula in the number of ranks: `train_batch_size = 4 × 8 × GPUs`.

    A key that the consumer has yet to fill stands under its name; None where nothing follows from the keys.

    Args:
        train: `train_batch_size` as written; None where it is absent.
        micro: `train_micro_batch_size_per_gpu` as written.
        steps: `gradient_accumulation_steps` as written.
        ranks: what the number of ranks is called.
        divisor: how many ranks share one sample.
    """
    share = f"{ranks} / {divisor}" if divisor > 1 else ranks
    sizes = {TRAIN: train, MICRO: micro, STEPS: steps}
    if any(not _is_size(value) for value in sizes.values()):
        return None
    words = {key: key if value == "auto" else str(value) for key, value in sizes.items()}
    if train in (None, "auto"):
        if micro is None:
            return None
        second = "1" if steps is None else words[STEPS]
        return f"{TRAIN} = {words[MICRO]} × {second} × {share}"
    of_ranks = f"({share})" if divisor > 1 else share
    if micro in (None, "auto"):
        if steps in (None, 1):
            return f"{MICRO} = {train} / {of_ranks}"
        return f"{MICRO} = {train} / ({words[STEPS]} × {share})"
    if steps in (None, "auto"):
        return f"{STEPS} = {train} / ({micro} × {share})"
    return f"{TRAIN} {train} = {micro} × {steps} × {share}"


def _is_size(value: Json) -> bool:
    return value is None or value == "auto" or (isinstance(value, int) and value > 0)
