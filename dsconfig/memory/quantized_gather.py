"""What stage 3 can quantise as it sends it (`zero_quantized_weights`, `zero_quantized_gradients`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.memory.engines.setup import Setup
    from dsconfig.memory.graph import Tape, Weight

QUANTIZER_ALIGNMENT = 8
"""What `CUDAQuantizer.quantize` (runtime/zero/partition_parameters.py) wants a multiple of."""

_WAYS_OUT = "remove it, or change the number of GPUs"


class Uneven(NamedTuple):
    """A module whose parts of a rank are together no multiple of eight elements."""

    module: str
    numel: int


def padded_shard_numel(numel: int, ranks: int, parts: int) -> int:
    """Elements of each of so many parts of a parameter, which is padded to a multiple of all ranks."""
    return -(-numel // ranks) * ranks // parts


def uneven(parameters: Iterable[tuple[str, int]], ranks: int, parts: int) -> Uneven | None:
    """The first such module, of parameters by their module's name and elements.

    In its first pass stage 3 gathers the parameters of each module by themselves
    (`runtime/zero/partitioned_param_coordinator.py:PartitionedParameterCoordinator.fetch_sub_module`), from
    shards of all ranks or from parts of a node's copy (`_partition_param_sec`).
    """
    numel_by_module: dict[str, int] = {}
    for module, numel in parameters:
        numel_by_module[module] = numel_by_module.get(module, 0) + padded_shard_numel(numel, ranks, parts)
    return next(
        (Uneven(module, count) for module, count in numel_by_module.items() if count % QUANTIZER_ALIGNMENT),
        None,
    )


class Behind(NamedTuple):
    """A parameter so short that some rank's part of the copy would start past its end."""

    name: str
    numel: int
    start: int


def behind(parameters: Iterable[tuple[str, int]], ranks: int, secondary: int) -> Behind | None:
    """The first such parameter; DeepSpeed narrows it there and torch raises, up to 0.19.4.

    Source: `runtime/zero/partition_parameters.py:Init._partition_param_sec`.
    """
    for name, numel in parameters:
        start = padded_shard_numel(numel, ranks, secondary) * (secondary - 1)
        if start > numel:
            return Behind(name, numel, start)
    return None


def sent_as_int4(shape: Sequence[int], ranks: int) -> bool:
    """Whether a gradient is quantised, or falls back to a reduce-scatter.

    Source: `runtime/comm/coalesced_collectives.py:all_to_all_quant_reduce`; before 0.14 nothing fell back but
    vectors.
    """
    return len(shape) > 1 and prod(shape) % (2 * ranks) == 0


class Divided(NamedTuple):
    """A parameter whose gradient is quantised in groups that ranks do not share evenly."""

    name: str
    groups: int


def divided(parameters: Iterable[tuple[str, Sequence[int]]], ranks: int) -> Divided | None:
    """The first such parameter, of names and shapes.

    There are as many groups as the longer of the first two dimensions, or as ranks. Their scales are sent in
    equal parts by an all-to-all in the node, and those of what is summed up there by one between nodes.
    """
    for name, shape in parameters:
        if sent_as_int4(shape, ranks) and (groups := max(*shape[:2], ranks)) % ranks:
            return Divided(name, groups)
    return None


def reject_uneven_gather(setup: Setup, weights: Sequence[Weight], second: bool) -> None:
    """The same of what is gathered by one call, of shards or of parts of a node's copy.

    With `zero_hpz_partition_size` the first forward pass gathers parts of the copy, module by module. The
    step drops the copy, and later ones gather shards of several modules at once: one's own may be uneven.

    Raises:
        NotModelledError: they are not even together.
    """
    ranks, parts = setup.dp_world_size, setup.hpz_size if second else setup.dp_world_size
    count = sum(padded_shard_numel(weight.numel, ranks, parts) for weight in weights)
    if ranks > 1 and count % QUANTIZER_ALIGNMENT:
        raise uneven_error(Uneven(weights[0].name, count))


def uneven_error(found: Uneven) -> NotModelledError:
    """What is said of it."""
    return NotModelledError(
        f"DeepSpeed stops with `zero_optimization.zero_quantized_weights`: a rank's part of"
        f" `{found.module}` has {found.numel:,} elements, no multiple of {QUANTIZER_ALIGNMENT}",
        _WAYS_OUT,
    )


def reject_quantized(setup: Setup, tape: Tape) -> None:
    """What DeepSpeed itself stops with.

    Raises:
        NotModelledError: weights or gradients cannot be quantised on so many ranks.
    """
    ranks, copies = setup.dp_world_size, setup.hpz_size > 1
    sizes = [(weight.name, weight.numel) for weight in tape.weights if copies or setup.quantized_weights]
    if copies and setup.quirks.narrows_past_end:
        short = behind(sizes, ranks, setup.hpz_size)
        if short is not None:
            raise NotModelledError(
                f"DeepSpeed stops with `zero_optimization.zero_hpz_partition_size`: a rank's part of"
                f" `{short.name}` would start at {short.start:,} of {short.numel:,} elements",
                _WAYS_OUT,
            )
    if setup.quantized_weights and ranks > 1:
        found = uneven(sizes, ranks, setup.hpz_size if copies else ranks)
        if found is not None:
            raise uneven_error(found)
    if setup.quantized_gradients and ranks > setup.gpus_per_node:
        matrix = divided(
            ((weight.name, weight.shape) for weight in tape.weights if weight.requires_grad), ranks
        )
        if matrix is not None:
            raise NotModelledError(
                f"DeepSpeed stops with `zero_optimization.zero_quantized_gradients`: {ranks:,} ranks do not"
                f" share the {matrix.groups:,} groups of `{matrix.name}` evenly",
                _WAYS_OUT,
            )
