"""`plan`: a table of world sizes with micro batches and accumulation steps, and the reasons why others are excluded.

DeepSpeed accepts 2000.0, `True` or a numpy integer and fails later; `ElasticityBlock` rejects them and names the key.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass

from elastic import constants as c
from elastic.deepspeed.batch_heuristics import solve_v01_batch, solve_v02_batch
from elastic.deepspeed.differences_from_deepspeed import no_world_sizes
from elastic.deepspeed.elasticity_config import ElasticityConfig
from elastic.deepspeed.release_behavior import LATEST, ElasticitySemantics
from elastic.errors import ElasticityConfigError, ElasticityIncompatibleWorldSize, NoWorldSizesError
from elastic.json_files import Json

LARGEST_BATCH = 10**12
"""Largest accepted batch in samples per step; anything above is a typo."""
LARGEST_COUNT = 10**7
"""Largest accepted number of GPUs, ranks or minutes in an `elasticity` block."""


@dataclass(frozen=True, slots=True)
class ElasticityBlock:
    """A valid, enabled `elasticity` block, whose micro batches are distinct and ascending."""

    max_train_batch_size: int
    """Largest batch in samples per optimizer step."""
    micro_batch_sizes: tuple[int, ...]
    """Allowed numbers of samples per forward pass on one rank; each world size uses the largest that fits."""
    min_gpus: int
    max_gpus: int
    num_gpus_per_node: int
    model_parallel_size: int
    """Number of GPUs per copy of the model."""
    prefer_larger_batch: bool
    """Whether the larger batch wins if two batches admit the same number of world sizes."""
    ignore_non_elastic_batch_info: bool
    """Whether batch keys outside the `elasticity` block are overridden instead of rejected."""
    version: float
    """Version of elasticity: 0.1 plans GPUs; 0.2 plans whole nodes and supports model parallelism."""

    def as_dict(self) -> dict[str, Json]:
        """Return the block as a dict with DeepSpeed's keys."""
        keys: dict[str, Json] = {name: getattr(self, name) for name in self.__slots__}
        return {c.ENABLED: True, **keys, c.MICRO_BATCHES: list(self.micro_batch_sizes)}

    @property
    def ranks_per_node(self) -> int:
        """Number of data-parallel ranks per node in v0.2, which admits only whole nodes; 1 in v0.1."""
        return self.num_gpus_per_node // self.model_parallel_size if self.version == 0.2 else 1


def read_block(config: Mapping[str, Json], semantics: ElasticitySemantics = LATEST) -> ElasticityBlock:
    """Read the `elasticity` block of a DeepSpeed config.

    Raises:
        ElasticityConfigError: a value is not a plain int or bool, the release does not support the version, or keys
            contradict each other; the message names the key.
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


def _read_version(value: object, semantics: ElasticitySemantics) -> float:
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
    """Check what v0.2 requires; DeepSpeed ignores a `max_gpus` below one node, and fails for a small cap."""
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


# The batch is the heuristic's, so a job planned here runs as with DeepSpeed 0.19.7. Only `Plan.apply` replaces the
# `elasticity` block of a config by the batch triplet.


@dataclass(frozen=True, slots=True)
class Plan:
    """A batch size with a row for every admissible world size, in ascending order.

    *World size* counts data-parallel ranks; *GPUs* are ranks times `model_parallel_size`.
    """

    block: ElasticityBlock
    batch_size: int
    """Number of samples per optimizer step, the same in every row."""
    rows: tuple[PlanRow, ...]
    semantics: ElasticitySemantics
    notes: tuple[str, ...] = ()
    """Notes on how the DeepSpeed releases treat this block in ways that its author may not expect."""

    @property
    def world_sizes(self) -> tuple[int, ...]:
        """Admissible data-parallel world sizes, in ascending order."""
        return tuple(row.world_size for row in self.rows)

    @property
    def gpu_counts(self) -> tuple[int, ...]:
        """Number of GPUs of each row, in ascending order."""
        return tuple(row.gpus for row in self.rows)

    def admits(self, world_size: int) -> bool:
        """Return whether the plan has a row for this data-parallel world size."""
        return self._find(world_size) is not None

    def row(self, world_size: int) -> PlanRow:
        """Return the row for a data-parallel world size.

        Raises:
            ElasticityIncompatibleWorldSize: the size is not admissible; the message gives the reason.
        """
        match = self._find(world_size)
        if match is None:
            raise ElasticityIncompatibleWorldSize(self.why_not(world_size) or "")
        return match

    def row_for_gpus(self, gpus: int) -> PlanRow:
        """Return the row with exactly this number of GPUs.

        Raises:
            ElasticityIncompatibleWorldSize: there is no such row.
        """
        model = self.block.model_parallel_size
        if gpus % model:
            arithmetic = f"{gpus} = {gpus // model} x {model} + {gpus % model}"
            raise ElasticityIncompatibleWorldSize(
                f"{gpus} GPUs are not a multiple of `model_parallel_size` {model}: {arithmetic}"
            )
        return self.row(gpus // model)

    def next_up(self, world_size: int) -> int | None:
        """Return the smallest admissible world size above `world_size`, or `None` if there is none."""
        index = bisect_right(self.world_sizes, world_size)
        return self.rows[index].world_size if index < len(self.rows) else None

    def next_down(self, world_size: int) -> int | None:
        """Return the largest admissible world size below `world_size`, or `None` if there is none."""
        index = bisect_left(self.world_sizes, world_size)
        return self.rows[index - 1].world_size if index else None

    def why_not(self, world_size: int) -> str | None:
        """Return why `world_size` is not admissible, with the arithmetic and the nearest sizes, or `None` if it is."""
        if self.admits(world_size):
            return None
        neighbors = [
            size for size in (self.next_down(world_size), self.next_up(world_size)) if size is not None
        ]
        return (
            f"{why_not_admissible(self.block, self.batch_size, world_size)}; nearest: "
            f"{' or '.join(map(str, neighbors))}"
        )

    def fallback(self, world_size: int) -> PlanRow | None:
        """Return v0.2's row for an inadmissible size, with a batch for this size only, or `None` in v0.1.

        Training continues, but with different samples per step.

        Raises:
            ElasticityIncompatibleWorldSize: not even one micro batch per rank fits the cap.
        """
        return fallback_row(self.block, world_size) if self.block.version == 0.2 else None

    def apply(
        self, config: Mapping[str, Json], world_size: int, *, fallback: bool = False
    ) -> dict[str, Json]:
        """Return a copy of `config` in which this world size's batch triplet replaces the `elasticity` block.

        With `fallback`, an inadmissible size uses v0.2's batch, as in DeepSpeed.  Raises
        `ElasticityIncompatibleWorldSize` for an inadmissible size otherwise, and `ElasticityConfigError` if the config
        also sets batch keys without `ignore_non_elastic_batch_info` (`runtime/config.py`, `DeepSpeedConfig.__init__`).
        """
        row = self._find(world_size) or (self.fallback(world_size) if fallback else None)
        return apply_row(config, row or self.row(world_size), self.block.ignore_non_elastic_batch_info)

    def _find(self, world_size: int) -> PlanRow | None:
        index = bisect_left(self.rows, world_size, key=lambda row: row.world_size)
        return (
            self.rows[index] if index < len(self.rows) and self.rows[index].world_size == world_size else None
        )


def plan(config: Mapping[str, Json], *, semantics: ElasticitySemantics = LATEST) -> Plan:
    """Plan the batch and its world sizes for the `elasticity` block of a DeepSpeed config.

    Raises:
        ElasticityConfigError: the block is invalid, admits no world size, or (releases up to 0.19.5) has a batch above
            the cap; the message names the key.
    """
    block = read_block(config, semantics)
    lenient = ElasticityConfig(block.as_dict(), semantics=semantics)
    batch, sizes = _heuristic_batch(lenient, block, semantics)
    if not sizes:
        raise ElasticityConfigError(no_world_sizes(lenient))
    if batch > block.max_train_batch_size:
        raise ElasticityConfigError(
            f"batch {batch}, the least common multiple of `elasticity.micro_batch_sizes`, exceeds "
            f"`elasticity.max_train_batch_size` {block.max_train_batch_size}; 0.19.6 plans below it"
        )
    return Plan(block, batch, make_rows(block, batch, sizes), semantics, _plan_notes(block))


def _heuristic_batch(
    config: ElasticityConfig, block: ElasticityBlock, semantics: ElasticitySemantics
) -> tuple[int, list[int] | None]:
    if block.version == 0.2:
        try:
            return solve_v02_batch(config, semantics)
        except NoWorldSizesError:
            return 0, None
    cap, prefer_larger = block.max_train_batch_size, block.prefer_larger_batch
    return solve_v01_batch(
        block.micro_batch_sizes, cap, block.min_gpus, block.max_gpus, prefer_larger, semantics
    )


def _plan_notes(block: ElasticityBlock) -> tuple[str, ...]:
    node = block.num_gpus_per_node
    if block.version == 0.2 and block.min_gpus % node and block.min_gpus > 1:
        whole = max(block.min_gpus // node, 1)
        return (f"`min_gpus` {block.min_gpus} is rounded down to {whole} whole nodes, {whole * node} GPUs",)
    return ()


# Rows.


@dataclass(frozen=True, slots=True)
class PlanRow:
    """The batch at one data-parallel world size, as micro batch x accumulation steps x world size."""

    world_size: int
    """Number of data-parallel ranks."""
    micro_batch_size: int
    """Number of samples per forward pass on one rank: the largest micro batch that fits."""
    accumulation_steps: int
    """Number of forward and backward passes per optimizer step."""
    batch_size: int
    """Number of samples per optimizer step, over all ranks."""
    gpus: int
    """Number of GPUs: ranks times `model_parallel_size`."""
    nodes: int
    """Number of nodes with `num_gpus_per_node` GPUs each; the last node may be partially used."""


def make_rows(block: ElasticityBlock, batch: int, sizes: Iterable[int]) -> tuple[PlanRow, ...]:
    """Return a row for each world size; some micro batch must divide each rank's share of the batch."""
    return tuple(_make_row(block, batch, size) for size in sizes)


def _make_row(block: ElasticityBlock, batch: int, world_size: int) -> PlanRow:
    share = batch // world_size
    micro = max(size for size in block.micro_batch_sizes if share % size == 0)
    gpus = world_size * block.model_parallel_size
    return PlanRow(world_size, micro, share // micro, batch, gpus, -(-gpus // block.num_gpus_per_node))


def fallback_row(block: ElasticityBlock, world_size: int) -> PlanRow:
    """Return v0.2's row for a size outside its list, using the largest batch under the cap for this size.

    Each micro batch has a largest batch; without `prefer_larger_batch`, the smallest of these is used. Source:
    `elasticity/elasticity.py`, `_get_compatible_gpus_v02`, which counts GPUs where this function counts ranks.
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


def apply_row(config: Mapping[str, Json], row: PlanRow, ignore_batch_keys: bool) -> dict[str, Json]:
    """Return a deep copy of `config` in which the batch triplet of `row` replaces the `elasticity` block."""
    batch_keys = [key for key in c.BATCH_KEYS if key in config]
    if batch_keys and not ignore_batch_keys:
        raise ElasticityConfigError(
            f"`{'`, `'.join(batch_keys)}` and `elasticity` both set the batch; remove them, or set "
            "`elasticity.ignore_non_elastic_batch_info` to override them"
        )
    result = {key: deepcopy(value) for key, value in config.items() if key != c.ELASTICITY}
    result[c.TRAIN_BATCH_SIZE] = row.batch_size
    result[c.TRAIN_MICRO_BATCH_SIZE_PER_GPU] = row.micro_batch_size
    result[c.GRADIENT_ACCUMULATION_STEPS] = row.accumulation_steps
    return result


# Reasons, with their arithmetic.


def why_not_admissible(block: ElasticityBlock, batch: int, world_size: int) -> str:
    """Return the first reason why the plan for `batch` excludes `world_size` (data-parallel ranks)."""
    if type(world_size) is not int or world_size < 1:
        return f"world size must be an int of at least 1, not {world_size!r}"
    per_node = block.ranks_per_node
    if world_size % per_node:
        nodes, rest = divmod(world_size, per_node)
        return (
            f"world size {world_size} is not a whole number of nodes: {world_size} = {nodes} nodes x "
            f"{per_node} ranks + {rest}"
        )
    return _why_outside_range(block, world_size) or _why_indivisible(block, batch, world_size)


def _why_outside_range(block: ElasticityBlock, world_size: int) -> str | None:
    model = block.model_parallel_size
    gpus = world_size * model
    gpu_count = f"{world_size} x {model} = {gpus} GPUs" if model > 1 else f"{gpus} GPUs"
    # v0.2 rounds `min_gpus` down to whole nodes.
    node = block.num_gpus_per_node if block.version == 0.2 else 1
    if gpus < block.min_gpus // node * node:
        return f"world size {world_size} is {gpu_count}, below `min_gpus` {block.min_gpus}"
    if gpus > block.max_gpus:
        return f"world size {world_size} is {gpu_count}, above `max_gpus` {block.max_gpus}"
    return None


def _why_indivisible(block: ElasticityBlock, batch: int, world_size: int) -> str:
    share, rest = divmod(batch, world_size)
    if rest:
        arithmetic = f"{batch} = {world_size} x {share} + {rest}"
        return f"world size {world_size} does not divide batch {batch}: {arithmetic}"
    return (
        f"at world size {world_size} a rank's share of batch {batch} is {batch} / {world_size} = {share} "
        f"samples, which no micro batch of {list(block.micro_batch_sizes)} divides"
    )
