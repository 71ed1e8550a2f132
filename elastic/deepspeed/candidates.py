"""The parts of DeepSpeed's solver that users import by themselves, under DeepSpeed's names.

Source: `elasticity/elasticity.py`.  `semantics` selects the releases whose answer is wanted.
"""

from __future__ import annotations

from collections.abc import Sequence

from elastic.deepspeed import heuristic
from elastic.deepspeed.config import ElasticityConfig
from elastic.deepspeed.differences import no_world_sizes, refuse_unusable
from elastic.deepspeed.heuristic_v02 import solve_v02
from elastic.deepspeed.semantics import LATEST, Semantics
from elastic.divisors import world_sizes
from elastic.errors import ElasticityConfigError, NoWorldSizesError


def get_candidate_batch_sizes(
    base_list: Sequence[int], max_acceptable_batch_size: int, *, semantics: Semantics = LATEST
) -> list[int]:
    """Each base scaled by a highly composite number up to the cap; see `heuristic.candidates`."""
    return heuristic.candidates(base_list, max_acceptable_batch_size, keeps_to_cap=semantics.keeps_to_cap)


def get_valid_gpus(
    batch_size: int, micro_batches: Sequence[int], min_valid_gpus: int, max_valid_gpus: int
) -> list[int]:
    """World sizes in the range at which `batch_size` splits into whole micro batches, ascending.

    Raises `ElasticityConfigError` for more sizes, or a larger batch, than can be searched; so do the others.
    """
    if batch_size < 1:
        return []
    heuristic.require_solvable([batch_size], micro_batches, max_valid_gpus)
    return world_sizes(batch_size, micro_batches, min_valid_gpus, max_valid_gpus)


def get_best_candidates(
    candidate_batch_sizes: Sequence[int],
    micro_batches: Sequence[int],
    min_gpus: int,
    max_gpus: int,
    prefer_larger: bool,
) -> tuple[int, list[int]]:
    """The candidate with most world sizes; raises `ElasticityConfigError` where DeepSpeed's list is empty."""
    batch, sizes = heuristic.best_candidate(
        candidate_batch_sizes, micro_batches, min_gpus, max_gpus, prefer_larger
    )
    if not sizes:
        raise ElasticityConfigError(
            f"none of the batch sizes {sorted(candidate_batch_sizes)} has a world size from {min_gpus} to "
            f"{max_gpus} with micro batches {list(micro_batches)}; widen the range"
        )
    return batch, sizes


def get_compatible_gpus_v01(
    micro_batches: Sequence[int],
    max_acceptable_batch_size: int,
    min_gpus: int | None = None,
    max_gpus: int | None = None,
    prefer_larger: bool = True,
    *,
    semantics: Semantics = LATEST,
) -> tuple[int, list[int]]:
    """Batch size and world sizes of v0.1; bounds left out are 1 and the cap over the smallest micro batch.

    Raises `ValueError` (before 0.5.8 `AssertionError`) where a micro batch exceeds the cap, and
    `ElasticityConfigError` where no size is left.
    """
    batch, sizes = heuristic.compatible_v01(
        micro_batches, max_acceptable_batch_size, min_gpus, max_gpus, prefer_larger, semantics
    )
    if not sizes:
        raise ElasticityConfigError(
            f"no world size from {min_gpus} to {max_gpus} splits a batch of at most "
            f"{max_acceptable_batch_size} into micro batches of {list(micro_batches)}; widen the range"
        )
    return batch, sizes


def get_compatible_gpus_v02(
    micro_batches: Sequence[int],
    max_acceptable_batch_size: int,
    current_num_gpus: int,
    min_gpus: int = 1,
    max_gpus: int = 10000,
    prefer_larger: bool = True,
    num_gpus_per_node: int = 1,
    model_parallel_size: int = 1,
    *,
    semantics: Semantics = LATEST,
) -> tuple[int, list[int], int]:
    """Batch size, data-parallel sizes and micro batch of v0.2 for `current_num_gpus` GPUs.

    Raises as `compute_elastic_config` does, with the unusable answers refused.
    """
    config = ElasticityConfig(
        {
            "max_train_batch_size": max_acceptable_batch_size,
            "micro_batch_sizes": list(micro_batches),
            "min_gpus": min_gpus,
            "max_gpus": max_gpus,
            "prefer_larger_batch": prefer_larger,
            "num_gpus_per_node": num_gpus_per_node,
            "model_parallel_size": model_parallel_size,
        }
    )
    try:
        answer = solve_v02(config, current_num_gpus, semantics)
    except NoWorldSizesError:
        raise ElasticityConfigError(no_world_sizes(config)) from None
    batch, sizes, *micro = refuse_unusable(answer)
    return batch, sizes, micro[0]


# The names that DeepSpeed's module has.
_get_compatible_gpus_v01 = get_compatible_gpus_v01
_get_compatible_gpus_v02 = get_compatible_gpus_v02
