"""The functions of `deepspeed.elasticity`, with the same signatures, results and error types."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from elastic import constants as c
from elastic.constants import MINIMUM_DEEPSPEED_VERSION
from elastic.deepspeed import batch_heuristics
from elastic.deepspeed.batch_heuristics import SolverAnswer, solve_v02
from elastic.deepspeed.differences_from_deepspeed import Result, no_world_sizes, reject_unusable
from elastic.deepspeed.elasticity_config import ElasticityConfig
from elastic.deepspeed.release_behavior import LATEST, ElasticitySemantics
from elastic.divisors import world_sizes
from elastic.errors import (
    ElasticityConfigError,
    ElasticityError,
    ElasticityIncompatibleWorldSize,
    NoWorldSizesError,
)
from elastic.json_files import Json

# `as_released` returns a release's exact answer, usable or not; `compute_elastic_config` rejects unusable answers
# (see `differences`).  Source: `elasticity/elasticity.py`.


def compute_elastic_config(
    ds_config: Mapping[str, Json],
    target_deepspeed_version: str,
    world_size: int = 0,
    return_microbatch: bool = False,
    *,
    semantics: ElasticitySemantics = LATEST,
) -> Result:
    """Return a batch size and its world sizes, and for a world size or `return_microbatch`, a micro batch.

    `world_size` counts data-parallel ranks in v0.1. As in DeepSpeed, v0.2 plans with GPUs but checks ranks, so prefer
    `elastic.plan` if `model_parallel_size` is above 1. A `world_size` of 0 means unset; v0.2 then reads `WORLD_SIZE`
    from the environment.

    Returns `(batch, sizes)` or `(batch, sizes, micro_batch)`, all plain ints. Raises
    `ElasticityConfigError` (block missing, disabled, unusable, or too large to search),
    `ElasticityIncompatibleWorldSize`, `ElasticityError` (target release older than 0.3.8, nodes not a
    multiple of the model), and where DeepSpeed does: `ValueError` (a micro batch above the cap),
    `TypeError`, `NotImplementedError`, `AssertionError`.
    """
    try:
        answer = as_released(
            ds_config, target_deepspeed_version, world_size, return_microbatch, semantics=semantics
        )
    except NoWorldSizesError:
        config = ElasticityConfig(ds_config[c.ELASTICITY], semantics=semantics)
        raise ElasticityConfigError(no_world_sizes(config)) from None
    return reject_unusable(answer)


def as_released(
    ds_config: Mapping[str, Json],
    target_deepspeed_version: str,
    world_size: int = 0,
    return_microbatch: bool = False,
    *,
    semantics: ElasticitySemantics = LATEST,
) -> SolverAnswer:
    """Return the answer of the releases with these `semantics`, even an unusable one, or raise their errors."""
    config = _checked_config(ds_config, semantics)
    if return_microbatch and semantics.latest_version < 0.2:
        raise TypeError("`return_microbatch` requires DeepSpeed 0.7.0")
    version = float(config.version)
    if config.model_parallel_size > 1 and version != 0.2:
        raise ElasticityConfigError(
            f"`model_parallel_size` {config.model_parallel_size} needs `version` 0.2, not {config.version}"
        )
    if version > semantics.latest_version:
        raise ElasticityConfigError(
            f"elasticity `version` {config.version} is not supported; the latest is {semantics.latest_version}"
        )
    check_target(target_deepspeed_version, semantics)
    if version == 0.1:
        answer = _solve_v01(config, semantics)
    elif version == 0.2:
        gpus = world_size if world_size != 0 else _environment_world_size("elasticity v0.2")
        answer = solve_v02(config, gpus, semantics)
    else:
        raise NotImplementedError(f"elasticity `version` {config.version} does not exist; use 0.1 or 0.2")
    return _solve_for_world_size(answer, world_size, return_microbatch, semantics)


def _checked_config(ds_config: Mapping[str, Json], semantics: ElasticitySemantics) -> ElasticityConfig:
    if not isinstance(ds_config, dict):
        raise ValueError(f"the config must be a dict, not a {type(ds_config).__name__}: {ds_config!r}")
    if c.ELASTICITY not in ds_config:
        raise ElasticityConfigError("the config has no `elasticity` block")
    block = ds_config[c.ELASTICITY]
    if not hasattr(block, "get"):
        raise AttributeError(f"`elasticity` must be an object, not {block!r}")
    if not block.get(c.ENABLED, c.ENABLED_DEFAULT):
        raise ElasticityConfigError("`elasticity` is not enabled; set `enabled` to true")
    return ElasticityConfig(block, semantics=semantics)


def _solve_v01(config: ElasticityConfig, semantics: ElasticitySemantics) -> SolverAnswer:
    batch, sizes = batch_heuristics.solve_v01_batch(
        config.micro_batches,
        config.max_acceptable_batch_size,
        config.min_gpus,
        config.max_gpus,
        config.prefer_larger_batch_size,
        semantics,
    )
    return SolverAnswer(config, batch, sizes)


def _environment_world_size(purpose: str) -> int:
    text = os.environ.get(c.WORLD_SIZE)
    if text is not None and text.isnumeric():
        return int(text)
    raise ElasticityConfigError(
        f"{purpose} needs a world size: pass `world_size`, or set the environment's WORLD_SIZE, which is {text!r}"
    )


def _solve_for_world_size(
    answer: SolverAnswer, world_size: int, return_microbatch: bool, semantics: ElasticitySemantics
) -> SolverAnswer:
    if world_size > 0:
        return _add_micro_batch(answer, world_size)
    if not return_microbatch:
        if not answer.has_micro_batch:
            return answer
        return SolverAnswer(answer.config, answer.batch_size, answer.world_sizes, fallback=answer.fallback)
    if float(answer.config.version) == 0.2:
        return answer
    if semantics.reads_world_size:
        return _add_micro_batch(answer, _environment_world_size("the micro batch of elasticity v0.1"))
    # Releases up to 0.19.5 divide by the unset 0 (ZeroDivisionError), and answer for a negative size.
    return _choose_micro_batch(answer, world_size)


def _add_micro_batch(answer: SolverAnswer, world_size: int) -> SolverAnswer:
    if answer.world_sizes is None:
        raise NoWorldSizesError("no world size is admissible")
    if world_size not in answer.world_sizes:
        raise ElasticityIncompatibleWorldSize(
            f"world size {world_size} is not admissible for batch {answer.batch_size}: {answer.world_sizes}"
        )
    return _choose_micro_batch(answer, world_size)


def _choose_micro_batch(answer: SolverAnswer, world_size: int) -> SolverAnswer:
    micro = batch_heuristics.largest_micro_batch(answer.batch_size, world_size, answer.config.micro_batches)
    if micro is None:
        raise AssertionError(
            f"no micro batch of {answer.config.micro_batches} divides {answer.batch_size} // {world_size}"
        )
    return SolverAnswer(
        answer.config, answer.batch_size, answer.world_sizes, micro, True, int(world_size), answer.fallback
    )


# Checks around the solver.
#
# Source: `elasticity/elasticity.py`, `elasticity_enabled` and `ensure_immutable_elastic_config`.

_COMPARED = (
    (c.MAX_ACCEPTABLE_BATCH_SIZE, "max_acceptable_batch_size"),
    (c.MICRO_BATCHES, "micro_batches"),
    (c.VERSION, "version"),
)


def elasticity_enabled(ds_config: Mapping[str, Json]) -> bool:
    """Return the value of `enabled` in the `elasticity` block, or `False` if the key or the block is missing."""
    if c.ELASTICITY not in ds_config:
        return False
    enabled: bool = ds_config[c.ELASTICITY].get(c.ENABLED, c.ENABLED_DEFAULT)
    return enabled


def ensure_immutable_elastic_config(
    runtime_elastic_config_dict: Mapping[str, Json], *, semantics: ElasticitySemantics = LATEST
) -> None:
    """Compare an `elasticity` block with the scheduler's in `DEEPSPEED_ELASTICITY_CONFIG`.

    Raises `ElasticityConfigError` if cap, micro batches or version differ, or if a block is invalid.  If the variable
    is not set, a warning is logged.
    """
    text = os.environ.get(c.DEEPSPEED_ELASTICITY_CONFIG)
    if text is None:
        import logging

        logging.getLogger("elastic").warning(
            "%s is not set: the scheduler may resize this job to a world size it cannot run at",
            c.DEEPSPEED_ELASTICITY_CONFIG,
        )
        return
    import json

    planned = ElasticityConfig(json.loads(text), semantics=semantics)
    running = ElasticityConfig(runtime_elastic_config_dict, semantics=semantics)
    for key, attribute in _COMPARED:
        planned_value, running_value = getattr(planned, attribute), getattr(running, attribute)
        if planned_value != running_value:
            raise ElasticityConfigError(
                f"the scheduler planned with `{key}` {planned_value!r}, but this run has {running_value!r}; "
                "an elastic job must keep its block"
            )


# Parts of the solver that users import, under DeepSpeed's names.
#
# Source: `elasticity/elasticity.py`. `semantics` selects the releases.


def get_candidate_batch_sizes(
    base_list: Sequence[int], max_acceptable_batch_size: int, *, semantics: ElasticitySemantics = LATEST
) -> list[int]:
    """Scale each base by a highly composite number up to the cap; see `batch_heuristics.candidate_batches`."""
    return batch_heuristics.candidate_batches(
        base_list, max_acceptable_batch_size, keeps_to_cap=semantics.keeps_to_cap
    )


def get_valid_gpus(
    batch_size: int, micro_batches: Sequence[int], min_valid_gpus: int, max_valid_gpus: int
) -> list[int]:
    """Return, in ascending order, the world sizes for which `batch_size` splits into whole micro batches.

    Raises `ElasticityConfigError` if there are too many sizes or the batch is too large, like the other functions of
    this module.
    """
    if batch_size < 1:
        return []
    batch_heuristics.require_solvable([batch_size], micro_batches, max_valid_gpus)
    return world_sizes(batch_size, micro_batches, min_valid_gpus, max_valid_gpus)


def get_best_candidates(
    candidate_batch_sizes: Sequence[int],
    micro_batches: Sequence[int],
    min_gpus: int,
    max_gpus: int,
    prefer_larger: bool,
) -> tuple[int, list[int]]:
    """Return the candidate with the most world sizes, and these sizes.

    Raises:
        ElasticityConfigError: no candidate has a world size.
    """
    batch, sizes = batch_heuristics.best_candidate_batch(
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
    semantics: ElasticitySemantics = LATEST,
) -> tuple[int, list[int]]:
    """Return the batch size and world sizes of v0.1 for the given micro batches and cap.

    The default bounds are 1 and the cap divided by the smallest micro batch.  Raises `ValueError` (`AssertionError`
    before 0.5.8) if a micro batch exceeds the cap, and `ElasticityConfigError` if there is no world size.
    """
    batch, sizes = batch_heuristics.solve_v01_batch(
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
    semantics: ElasticitySemantics = LATEST,
) -> tuple[int, list[int], int]:
    """Return the batch size, data-parallel sizes and micro batch of v0.2 for `current_num_gpus` GPUs.

    Raises the errors of `compute_elastic_config`, also for unusable answers.
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
    batch, sizes, *micro = reject_unusable(answer)
    return batch, sizes, micro[0]


# Names in DeepSpeed's module.
_get_compatible_gpus_v01 = get_compatible_gpus_v01
_get_compatible_gpus_v02 = get_compatible_gpus_v02


# Version check of each release.
#
# Source: `elasticity/elasticity.py`, `_compatible_ds_version_check` and, up to 0.3.16, `_parse_version`.

_MINIMUM = (0, 3, 8)
_WIDTH = 20
_PADDED_MINIMUM = [str(part).zfill(_WIDTH) for part in _MINIMUM]


def check_target(release: str, semantics: ElasticitySemantics = LATEST) -> None:
    """Raise `ElasticityError` if the target DeepSpeed release is older than 0.3.8.

    Text that is not a version raises `packaging.version.InvalidVersion` (a `ValueError`).  With the semantics of 0.3.9,
    such text raises an `AssertionError`, and major, minor and patch are compared separately.
    """
    if semantics.parts_compared:
        fits = all(
            part >= least for part, least in zip(_parse_leading_version_parts(release), _MINIMUM, strict=True)
        )
    else:
        fits = _is_new_enough(release)
    if not fits:
        raise ElasticityError(
            f"target DeepSpeed {release} is older than {MINIMUM_DEEPSPEED_VERSION}, the first with elasticity"
        )


def _is_new_enough(release: str) -> bool:
    # Padded numbers compare as text: importing packaging costs more than a whole plan.
    if isinstance(release, str) and len(release) <= _WIDTH and release.isascii():
        parts = release.split(".")
        if "" not in parts and release.replace(".", "").isdigit():
            return [part.zfill(_WIDTH) for part in parts] >= _PADDED_MINIMUM
    from packaging.version import Version

    return Version(release) >= Version(MINIMUM_DEEPSPEED_VERSION)


def _parse_leading_version_parts(release: str) -> tuple[int, int, int]:
    import re

    match = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", release)
    if match is None:
        raise AssertionError(f"`{release}` is not a DeepSpeed release such as 0.3.16")
    return int(match[1]), int(match[2]), int(match[3] or 0)
