"""Elasticity v0.2: whole nodes and model parallelism on top of the v0.1 heuristic.

Source: `elasticity/elasticity.py`, `_get_compatible_gpus_v02` (0.7.0 to 0.19.7).  The truncating divisions,
the floats of the fallback and the division by GPUs in place of ranks are DeepSpeed's, and decide its
answers.
"""

from __future__ import annotations

import math

from elastic.deepspeed.config import ElasticityConfig
from elastic.deepspeed.heuristic import compatible_v01, require_number
from elastic.deepspeed.semantics import LATEST, Semantics
from elastic.deepspeed.solver_result import Answer
from elastic.errors import ElasticityError, NoWorldSizesError


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
