"""Parameter groups of an optimizer, with Muon's split, and the flat partition of a group over ranks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import NamedTuple

from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Weight

# How stages 1 and 2 cut the flat weights of a group into one piece for each rank.

MOST_EXPERTS = 178_956_971
"""Elements of a group of experts (`split_params_into_different_moe_groups_for_optimizer`)."""
ALIGNMENT = 2
"""Elements, for each rank (`nccl_start_alignment_factor`)."""


class Partition(NamedTuple):
    """The piece of one rank."""

    padded_numel: int
    """Elements of the flat weights with their padding."""
    numel: int
    """Elements of a piece."""
    weights: tuple[Weight, ...]
    """Parameters that the piece touches."""
    numel_by_weight: dict[Weight, int]
    """How many elements of each are in it."""
    offsets: dict[Weight, int]
    """Where each parameter begins."""

    @property
    def touched_numel(self) -> int:
        """Elements of the parameters that it touches, whole."""
        return sum(weight.numel for weight in self.weights)


def split_experts(weights: Sequence[Weight]) -> list[list[Weight]]:
    """What all ranks share, then experts, which fewer do."""
    kinds = ([weight for weight in weights if weight.is_expert is expert] for expert in (False, True))
    return [members for members in kinds if members]


def optimizer_groups(weights: Sequence[Weight]) -> list[list[Weight]]:
    """Groups of the optimizer: all parameters but experts, then these, so many at a time."""
    found = [[weight for weight in weights if not weight.is_expert]]
    count = MOST_EXPERTS
    for weight in weights:
        if weight.is_expert:
            count += weight.numel
            if count > MOST_EXPERTS:
                found.append([])
                count = weight.numel
            found[-1].append(weight)
    return [members for members in found if members]


def merge_partitions(partitions: Sequence[Partition]) -> Partition:
    """The pieces of all groups together."""
    parts, starts = dict[Weight, int](), dict[Weight, int]()
    for partition in partitions:
        parts |= partition.numel_by_weight
        starts |= partition.offsets
    return Partition(
        sum(partition.padded_numel for partition in partitions),
        sum(partition.numel for partition in partitions),
        tuple(parts),
        parts,
        starts,
    )


def partition_of(weights: Sequence[Weight], world: int, rank: int, round_robin: bool) -> Partition:
    """The piece of a rank (`DeepSpeedZeroOptimizer.__init__`, `get_partition_info`)."""
    if round_robin:  # `_round_robin_reorder`
        weights = [
            weights[index]
            for start in range(min(world, len(weights)))
            for index in range(start, len(weights), world)
        ]
    total = sum(weight.numel for weight in weights)
    padded = -(-total // (ALIGNMENT * world)) * ALIGNMENT * world
    size = padded // world
    low, high = rank * size, (rank + 1) * size
    starts, parts, at = {}, {}, 0
    for weight in weights:
        starts[weight] = at
        inside = min(at + weight.numel, high) - max(at, low)
        if inside > 0:
            parts[weight] = inside
        at += weight.numel
    return Partition(padded, size, tuple(parts), parts, starts)


def bucket_slices(
    partition_by: Callable[[Weight], tuple[Partition, int]],
    weights: Sequence[Weight],
    merge_all: bool,
    matrices: Collection[Weight] = (),
) -> list[tuple[int, int, bool]]:
    """Of each stretch of a bucket the rank that it is for, its elements, and whether of experts.

    Neighbours for one rank are one stretch (`average_tensor`), but not those for this rank where fp32
    gradients are accumulated. `cut_of`: the piece of a weight's group, and the rank in the group. Every
    rank that has a part of one of `matrices` gets all of its gradient, for Muon.
    """
    found: list[tuple[int, int, bool]] = []
    last: tuple[int, int, int, bool] | None = None
    for weight in weights:
        partition, rank = partition_by(weight)
        at, end = partition.offsets[weight], partition.offsets[weight] + weight.numel
        first, final = at // partition.numel, (end - 1) // partition.numel
        while at < end:
            to = at // partition.numel
            stop = min(end, (to + 1) * partition.numel)
            whole = weight in matrices
            wanted = (to, *((first, final) if whole else (to, to)), weight.is_expert)
            if wanted == last and (merge_all or whole or to != rank):
                found[-1] = (to, found[-1][1] + stop - at, weight.is_expert)
            else:
                found.append((to, stop - at, weight.is_expert))
            last, at = wanted, stop
    return found


# Muon's two halves of a model, and what an update of one of its matrices needs.
#
# `deepspeed/__init__.py:set_optimizer_flags`, `engine._muon_param_groups` and `runtime/zero/muon/`.

GRAM = "gram"
"""The way to orthogonalise, in fp16, that later releases take by default; `standard` takes bf16."""
OTHERS = ("embed", "lm_head")
"""Parts of names whose matrices stay with Adam."""


def is_muon(weight: Weight) -> bool:
    """Whether Muon updates it, by its shape and its name."""
    return len(weight.shape) > 1 and not any(word in weight.name.lower() for word in OTHERS)


def muon_halves(setup: Setup, weights: Sequence[Weight]) -> list[list[Weight]]:
    """The groups of parameters in their order: one, or with Muon its matrices by size and then the rest."""
    if not setup.optimizer.muon_method:
        return [list(weights)]
    matrices = [weight for weight in weights if is_muon(weight)]
    if not setup.zero_init:  # there every shape is that of an empty tensor
        matrices.sort(key=lambda weight: weight.shape, reverse=True)
    others = [weight for weight in weights if not is_muon(weight)]
    return [half for half in (matrices, others) if half]


def muon_update_peak(setup: Setup, weight: Weight, itemsize: int) -> int:
    """The peak of `muon_update` for a gradient of this width, in bytes, with the new tensor among them.

    Its eager operations are counted: where torch compiles them they hold less.
    """
    method, half = setup.optimizer.muon_method, setup.half_dtype
    *batch, rows, columns = weight.shape
    if setup.quirks.has_separate_muon_adam:
        method = "standard"
    count, short = weight.numel, min(rows, columns)
    kind = half if itemsize == 2 else "fp32"
    products = 2 * prod(batch) * short * short
    whole = 2 * count
    if method == GRAM:
        begin = {"fp16": 10, "bf16": 4}.get(kind or "", 6) * count
    else:
        begin = (2 if kind == "bf16" else 4) * count
    if method == GRAM and rows != columns:
        inside = max(whole + 7 * products, 2 * whole + 4 * products)
    else:
        inside = max(4 * whole + 2 * products, whole + 5 * products)
    computed = "fp16" if method == GRAM else "bf16"
    end = (2 * itemsize if kind == computed else max(2 + itemsize, 2 * itemsize)) * count
    if setup.quirks.has_separate_muon_adam:  # in bf16, whatever the gradient is
        return max(begin, inside)
    momentum = max(2 * itemsize, 2 + itemsize) * count
    return max(begin, inside, end, momentum)
