"""DeepSpeed's batch size heuristics (v0.1 and v0.2), and `SolverAnswer`, the answer of a release."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from elastic.constants import HCN_LIST, MOST_DIVISIONS, MOST_MICRO_BATCHES
from elastic.deepspeed.elasticity_config import ElasticityConfig
from elastic.deepspeed.release_behavior import LATEST, ElasticitySemantics
from elastic.divisors import drop_divisors, drop_multiples, world_sizes_of_units
from elastic.errors import ElasticityConfigError, ElasticityError, NoWorldSizesError

# DeepSpeed scales a few bases by highly composite numbers and keeps the best batch.
#
# Source: `elasticity/elasticity.py`: `get_candidate_batch_sizes`, `get_best_candidates`,
# `_get_compatible_gpus_v01`.  Same answers, but divisors come from prime factors.  The functions return what
# DeepSpeed returns, usable or not; `elastic.deepspeed.differences_from_deepspeed` lists the answers that are rejected.


def candidate_batches(bases: Iterable[int], cap: float, *, keeps_to_cap: bool) -> list[int]:
    """Scale each base by the largest highly composite number within `cap`, and drop duplicates.

    With `keeps_to_cap`, a base above the cap is dropped; otherwise it is kept unscaled. The order is that of a set of
    ints, as in DeepSpeed.
    """
    result: list[int] = []
    for base in bases:
        if base > cap:
            if not keeps_to_cap:
                result.append(base)
        elif base == cap:
            result.append(base)
        else:
            result.append(HCN_LIST[bisect_right(HCN_LIST, cap // base) - 1] * base)
    return list(set(result))


def best_candidate_batch(
    batches: Sequence[int], micro_batches: Sequence[int], low: float, high: float, prefer_larger: bool
) -> tuple[int, list[int] | None]:
    """Return the batch with the most world sizes in `low..high` ranks, together with these sizes.

    Among batches with equally many, the batch size decides. If no batch has a world size, the sizes are an empty list
    or `None`.
    """
    require_solvable(batches, micro_batches, high)
    if prefer_larger:
        # A multiple runs on all world sizes of its divisors, and is larger.
        batches = drop_divisors(batches)
    best: list[int] | None = None
    count, final = 0, min(micro_batches)
    units = drop_multiples(micro_batches)
    for batch in batches:
        sizes = world_sizes_of_units(batch, units, low, high)
        wins_tie = batch > final if prefer_larger else batch < final
        if len(sizes) > count or (len(sizes) == count and wins_tie):
            count, best, final = len(sizes), sizes, batch
    return int(final), best


def solve_v01_batch(
    micro_batches: Sequence[int],
    cap: float,
    min_gpus: float | None,
    max_gpus: float | None,
    prefer_larger: bool,
    semantics: ElasticitySemantics = LATEST,
) -> tuple[int, list[int] | None]:
    """Return the batch size and world sizes according to v0.1.

    Raises the release's own error if a micro batch exceeds `cap`.
    """
    low = min_gpus or 1
    high = max_gpus or cap // min(micro_batches)
    require_number(cap)
    for micro_batch in micro_batches:
        if not micro_batch <= cap:
            raise semantics.small_cap_error(
                f"micro batch {micro_batch} is larger than `max_train_batch_size`, which allows {cap} samples (per "
                f"node in v0.2); raise `max_train_batch_size` or remove the micro batch"
            )
    # DeepSpeed calls numpy's lcm, which rejects an empty list and a list of booleans.
    if all(isinstance(micro_batch, bool) for micro_batch in micro_batches):
        raise TypeError(f"`micro_batch_sizes` must contain at least one integer: {micro_batches!r}")
    bases = [*micro_batches, _common_multiple(micro_batches, cap if semantics.keeps_to_cap else math.inf)]
    batches = candidate_batches(bases, cap, keeps_to_cap=semantics.keeps_to_cap)
    return best_candidate_batch(batches, micro_batches, low, high, prefer_larger)


def _common_multiple(numbers: Sequence[int], most: float) -> int:
    """Return the least common multiple of `numbers`; the computation stops once it exceeds `most`."""
    if not all(isinstance(number, int) for number in numbers):
        return math.lcm(*numbers)  # raises the TypeError
    result = 1
    for number in numbers:
        result = math.lcm(result, number)
        if result > most:
            break
    return result


def require_solvable(batches: Sequence[int], micro_batches: Sequence[int], high: float) -> None:
    """Raise `ElasticityConfigError` if the search for world sizes would take too long."""
    # The candidates are the micro batches, scaled, and their least common multiple.
    number = max(len(set(batches)) - 1, len(set(micro_batches)))
    if number > MOST_MICRO_BATCHES:
        raise ElasticityConfigError(
            f"`micro_batch_sizes` has {number} sizes; at most {MOST_MICRO_BATCHES} are supported"
        )
    if high > MOST_DIVISIONS and any(batch > MOST_DIVISIONS**2 for batch in batches):
        raise ElasticityConfigError(
            f"a batch above {MOST_DIVISIONS**2} cannot be searched for more than {MOST_DIVISIONS} world "
            "sizes: reduce `max_train_batch_size` or `max_gpus`"
        )


def require_number(cap: object) -> None:
    """Raise a `TypeError` that names `max_train_batch_size` if `cap` is not a number."""
    if cap is None or isinstance(cap, (str, bytes, list, dict)):
        raise TypeError(f"`max_train_batch_size` must be a number, not {cap!r}")


def largest_micro_batch(batch: int, ranks: int, micro_batches: Iterable[int]) -> int | None:
    """Return the largest micro batch that divides a rank's share, or `None` if none does."""
    share = batch // ranks
    fitting = [micro_batch for micro_batch in micro_batches if share % micro_batch == 0]
    return int(max(fitting)) if fitting else None


# Elasticity v0.2: whole nodes and model parallelism on top of the v0.1 heuristic.
#
# Source: `elasticity/elasticity.py`, `_get_compatible_gpus_v02` (0.7.0 to 0.19.7). DeepSpeed's answers depend on its
# truncating divisions, the floats of the fallback and the division by GPUs instead of ranks, so they are kept.


def solve_v02(config: ElasticityConfig, gpus: int, semantics: ElasticitySemantics = LATEST) -> SolverAnswer:
    """Return v0.2's batch, data-parallel sizes and micro batch for `gpus` GPUs, or its fallback if inadmissible.

    Raises `ElasticityError` if a copy of the model spans nodes, `NoWorldSizesError` if no number of nodes is
    admissible, and the errors of `solve_v01_batch`.
    """
    batch, sizes = solve_v02_batch(config, semantics)
    if gpus // config.model_parallel_size in sizes:
        micro = micro_batch_v02(config, batch, gpus)
        return SolverAnswer(config, batch, sizes, micro, True, int(gpus // config.model_parallel_size))
    lone_batch, ranks = fallback_batch_v02(config, gpus)
    micro = micro_batch_v02(config, lone_batch, gpus)
    return SolverAnswer(config, int(lone_batch), [ranks], micro, True, ranks, fallback=True)


def ranks_per_node(gpus_per_node: int, model_parallel_size: int) -> int:
    """Return the data-parallel ranks per node.

    Raises:
        ElasticityError: a model replica spans nodes.
    """
    if gpus_per_node % model_parallel_size != 0:
        raise ElasticityError(
            f"`num_gpus_per_node` {gpus_per_node} is not a multiple of "
            f"`model_parallel_size` {model_parallel_size}"
        )
    return gpus_per_node // model_parallel_size


def solve_v02_batch(
    config: ElasticityConfig, semantics: ElasticitySemantics = LATEST
) -> tuple[int, list[int]]:
    """Return the batch size and data-parallel sizes according to v0.2, which plans whole nodes.

    DeepSpeed's truncating division turns a `max_gpus` below one node into 0, which means no bound.
    """
    ranks = ranks_per_node(config.num_gpus_per_node, config.model_parallel_size)
    require_number(config.max_acceptable_batch_size)
    batch, nodes = solve_v01_batch(
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


def fallback_batch_v02(config: ElasticityConfig, gpus: int) -> tuple[float, int]:
    """Return the batch and data-parallel size that v0.2 uses for a GPU count outside its list.

    Like DeepSpeed, the function uses floats, because their rounding decides the answer: 3 GPUs of an 8-GPU node with
    `model_parallel_size` 2 are 1.5 ranks.
    """
    ranks = config.num_gpus_per_node // config.model_parallel_size
    current = (gpus / config.num_gpus_per_node) * ranks
    batches: list[float] = []
    for micro_batch in config.micro_batches:
        smallest = micro_batch * current
        batches.append(math.floor(config.max_acceptable_batch_size / float(smallest)) * smallest)
    return (max(batches) if config.prefer_larger_batch_size else min(batches)), int(current)


def micro_batch_v02(config: ElasticityConfig, batch: float, gpus: int) -> int | None:
    """Return v0.2's micro batch: the largest that fits, or the first if `prefer_larger_batch` is false.

    DeepSpeed divides by GPUs instead of data-parallel ranks, so with model parallelism there may be no micro batch, or
    one that does not fit.
    """
    chosen: int | None = None
    for micro_batch in config.micro_batches:
        if batch // gpus % micro_batch == 0:
            if chosen is None:
                chosen = micro_batch
            if config.prefer_larger_batch_size and chosen < micro_batch:
                chosen = micro_batch
    return None if chosen is None else int(chosen)


# Answer of a release, usable or not.


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """A DeepSpeed release's answer for an `elasticity` block; `world_sizes` count data-parallel ranks."""

    config: ElasticityConfig
    batch_size: int
    """Number of samples per optimizer step."""
    world_sizes: list[int] | None
    micro_batch_size: int | None = None
    has_micro_batch: bool = False
    """Whether the release also returns the micro batch, even if it is `None`."""
    ranks: int | None = None
    """Number of data-parallel ranks for which the micro batch was chosen."""
    fallback: bool = False
    """Whether the batch is v0.2's fallback for a size outside its list."""

    def as_tuple(self) -> tuple[int, list[int] | None] | tuple[int, list[int] | None, int | None]:
        """Return the answer as DeepSpeed does: as two values, or with the micro batch, three."""
        if self.has_micro_batch:
            return self.batch_size, self.world_sizes, self.micro_batch_size
        return self.batch_size, self.world_sizes
