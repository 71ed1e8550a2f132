"""Find shapes that stage 3 cannot quantize or partition within a node (ZeRO++)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

QUANTIZER_ALIGNMENT = 8
"""Multiple to which `CUDAQuantizer.quantize` requires shards to be aligned (runtime/zero/partition_parameters.py)."""


class UnevenShard(NamedTuple):
    """A module whose shards are not a multiple of the quantizer's alignment."""

    module: str
    numel: int


def padded_shard_numel(numel: int, ranks: int, parts: int) -> int:
    """Return the numel of one of `parts` shards of a parameter padded to a multiple of `ranks`."""
    return -(-numel // ranks) * ranks // parts


def find_uneven_shard(parameters: Iterable[tuple[str, int]], ranks: int, parts: int) -> UnevenShard | None:
    """Find the first module whose shards are not a multiple of the quantizer's alignment.

    `parameters` are pairs of a module name and a numel. In the first pass, stage 3 gathers each module separately
    (`PartitionedParameterCoordinator.fetch_sub_module`, runtime/zero/partitioned_param_coordinator.py), from shards of
    all ranks or from the secondary partition of a node (`_partition_param_sec`).
    """
    numel_by_module: dict[str, int] = {}
    for module, numel in parameters:
        numel_by_module[module] = numel_by_module.get(module, 0) + padded_shard_numel(numel, ranks, parts)
    return next(
        (
            UnevenShard(module, count)
            for module, count in numel_by_module.items()
            if count % QUANTIZER_ALIGNMENT
        ),
        None,
    )


class ShardPastParameterEnd(NamedTuple):
    """A parameter so small that the secondary shard of the last rank would start past its end."""

    name: str
    numel: int
    start: int


def find_shard_past_parameter_end(
    parameters: Iterable[tuple[str, int]], ranks: int, secondary: int
) -> ShardPastParameterEnd | None:
    """Find the first parameter whose last secondary shard would start past the end of the parameter.

    Up to 0.19.4, DeepSpeed narrows the parameter there, and torch raises. Source:
    `runtime/zero/partition_parameters.py:Init._partition_param_sec`.
    """
    for name, numel in parameters:
        start = padded_shard_numel(numel, ranks, secondary) * (secondary - 1)
        if start > numel:
            return ShardPastParameterEnd(name, numel, start)
    return None


def is_sent_as_int4(shape: Sequence[int], ranks: int) -> bool:
    """Return whether a gradient is sent as int4 instead of being reduce-scattered as usual.

    Source: `runtime/comm/coalesced_collectives.py:all_to_all_quant_reduce`. Before 0.14, only vectors fell
    back to a reduce-scatter.
    """
    return len(shape) > 1 and prod(shape) % (2 * ranks) == 0


class IndivisibleGroups(NamedTuple):
    """A parameter whose gradient's quantization groups do not divide evenly among ranks."""

    name: str
    groups: int


def find_indivisible_groups(
    parameters: Iterable[tuple[str, Sequence[int]]], ranks: int
) -> IndivisibleGroups | None:
    """Find the first parameter whose quantization groups do not divide evenly among ranks.

    The number of groups is the largest of the first two dimensions and the number of ranks. An all-to-all
    sends the scales in equal parts, first within a node and then between nodes.
    """
    for name, shape in parameters:
        if is_sent_as_int4(shape, ranks) and (groups := max(*shape[:2], ranks)) % ranks:
            return IndivisibleGroups(name, groups)
    return None
