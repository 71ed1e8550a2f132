"""DeepSpeed's heuristics for a batch size, v0.1 and v0.2, and the `Answer` that a release returns."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elastic.constants import HCN_LIST, MOST_DIVISIONS, MOST_MICRO_BATCHES
from elastic.deepspeed.config import ElasticityConfig
from elastic.deepspeed.semantics import LATEST, Semantics
from elastic.divisors import maximal, minimal, sizes_of_units
from elastic.errors import ElasticityConfigError, ElasticityError, NoWorldSizesError

# DeepSpeed's way to a batch size: scale a few bases by highly composite numbers, keep the best.
#
# Source: `elasticity/elasticity.py`: `get_candidate_batch_sizes`, `get_best_candidates`,
# `_get_compatible_gpus_v01`.  Same answers, but divisors come from prime factors.  The functions here return
# what DeepSpeed returns, usable or not; `elastic.deepspeed.differences` says which answers are refused.


def candidates(bases: Iterable[int], cap: float, *, keeps_to_cap: bool) -> list[int]:
    """Each base times the largest highly composite number that keeps it within `cap`, without duplicates.

    A base above the cap is left out (`keeps_to_cap`) or kept as it is.  The order is that of a set of ints.
    """
    found: list[int] = []
    for base in bases:
        if base > cap:
            if not keeps_to_cap:
                found.append(base)
        elif base == cap:
            found.append(base)
        else:
            found.append(HCN_LIST[bisect_right(HCN_LIST, cap // base) - 1] * base)
    return list(set(found))


def best_candidate(
    batches: Sequence[int], micro_batches: Sequence[int], low: float, high: float, prefer_larger: bool
) -> tuple[int, list[int] | None]:
    """The batch with most world sizes in `low..high` ranks, ties by size; `None` where none has any."""
    require_solvable(batches, micro_batches, high)
    if prefer_larger:
        # A multiple runs wherever its divisor runs, and is larger.
        batches = maximal(batches)
    best: list[int] | None = None
    count, final = 0, min(micro_batches)
    units = minimal(micro_batches)
    for batch in batches:
        sizes = sizes_of_units(batch, units, low, high)
        wins_tie = batch > final if prefer_larger else batch < final
        if len(sizes) > count or (len(sizes) == count and wins_tie):
            count, best, final = len(sizes), sizes, batch
    return int(final), best


def compatible_v01(
    micro_batches: Sequence[int],
    cap: float,
    min_gpus: float | None,
    max_gpus: float | None,
    prefer_larger: bool,
    semantics: Semantics = LATEST,
) -> tuple[int, list[int] | None]:
    """Batch size and world sizes of v0.1; raises the release's error where a micro batch exceeds `cap`."""
    low = min_gpus or 1
    high = max_gpus or cap // min(micro_batches)
    require_number(cap)
    for micro_batch in micro_batches:
        if not micro_batch <= cap:
            raise semantics.small_cap_error(
                f"micro batch {micro_batch} is larger than the batch it is part of: `max_train_batch_size` "
                f"allows {cap} samples (a node's share, in v0.2); raise it or drop that micro batch"
            )
    # numpy's lcm, which DeepSpeed calls, takes neither an empty list nor one of booleans alone.
    if all(isinstance(micro_batch, bool) for micro_batch in micro_batches):
        raise TypeError(f"`micro_batch_sizes` must hold at least one integer: {micro_batches!r}")
    bases = [*micro_batches, _common_multiple(micro_batches, cap if semantics.keeps_to_cap else math.inf)]
    found = candidates(bases, cap, keeps_to_cap=semantics.keeps_to_cap)
    return best_candidate(found, micro_batches, low, high, prefer_larger)


def _common_multiple(numbers: Sequence[int], most: float) -> int:
    """The least common multiple of all, or of the first of them where it is beyond `most` already."""
    if not all(isinstance(number, int) for number in numbers):
        return math.lcm(*numbers)  # which says what it does not take
    least = 1
    for number in numbers:
        least = math.lcm(least, number)
        if least > most:
            break
    return least


def require_solvable(batches: Sequence[int], micro_batches: Sequence[int], high: float) -> None:
    """Raise an `ElasticityConfigError` where the search would take longer than anybody waits."""
    # The candidates are the micro batches, scaled, and their least common multiple.
    number = max(len(set(batches)) - 1, len(set(micro_batches)))
    if number > MOST_MICRO_BATCHES:
        raise ElasticityConfigError(
            f"`micro_batch_sizes` holds {number} sizes, more than {MOST_MICRO_BATCHES}: give fewer"
        )
    if high > MOST_DIVISIONS and any(batch > MOST_DIVISIONS**2 for batch in batches):
        raise ElasticityConfigError(
            f"a batch above {MOST_DIVISIONS**2} cannot be searched for more than {MOST_DIVISIONS} world "
            "sizes: give a smaller `max_train_batch_size` or `max_gpus`"
        )


def require_number(cap: object) -> None:
    """Raise a `TypeError` that names the key where DeepSpeed's arithmetic would raise a bare one."""
    if cap is None or isinstance(cap, (str, bytes, list, dict)):
        raise TypeError(f"`max_train_batch_size` must be a number, not {cap!r}")


def largest_micro_batch(batch: int, ranks: int, micro_batches: Iterable[int]) -> int | None:
    """The largest micro batch that divides the whole part of a rank's share, as DeepSpeed looks for it."""
    share = batch // ranks
    fitting = [micro_batch for micro_batch in micro_batches if share % micro_batch == 0]
    return int(max(fitting)) if fitting else None


# Elasticity v0.2: whole nodes and model parallelism on top of the v0.1 heuristic.
#
# Source: `elasticity/elasticity.py`, `_get_compatible_gpus_v02` (0.7.0 to 0.19.7). The truncating
# divisions, the floats of the fallback and the division by GPUs in place of ranks are DeepSpeed's, and
# decide its answers.


def solve_v02(config: ElasticityConfig, gpus: int, semantics: Semantics = LATEST) -> Answer:
    """Batch, data-parallel sizes and micro batch for `gpus` GPUs; outside the list, a batch for them alone.

    Raises `ElasticityError` where a model copy would straddle nodes, `NoWorldSizesError` where no number of
    nodes is admissible, and as `heuristic.compatible_v01` does.
    """
    batch, sizes = compatible_v02(config, semantics)
    if gpus // config.model_parallel_size in sizes:
        micro = micro_batch_v02(config, batch, gpus)
        return Answer(config, batch, sizes, micro, True, int(gpus // config.model_parallel_size))
    lone_batch, ranks = fallback_v02(config, gpus)
    micro = micro_batch_v02(config, lone_batch, gpus)
    return Answer(config, int(lone_batch), [ranks], micro, True, ranks, fallback=True)


def ranks_per_node(gpus_per_node: int, model_parallel_size: int) -> int:
    """Data-parallel ranks on a node; raises `ElasticityError` where a model copy would straddle nodes."""
    if gpus_per_node % model_parallel_size != 0:
        raise ElasticityError(
            f"`num_gpus_per_node` {gpus_per_node} is not a multiple of "
            f"`model_parallel_size` {model_parallel_size}"
        )
    return gpus_per_node // model_parallel_size


def compatible_v02(config: ElasticityConfig, semantics: Semantics = LATEST) -> tuple[int, list[int]]:
    """Batch size and data-parallel sizes of v0.2, which plans whole nodes.

    The truncating divisions are DeepSpeed's: a `max_gpus` below one node becomes 0, which lifts the bound.
    """
    ranks = ranks_per_node(config.num_gpus_per_node, config.model_parallel_size)
    require_number(config.max_acceptable_batch_size)
    batch, nodes = compatible_v01(
        config.micro_batches,
        int(config.max_acceptable_batch_size / ranks),
        int(config.min_gpus / config.num_gpus_per_node),
        int(config.max_gpus / config.num_gpus_per_node),
        config.prefer_larger_batch_size,
        semantics,
    )
    if nodes is None:
        raise NoWorldSizesError("no number of nodes is admissible")
    return int(batch * ranks), [int(node * ranks) for node in nodes]


def fallback_v02(config: ElasticityConfig, gpus: int) -> tuple[float, int]:
    """What v0.2 does at a GPU count outside its list: a batch for that size alone.

    Returns that batch and the data-parallel size.  Floats on purpose: 3 GPUs of an 8-GPU node with
    `model_parallel_size` 2 are 1.5 ranks to DeepSpeed, and its roundings decide the answer.
    """
    ranks = config.num_gpus_per_node // config.model_parallel_size
    current = (gpus / config.num_gpus_per_node) * ranks
    batches: list[float] = []
    for micro_batch in config.micro_batches:
        smallest = micro_batch * current
        batches.append(math.floor(config.max_acceptable_batch_size / float(smallest)) * smallest)
    return (max(batches) if config.prefer_larger_batch_size else min(batches)), int(current)


def micro_batch_v02(config: ElasticityConfig, batch: float, gpus: int) -> int | None:
    """The micro batch v0.2 reports: the largest that fits, else (`prefer_larger_batch` false) the first.

    DeepSpeed divides by GPUs, not data-parallel ranks, so under model parallelism it may miss or misfit;
    and the order in which the micro batches are written decides, without `prefer_larger_batch`.
    """
    chosen: int | None = None
    for micro_batch in config.micro_batches:
        if batch // gpus % micro_batch == 0:
            if chosen is None:
                chosen = micro_batch
            if config.prefer_larger_batch_size and chosen < micro_batch:
                chosen = micro_batch
    return None if chosen is None else int(chosen)


# `Answer`: what a release returns for a block, before anyone asks whether it can be used.


@dataclass(frozen=True, slots=True)
class Answer:
    """What a release returns for a block; `world_sizes` count data-parallel ranks."""

    config: ElasticityConfig
    batch_size: int
    """Samples an optimizer step."""
    world_sizes: list[int] | None
    micro_batch_size: int | None = None
    has_micro_batch: bool = False
    """Whether the release returns the micro batch too, even as `None`."""
    ranks: int | None = None
    """The data-parallel size that the micro batch is for."""
    fallback: bool = False
    """Whether the batch is v0.2's for a size outside its list."""

    def as_tuple(self) -> tuple[int, list[int] | None] | tuple[int, list[int] | None, int | None]:
        """The shape DeepSpeed returns: two values, or three with the micro batch."""
        if self.has_micro_batch:
            return self.batch_size, self.world_sizes, self.micro_batch_size
        return self.batch_size, self.world_sizes
