"""The simulated caching allocator: sizes of segments, splitting, reuse, streams and a limited capacity.

The expected numbers follow from the constants of c10/cuda/CUDACachingAllocator.cpp.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import dsconfig
from dsconfig.memory.caching_allocator import (
    MIB,
    CachingAllocator,
    OutOfMemoryError,
    simulate_reserved_memory,
)
from dsconfig.memory.device_overhead import DeviceUsage, relative_lengths


def allocator_after(
    *events: tuple[str, int], capacity: int | None = None, expandable: bool = False
) -> CachingAllocator:
    allocator = CachingAllocator(capacity, expandable=expandable)
    allocator.run(events)
    return allocator


@pytest.mark.parametrize(
    ("size", "segment"),
    [
        (1, 2 * MIB),
        (MIB, 2 * MIB),
        (MIB + 1, 20 * MIB),
        (10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB),
        (21 * MIB, 22 * MIB),
    ],
)
def test_segments_have_the_sizes_of_torch(size: int, segment: int) -> None:
    assert allocator_after(("x", size)).reserved == segment


def test_blocks_are_rounded_to_512_bytes() -> None:
    assert allocator_after(("x", 1), ("y", 513)).allocated == 512 + 1024


def test_a_freed_block_is_used_again_and_split() -> None:
    allocator = allocator_after(("x", 64 * MIB), ("x", -64 * MIB), ("y", 16 * MIB), ("z", 48 * MIB))
    assert (allocator.reserved, allocator.allocated) == (64 * MIB, 64 * MIB)


def test_a_larger_block_does_not_fit_between_others() -> None:
    events = (("x", 40 * MIB), ("y", 40 * MIB), ("x", -40 * MIB), ("z", 30 * MIB), ("y", -40 * MIB))
    fragmented = allocator_after(*events, ("w", 60 * MIB))
    assert fragmented.reserved == 140 * MIB
    assert allocator_after(*events, ("w", 60 * MIB), expandable=True).reserved < fragmented.reserved


def test_neighbors_merge_when_they_are_freed() -> None:
    split = (("x", 60 * MIB), ("x", -60 * MIB), ("a", 20 * MIB), ("b", 20 * MIB), ("c", 20 * MIB))
    freed = (("b", -20 * MIB), ("a", -20 * MIB), ("d", 40 * MIB))
    assert allocator_after(*split, *freed).reserved == 60 * MIB


def test_streams_do_not_share_blocks() -> None:
    allocator = allocator_after(
        ("gathered parameters", 64 * MIB), ("gathered parameters", -64 * MIB), ("x", 64 * MIB)
    )
    assert allocator.reserved == 128 * MIB


def test_cached_segments_are_released_before_memory_runs_out() -> None:
    allocator = allocator_after(("x", 64 * MIB), ("x", -64 * MIB), ("y", 80 * MIB), capacity=100 * MIB)
    assert (allocator.reserved, allocator.retries) == (80 * MIB, 1)
    with pytest.raises(OutOfMemoryError):
        allocator_after(("x", 64 * MIB), ("y", 80 * MIB), capacity=100 * MIB)


def test_a_released_end_of_an_expandable_segment_is_mapped_again() -> None:
    # 60 MiB are reserved, 40 of them free. The 40 MiB of `y` would need 20 more next to 20 free ones; as only
    # 70 fit, both free blocks are released, and `y` is mapped anew.
    gathered = [(name, 20 * MIB) for name in ("gathered parameters", "receive buffers")]
    events = (("x", 20 * MIB), ("x", -20 * MIB), *gathered, ("receive buffers", -20 * MIB), ("y", 40 * MIB))
    allocator = allocator_after(*events, capacity=70 * MIB, expandable=True)
    assert (allocator.reserved, allocator.allocated, allocator.retries) == (60 * MIB, 60 * MIB, 1)


def test_a_segment_in_use_cannot_be_released() -> None:
    events = [
        ("x", 64 * MIB),
        ("x", -64 * MIB),
        ("y", 2 * MIB),
        ("z", 70 * MIB),
    ]
    assert simulate_reserved_memory([], [events], 120 * MIB) is None
    unlimited = simulate_reserved_memory([], [[*events, ("y", -2 * MIB), ("z", -70 * MIB)]] * 2)
    assert unlimited is not None
    assert unlimited.reserved == 134 * MIB


def test_a_part_of_a_term_frees_the_blocks_that_came_first() -> None:
    allocator = allocator_after(("x", 16 * MIB), ("x", 32 * MIB), ("x", 64 * MIB), ("x", -48 * MIB))
    assert allocator.allocated == 64 * MIB
    allocator.free("x", 60 * MIB)
    assert allocator.allocated == 4 * MIB


def test_sequences_of_different_lengths_leave_blocks_that_no_other_fits() -> None:
    step = [("activations", 64 * MIB), ("gradients", 32 * MIB)]
    step += [("activations", -64 * MIB), ("gradients", -32 * MIB)]
    usage = DeviceUsage(96 * MIB, 96 * MIB, (), [], step)
    varied = replace(usage, lengths=(0.5, 0.75, 1.0))
    assert usage.unlimited.reserved == 96 * MIB
    # A segment of 32, one for the gradients, then one of 48, then one of 64.
    assert varied.unlimited.reserved == (32 + 32 + 48 + 64) * MIB
    assert varied.equal_steps.reserved == 96 * MIB
    assert varied.fits_despite_fragmentation(96 * MIB)


def test_the_longest_of_many_sequences_is_nearly_the_longest_of_all() -> None:
    assert relative_lengths(1)[-1] == 1
    assert 0.25 < min(relative_lengths(1)) < min(relative_lengths(64))
    assert min(relative_lengths(64)) > 0.9


GATHERED = "gathered parameters"


def test_the_next_gather_does_not_reuse_a_block_that_is_still_read() -> None:
    events = [(GATHERED, 64 * MIB), (GATHERED, -64 * MIB)] * 4
    at_once, deferred = (simulate_reserved_memory([], [events], defers=defers) for defers in (False, True))
    assert at_once is not None
    assert deferred is not None
    assert (at_once.reserved, deferred.reserved) == (64 * MIB, 128 * MIB)
    limited = simulate_reserved_memory([], [events], 64 * MIB, defers=True)
    assert limited is not None  # torch waits for the computation before it runs out of memory
    assert limited.retries > 0


def test_segments_of_the_initialization_stay_cached() -> None:
    load, step = [("load: x", 64 * MIB)], [("y", 16 * MIB), ("y", -16 * MIB)]
    result = simulate_reserved_memory([], [step], load=load)
    assert result is not None
    assert (result.reserved, result.allocated) == (64 * MIB, 16 * MIB)


@pytest.mark.parametrize(("zero_init", "is_cached"), [(False, True), (True, False)])
def test_a_model_that_was_on_the_gpu_stays_cached_if_its_parameters_are_offloaded(
    zero_init: bool, is_cached: bool
) -> None:
    """Only `defragment` (zero/utils.py) empties the cache, which a run with offloaded parameters does not call.

    deepspeedai/DeepSpeedExamples#777 logs 13.01 GB of cached memory for 6.7 billion parameters after initialization.
    """
    offload = {"device": "cpu"}
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": 3, "offload_optimizer": offload, "offload_param": offload},
    }
    options = {"sequence_length": 128, "checkpointing": True, "zero_init": zero_init}
    result = dsconfig.memory(config, model="llama-2-7b", world_size=64, **options)
    assert result.device is not None
    assert (result.device.low() > 12 * 2**30) is is_cached


def test_the_range_is_not_empty_if_initialization_has_the_peak() -> None:
    step = [
        ("x", 64 * MIB),
        ("y", 96 * MIB),
        ("x", -64 * MIB),
        ("z", 16 * MIB),
        ("y", -96 * MIB),
        ("z", -16 * MIB),
    ]
    usage = DeviceUsage(200 * MIB, 200 * MIB, (), [], step)
    assert usage.unlimited.reserved == usage.unlimited.allocated == 160 * MIB
    assert (usage.low(), usage.high()) == (200 * MIB, 200 * MIB)
    fragmented = replace(
        usage, lengths=(0.5, 0.75, 1.0), step=[("activations", 64 * MIB), ("activations", -64 * MIB)] * 2
    )
    assert fragmented.low() <= fragmented.high()
