"""How stages 1 and 2 cut the flat weights of a group into one piece for each rank."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dsconfig.sizing.tape import Weight

ALIGNMENT = 2
"""Elements, for each rank (`nccl_start_alignment_factor`)."""


class Partition(NamedTuple):
    """The piece of one rank."""

    padded: int
    """Elements of the flat weights with their padding."""
    size: int
    """Elements of a piece."""
    own: tuple[Weight, ...]
    """Parameters that the piece touches."""
    parts: dict[Weight, int]
    """How many elements of each are in it."""
    starts: dict[Weight, int]
    """Where each parameter begins."""

    @property
    def whole(self) -> int:
        """Elements of the parameters that it touches, whole."""
        return sum(weight.elements for weight in self.own)


def partition(weights: Sequence[Weight], world: int, rank: int, round_robin: bool) -> Partition:
    """The piece of a rank (`DeepSpeedZeroOptimizer.__init__`, `get_partition_info`)."""
    if round_robin:  # `_round_robin_reorder`
        weights = [
            weights[index]
            for start in range(min(world, len(weights)))
            for index in range(start, len(weights), world)
        ]
    total = sum(weight.elements for weight in weights)
    padded = -(-total // (ALIGNMENT * world)) * ALIGNMENT * world
    size = padded // world
    low, high = rank * size, (rank + 1) * size
    starts, parts, at = {}, {}, 0
    for weight in weights:
        starts[weight] = at
        inside = min(at + weight.elements, high) - max(at, low)
        if inside > 0:
            parts[weight] = inside
        at += weight.elements
    return Partition(padded, size, tuple(parts), parts, starts)


def slices(cut: Partition, weights: Sequence[Weight], merge_all: bool, rank: int) -> list[tuple[int, int]]:
    """Of each stretch of a bucket the rank that it is for, and its elements (`average_tensor`).

    Neighbours for one rank are one stretch, but not those for this rank where fp32 gradients are accumulated.
    """
    found: list[tuple[int, int]] = []
    for weight in weights:
        at, end = cut.starts[weight], cut.starts[weight] + weight.elements
        while at < end:
            to = at // cut.size
            stop = min(end, (to + 1) * cut.size)
            if found and found[-1][0] == to and (merge_all or to != rank):
                found[-1] = (to, found[-1][1] + stop - at)
            else:
                found.append((to, stop - at))
            at = stop
    return found
