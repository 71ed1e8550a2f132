"""`Row`: one line of a plan, and writing it into a config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass

from elastic import constants as c
from elastic.errors import ElasticityConfigError, ElasticityIncompatibleWorldSize
from elastic.json_types import Json
from elastic.planning.block import Block


@dataclass(frozen=True, slots=True)
class Row:
    """How one data-parallel world size makes up the batch: micro batch x accumulation x world size."""

    world_size: int
    """Data-parallel ranks."""
    micro_batch_size: int
    """Samples a forward pass on one rank; the largest that fits."""
    accumulation_steps: int
    """Forward and backward passes an optimizer step."""
    batch_size: int
    """Samples an optimizer step, over all ranks."""
    gpus: int
    """Ranks times `model_parallel_size`."""
    nodes: int
    """Nodes of `num_gpus_per_node` that these GPUs fill, the last perhaps in part."""


def make_rows(block: Block, batch: int, sizes: Iterable[int]) -> tuple[Row, ...]:
    """A row for each world size, at each of which some micro batch divides the share of a rank."""
    return tuple(_make_row(block, batch, size) for size in sizes)


def _make_row(block: Block, batch: int, world_size: int) -> Row:
    share = batch // world_size
    micro = max(size for size in block.micro_batch_sizes if share % size == 0)
    gpus = world_size * block.model_parallel_size
    return Row(world_size, micro, share // micro, batch, gpus, -(-gpus // block.num_gpus_per_node))


def fallback_row(block: Block, world_size: int) -> Row:
    """What v0.2 makes of a size outside its list: the largest batch under the cap for that size alone.

    Without `prefer_larger_batch` the smallest of those that each micro batch gives.  Source:
    `elasticity/elasticity.py`, `_get_compatible_gpus_v02`; ranks are counted here, where DeepSpeed counts
    GPUs.
    """
    if type(world_size) is not int or world_size < 1:
        raise ElasticityIncompatibleWorldSize(f"world size must be an int of at least 1, not {world_size!r}")
    cap = block.max_train_batch_size
    batches = [cap // (micro * world_size) * micro * world_size for micro in block.micro_batch_sizes]
    batch = max(batches) if block.prefer_larger_batch else min(batches)
    if batch == 0:
        raise ElasticityIncompatibleWorldSize(
            f"{world_size} ranks with micro batches {list(block.micro_batch_sizes)} do not fit "
            f"`max_train_batch_size` {cap}: one step takes at least "
            f"{min(block.micro_batch_sizes)} x {world_size} = {min(block.micro_batch_sizes) * world_size}"
        )
    return _make_row(block, batch, world_size)


def apply_row(config: Mapping[str, Json], row: Row, ignore_batch_keys: bool) -> dict[str, Json]:
    """A deep copy of `config` with the triplet of `row` in place of the `elasticity` block."""
    written = [key for key in c.BATCH_KEYS if key in config]
    if written and not ignore_batch_keys:
        raise ElasticityConfigError(
            f"`{'`, `'.join(written)}` and `elasticity` both set the batch; remove them, or set "
            "`elasticity.ignore_non_elastic_batch_info` to have them overridden"
        )
    applied = {key: deepcopy(value) for key, value in config.items() if key != c.ELASTICITY}
    applied[c.TRAIN_BATCH_SIZE] = row.batch_size
    applied[c.TRAIN_MICRO_BATCH_SIZE_PER_GPU] = row.micro_batch_size
    applied[c.GRADIENT_ACCUMULATION_STEPS] = row.accumulation_steps
    return applied
