"""The functions users import from `deepspeed.elasticity`, with the same signatures, results and error types.

`as_released` gives a release's very answer, usable or not; `compute_elastic_config` is the same with the
unusable ones refused (`differences` lists them all).  Source: `elasticity/elasticity.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from elastic import constants as c
from elastic.deepspeed import heuristic
from elastic.deepspeed.config import ElasticityConfig
from elastic.deepspeed.differences import Result, no_world_sizes, refuse_unusable
from elastic.deepspeed.heuristic_v02 import solve_v02
from elastic.deepspeed.semantics import LATEST, Semantics
from elastic.deepspeed.solver_result import Answer
from elastic.deepspeed.version_check import check_target
from elastic.errors import ElasticityConfigError, ElasticityIncompatibleWorldSize, NoWorldSizesError
from elastic.json_types import Json


def compute_elastic_config(
    ds_config: Mapping[str, Json],
    target_deepspeed_version: str,
    world_size: int = 0,
    return_microbatch: bool = False,
    *,
    semantics: Semantics = LATEST,
) -> Result:
    """Batch size, its world sizes and, where asked for by a world size or `return_microbatch`, a micro batch.

    `world_size` counts data-parallel ranks in v0.1.  v0.2 takes it for GPUs when it plans and for ranks
    when it checks, as DeepSpeed does, so with `model_parallel_size` > 1 prefer `elastic.plan`.  0 leaves it
    open; v0.2 then reads the environment's `WORLD_SIZE`.

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
    return refuse_unusable(answer)


def as_released(
    ds_config: Mapping[str, Json],
    target_deepspeed_version: str,
    world_size: int = 0,
    return_microbatch: bool = False,
    *,
    semantics: Semantics = LATEST,
) -> Answer:
    """The answer of the releases that `semantics` names, even an unusable one; raises their error types."""
    config = _checked_config(ds_config, semantics)
    if return_microbatch and semantics.latest_version < 0.2:
        raise TypeError("`return_microbatch` came with DeepSpeed 0.7.0")
    version = float(config.version)
    if config.model_parallel_size > 1 and version != 0.2:
        raise ElasticityConfigError(
            f"`model_parallel_size` {config.model_parallel_size} needs `version` 0.2, not {config.version}"
        )
    if version > semantics.latest_version:
        raise ElasticityConfigError(
            f"elasticity `version` {config.version} is above {semantics.latest_version}, the latest known"
        )
    check_target(target_deepspeed_version, semantics)
    if version == 0.1:
        answer = _solve_v01(config, semantics)
    elif version == 0.2:
        gpus = world_size if world_size != 0 else _environment_world_size("elasticity v0.2")
        answer = solve_v02(config, gpus, semantics)
    else:
        raise NotImplementedError(f"elasticity `version` {config.version} does not exist; 0.1 and 0.2 do")
    return _for_world_size(answer, world_size, return_microbatch, semantics)


def _checked_config(ds_config: Mapping[str, Json], semantics: Semantics) -> ElasticityConfig:
    if not isinstance(ds_config, dict):
        raise ValueError(f"the config must be a dict, not a {type(ds_config).__name__}: {ds_config!r}")
    if c.ELASTICITY not in ds_config:
        raise ElasticityConfigError("the config has no `elasticity` block")
    block = ds_config[c.ELASTICITY]
    if not hasattr(block, "get"):
        raise AttributeError(f"`elasticity` must be an object, not {block!r}")
    if not block.get(c.ENABLED, c.ENABLED_DEFAULT):
        raise ElasticityConfigError("`elasticity` is not enabled; write `enabled: true` into it")
    return ElasticityConfig(block, semantics=semantics)


def _solve_v01(config: ElasticityConfig, semantics: Semantics) -> Answer:
    batch, sizes = heuristic.compatible_v01(
        config.micro_batches,
        config.max_acceptable_batch_size,
        config.min_gpus,
        config.max_gpus,
        config.prefer_larger_batch_size,
        semantics,
    )
    return Answer(config, batch, sizes)


def _environment_world_size(who: str) -> int:
    text = os.environ.get(c.WORLD_SIZE)
    if text is not None and text.isnumeric():
        return int(text)
    raise ElasticityConfigError(
        f"{who} needs a world size: pass `world_size`, or set the environment's WORLD_SIZE, which is {text!r}"
    )


def _for_world_size(answer: Answer, world_size: int, return_microbatch: bool, semantics: Semantics) -> Answer:
    if world_size > 0:
        return _with_micro_batch(answer, world_size)
    if not return_microbatch:
        if not answer.has_micro_batch:
            return answer
        return Answer(answer.config, answer.batch_size, answer.world_sizes, fallback=answer.fallback)
    if float(answer.config.version) == 0.2:
        return answer
    if semantics.reads_world_size:
        return _with_micro_batch(answer, _environment_world_size("the micro batch of elasticity v0.1"))
    # Up to 0.19.5 the unset 0 is divided by: ZeroDivisionError, and a negative size gets an answer.
    return _chosen_micro_batch(answer, world_size)


def _with_micro_batch(answer: Answer, world_size: int) -> Answer:
    if answer.world_sizes is None:
        raise NoWorldSizesError("no world size is admissible")
    if world_size not in answer.world_sizes:
        raise ElasticityIncompatibleWorldSize(
            f"world size {world_size} is not one of those of batch {answer.batch_size}: {answer.world_sizes}"
        )
    return _chosen_micro_batch(answer, world_size)


def _chosen_micro_batch(answer: Answer, world_size: int) -> Answer:
    micro = heuristic.largest_micro_batch(answer.batch_size, world_size, answer.config.micro_batches)
    if micro is None:
        raise AssertionError(
            f"no micro batch of {answer.config.micro_batches} divides {answer.batch_size} // {world_size}"
        )
    return Answer(
        answer.config, answer.batch_size, answer.world_sizes, micro, True, int(world_size), answer.fallback
    )
