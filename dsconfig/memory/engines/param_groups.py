"""An optimizer's parameter groups, the matrices that Muon updates, and the flat partitions of a group."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import NamedTuple

from dsconfig.memory.autograd_graph import ModelParameter
from dsconfig.memory.engines.engine_setup import EngineSetup, Stage3Settings

# Partitions of stages 1 and 2: the flattened weights of a group, split evenly over ranks.

MOST_EXPERTS = 178_956_971
"""Largest number of elements in an expert group (`split_params_into_different_moe_groups_for_optimizer`)."""
ALIGNMENT = 2
"""Multiple of elements per rank to which a group is padded (`nccl_start_alignment_factor`)."""


class FlatPartition(NamedTuple):
    """One rank's partition of a group's flattened weights."""

    padded_numel: int
    """Number of elements in the flattened group, with padding."""
    numel: int
    """Number of elements in the rank's partition."""
    weights: tuple[ModelParameter, ...]
    """Parameters that overlap with the partition."""
    numel_by_weight: dict[ModelParameter, int]
    """Number of elements of each parameter inside the partition."""
    offsets: dict[ModelParameter, int]
    """Index of each parameter's first element in the flattened group."""

    @property
    def touched_numel(self) -> int:
        """Number of elements in all parameters that overlap the partition, including those outside it."""
        return sum(weight.numel for weight in self.weights)


def split_experts(weights: Sequence[ModelParameter]) -> list[list[ModelParameter]]:
    """Split parameters into shared parameters and experts."""
    kinds = ([weight for weight in weights if weight.is_expert is expert] for expert in (False, True))
    return [members for members in kinds if members]


def parameter_groups(setup: EngineSetup, weights: Sequence[ModelParameter]) -> list[list[ModelParameter]]:
    """Return the optimizer's parameter groups in order."""
    return muon_parameter_groups(setup, weights) if setup.optimizer.muon_method else optimizer_groups(weights)


def optimizer_groups(weights: Sequence[ModelParameter]) -> list[list[ModelParameter]]:
    """Return the parameter groups of an optimizer other than Muon, with experts in groups of limited size."""
    result = [[weight for weight in weights if not weight.is_expert]]
    count = MOST_EXPERTS
    for weight in weights:
        if weight.is_expert:
            count += weight.numel
            if count > MOST_EXPERTS:
                result.append([])
                count = weight.numel
            result[-1].append(weight)
    return [members for members in result if members]


def merge_partitions(partitions: Sequence[FlatPartition]) -> FlatPartition:
    """Merge the partitions of all groups into one."""
    parts, starts = dict[ModelParameter, int](), dict[ModelParameter, int]()
    for partition in partitions:
        parts |= partition.numel_by_weight
        starts |= partition.offsets
    return FlatPartition(
        sum(partition.padded_numel for partition in partitions),
        sum(partition.numel for partition in partitions),
        tuple(parts),
        parts,
        starts,
    )


def partition_of(
    weights: Sequence[ModelParameter], world: int, rank: int, round_robin: bool
) -> FlatPartition:
    """Return the partition of a rank (`DeepSpeedZeroOptimizer.__init__`, `get_partition_info`)."""
    # Spreads neighboring gradients over ranks, so that reductions of one bucket reach several of them.
    if round_robin:  # `_round_robin_reorder`
        weights = [
            weights[index]
            for start in range(min(world, len(weights)))
            for index in range(start, len(weights), world)
        ]
    # The flat group is padded to `nccl_start_alignment_factor` elements per rank (stage_1_and_2.py).
    total = sum(weight.numel for weight in weights)
    padded = -(-total // (ALIGNMENT * world)) * ALIGNMENT * world
    size = padded // world
    low, high = rank * size, (rank + 1) * size
    starts, parts, offset = {}, {}, 0
    for weight in weights:
        starts[weight] = offset
        overlap = min(offset + weight.numel, high) - max(offset, low)
        if overlap > 0:
            parts[weight] = overlap
        offset += weight.numel
    return FlatPartition(padded, size, tuple(parts), parts, starts)


def bucket_slices(
    partition_by: Callable[[ModelParameter], tuple[FlatPartition, int]],
    weights: Sequence[ModelParameter],
    merge_all: bool,
    matrices: Collection[ModelParameter] = (),
) -> list[tuple[int, int, bool]]:
    """Split a bucket into slices, each with its owner rank, its numel, and whether it belongs to an expert.

    Adjacent slices of one owner are merged (`average_tensor`), except this rank's own if fp32 gradients are
    accumulated. `partition_by` returns the partition of a weight's group and this rank's index in it. For Muon, every
    rank that owns a part of one of `matrices` receives its whole gradient.
    """
    result: list[tuple[int, int, bool]] = []
    previous: tuple[int, int, int, bool] | None = None
    for weight in weights:
        partition, rank = partition_by(weight)
        offset, end = partition.offsets[weight], partition.offsets[weight] + weight.numel
        first, last = offset // partition.numel, (end - 1) // partition.numel
        while offset < end:
            owner = offset // partition.numel
            stop = min(end, (owner + 1) * partition.numel)
            is_whole = weight in matrices
            target = (owner, *((first, last) if is_whole else (owner, owner)), weight.is_expert)
            if target == previous and (merge_all or is_whole or owner != rank):
                result[-1] = (owner, result[-1][1] + stop - offset, weight.is_expert)
            else:
                result.append((owner, stop - offset, weight.is_expert))
            previous, offset = target, stop
    return result


# Persistent parameters of stage 3, and sub-groups of shards.


def persistent_parameters(settings: Stage3Settings, weights: Sequence[ModelParameter]) -> set[ModelParameter]:
    """Return the small parameters that stay gathered (`mark_persistent_parameters`)."""
    persistent: set[ModelParameter] = set()
    total = 0
    for weight in weights:
        if (
            weight.numel + total <= settings.model_persistence_threshold
            and weight.numel <= settings.param_persistence_threshold
        ):
            persistent.add(weight)
            total += weight.numel
    return persistent


def sub_groups(settings: Stage3Settings, shards: list[int]) -> list[list[int]]:
    """Split shards into sub-groups, each closed once it reaches `sub_group_size` (`_create_fp16_sub_groups`)."""
    if settings.sub_group_size >= sum(shards):
        return [shards]
    groups: list[list[int]] = []
    group: list[int] = []
    count = 0
    for shard in shards:
        group.append(shard)
        count += shard
        if count >= settings.sub_group_size:
            groups.append(group)
            group, count = [], 0
    return [*groups, group] if group else groups


# Muon: its matrices, and the memory of one update. Sources: `deepspeed/__init__.py:set_optimizer_flags`,
# `engine._muon_param_groups`, runtime/zero/muon/.

GRAM = "gram"
"""Default `ns_method` of later releases, computed in fp16; `standard` computes in bf16."""
OTHERS = ("embed", "lm_head")
"""Parts of parameter names that mark matrices as updated by Adam."""


def is_muon(weight: ModelParameter) -> bool:
    """Return whether Muon updates a parameter, judging by its shape and name."""
    return len(weight.shape) > 1 and not any(word in weight.name.lower() for word in OTHERS)


def muon_parameter_groups(
    setup: EngineSetup, weights: Sequence[ModelParameter]
) -> list[list[ModelParameter]]:
    """Return Muon's parameter groups: matrices ordered by size, then all other parameters."""
    matrices = [weight for weight in weights if is_muon(weight)]
    # With zero.Init every shape is that of an empty tensor, so sorting changes nothing.
    if not setup.zero_init:
        matrices.sort(key=lambda weight: weight.shape, reverse=True)
    others = [weight for weight in weights if not is_muon(weight)]
    return [half for half in (matrices, others) if half]


def muon_update_peak(setup: EngineSetup, weight: ModelParameter, itemsize: int) -> int:
    """Return the peak bytes of `muon_update` for a gradient with this itemsize, including the result.

    The peak is that of eager operations; a compiled `muon_update` needs less.
    """
    method, half = setup.optimizer.muon_method, setup.half_dtype
    *batch, rows, columns = weight.shape
    if setup.quirks.muon_has_its_own_adam:
        method = "standard"
    count, short_side = weight.numel, min(rows, columns)
    dtype = half if itemsize == 2 else "fp32"
    products = 2 * prod(batch) * short_side * short_side
    half_copy = 2 * count
    if method == GRAM:
        start_peak = {"fp16": 10, "bf16": 4}.get(dtype or "", 6) * count
    else:
        start_peak = (2 if dtype == "bf16" else 4) * count
    if method == GRAM and rows != columns:
        iteration_peak = max(half_copy + 7 * products, 2 * half_copy + 4 * products)
    else:
        iteration_peak = max(4 * half_copy + 2 * products, half_copy + 5 * products)
    computed = "fp16" if method == GRAM else "bf16"
    end_peak = (2 * itemsize if dtype == computed else max(2 + itemsize, 2 * itemsize)) * count
    if setup.quirks.muon_has_its_own_adam:  # computed in bf16 for any gradient dtype
        return max(start_peak, iteration_peak)
    momentum_peak = max(2 * itemsize, 2 + itemsize) * count
    return max(start_peak, iteration_peak, end_peak, momentum_peak)
