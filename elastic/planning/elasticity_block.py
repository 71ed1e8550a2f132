"""`ElasticityBlock`: the strictly validated `elasticity` block.

DeepSpeed accepts 2000.0, `True` or a numpy integer and fails later; this module rejects them and names the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from elastic import constants as c
from elastic.deepspeed.release_behavior import LATEST, Semantics
from elastic.errors import ElasticityConfigError
from elastic.json_types import Json

LARGEST_BATCH = 10**12
"""Largest batch in samples per step; more is a typo."""
LARGEST_COUNT = 10**7
"""Largest number of GPUs, ranks or minutes."""


@dataclass(frozen=True, slots=True)
class ElasticityBlock:
    """Valid, enabled `elasticity` block; micro batches are distinct and ascending."""

    max_train_batch_size: int
    """Largest batch in samples per optimizer step."""
    micro_batch_sizes: tuple[int, ...]
    """Samples per forward pass on one rank; each world size uses the largest that fits."""
    min_gpus: int
    max_gpus: int
    num_gpus_per_node: int
    model_parallel_size: int
    """GPUs per copy of the model."""
    prefer_larger_batch: bool
    """Whether the larger of two batches with as many world sizes wins."""
    ignore_non_elastic_batch_info: bool
    """Whether batch keys next to the block are overridden instead of rejected."""
    version: float
    """0.1 plans GPUs; 0.2 plans whole nodes and supports model parallelism."""

    def as_dict(self) -> dict[str, Json]:
        """Block as DeepSpeed reads it."""
        keys: dict[str, Json] = {name: getattr(self, name) for name in self.__slots__}
        return {c.ENABLED: True, **keys, c.MICRO_BATCHES: list(self.micro_batch_sizes)}

    @property
    def ranks_per_node(self) -> int:
        """Data-parallel ranks per node in v0.2, which admits only whole nodes; 1 in v0.1."""
        return self.num_gpus_per_node // self.model_parallel_size if self.version == 0.2 else 1


def read_block(config: Mapping[str, Json], semantics: Semantics = LATEST) -> ElasticityBlock:
    """Read the `elasticity` block of a DeepSpeed config.

    Raises `ElasticityConfigError`, which names the key, for anything but plain ints, bools and a version that the
    release supports, and for keys that contradict each other.
    """
    block = config.get(c.ELASTICITY) if isinstance(config, Mapping) else None
    if not isinstance(block, Mapping):
        raise ElasticityConfigError(
            "the config has no `elasticity` block" + (f" but {block!r}" if block is not None else "")
        )
    if not _read_boolean(block, c.ENABLED, c.ENABLED_DEFAULT):
        raise ElasticityConfigError("`elasticity.enabled` is false; set it to `true` to plan")
    for key in (c.MAX_ACCEPTABLE_BATCH_SIZE, c.MICRO_BATCHES):
        if key not in block:
            raise ElasticityConfigError(f"`elasticity.{key}` is missing")
    _read_positive_integer(block, c.MIN_TIME, c.MIN_TIME_DEFAULT, least=0)
    parsed = ElasticityBlock(
        max_train_batch_size=_read_integer(
            c.MAX_ACCEPTABLE_BATCH_SIZE, block[c.MAX_ACCEPTABLE_BATCH_SIZE], 1, LARGEST_BATCH
        ),
        micro_batch_sizes=_read_micro_batches(block[c.MICRO_BATCHES]),
        min_gpus=_read_positive_integer(block, c.MIN_GPUS, c.MIN_GPUS_DEFAULT),
        max_gpus=_read_positive_integer(block, c.MAX_GPUS, c.MAX_GPUS_DEFAULT),
        num_gpus_per_node=_read_positive_integer(block, c.NUM_GPUS_PER_NODE, c.NUM_GPUS_PER_NODE_DEFAULT),
        model_parallel_size=_read_positive_integer(
            block, c.MODEL_PARALLEL_SIZE, c.MODEL_PARALLEL_SIZE_DEFAULT
        ),
        prefer_larger_batch=_read_boolean(block, c.PREFER_LARGER_BATCH, c.PREFER_LARGER_BATCH_DEFAULT),
        ignore_non_elastic_batch_info=_read_boolean(
            block, c.IGNORE_NON_ELASTIC_BATCH_INFO, c.IGNORE_NON_ELASTIC_BATCH_INFO_DEFAULT
        ),
        version=_read_version(block.get(c.VERSION, semantics.latest_version), semantics),
    )
    _check_consistency(parsed)
    return parsed


def _read_integer(key: str, value: object, least: int, most: int) -> int:
    # `type` instead of `isinstance`: a bool is an int in Python, but not a number in a config.
    if type(value) is not int:
        kind = type(value).__name__
        raise ElasticityConfigError(f"`elasticity.{key}` must be a plain int, not the {kind} {value!r}")
    if not least <= value <= most:
        number = value if abs(value) < 10**30 else f"a number of {value.bit_length()} bits"
        raise ElasticityConfigError(f"`elasticity.{key}` must be from {least} to {most}, not {number}")
    return value


def _read_positive_integer(block: Mapping[str, Json], key: str, default: int, least: int = 1) -> int:
    return _read_integer(key, block.get(key, default), least, LARGEST_COUNT)


def _read_boolean(block: Mapping[str, Json], key: str, default: bool) -> bool:
    value = block.get(key, default)
    if not isinstance(value, bool):
        raise ElasticityConfigError(f"`elasticity.{key}` must be true or false, not {value!r}")
    return value


def _read_micro_batches(value: object) -> tuple[int, ...]:
    if not isinstance(value, list | tuple) or not value:
        raise ElasticityConfigError(f"`elasticity.{c.MICRO_BATCHES}` must be a list of ints, not {value!r}")
    if len(value) > c.MOST_MICRO_BATCHES:
        raise ElasticityConfigError(
            f"`elasticity.{c.MICRO_BATCHES}` has {len(value)} sizes; at most {c.MOST_MICRO_BATCHES} are supported"
        )
    sizes = {_read_integer(f"{c.MICRO_BATCHES}[{i}]", size, 1, LARGEST_BATCH) for i, size in enumerate(value)}
    return tuple(sorted(sizes))


def _read_version(value: object, semantics: Semantics) -> float:
    if type(value) is float and value in (0.1, 0.2) and value <= semantics.latest_version:
        return value
    supported = "0.1" if semantics.latest_version < 0.2 else "0.1 or 0.2"
    raise ElasticityConfigError(f"`elasticity.{c.VERSION}` must be {supported}, not {value!r}")


def _check_consistency(block: ElasticityBlock) -> None:
    if block.max_gpus < block.min_gpus:
        raise ElasticityConfigError(
            f"`elasticity.max_gpus` {block.max_gpus} is below `elasticity.min_gpus` {block.min_gpus}"
        )
    if max(block.micro_batch_sizes) > block.max_train_batch_size:
        raise ElasticityConfigError(
            f"`elasticity.micro_batch_sizes` contains {max(block.micro_batch_sizes)}, more than the "
            f"`elasticity.max_train_batch_size` of {block.max_train_batch_size}"
        )
    if block.version != 0.2 and block.model_parallel_size > 1:
        raise ElasticityConfigError(
            f"`elasticity.model_parallel_size` {block.model_parallel_size} needs `elasticity.version` 0.2"
        )
    if block.version == 0.2:
        _check_nodes(block)


def _check_nodes(block: ElasticityBlock) -> None:
    """Check the requirements of v0.2; DeepSpeed itself ignores `max_gpus` below a node, and fails on a small cap."""
    if block.num_gpus_per_node % block.model_parallel_size:
        raise ElasticityConfigError(
            f"`elasticity.num_gpus_per_node` {block.num_gpus_per_node} is not a multiple of "
            f"`elasticity.model_parallel_size` {block.model_parallel_size}"
        )
    if block.max_gpus < block.num_gpus_per_node:
        raise ElasticityConfigError(
            f"`elasticity.max_gpus` {block.max_gpus} is less than a node of `elasticity.num_gpus_per_node` "
            f"{block.num_gpus_per_node}, and v0.2 plans whole nodes"
        )
    share = block.max_train_batch_size // block.ranks_per_node
    if max(block.micro_batch_sizes) > share:
        raise ElasticityConfigError(
            f"`elasticity.max_train_batch_size` {block.max_train_batch_size} over {block.ranks_per_node} "
            f"ranks a node is {share}, less than the micro batch {max(block.micro_batch_sizes)}"
        )
