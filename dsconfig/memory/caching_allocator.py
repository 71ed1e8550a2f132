"""Simulation of torch's caching allocator on the allocations of a training step: reserved bytes, not allocated ones.

Source: c10/cuda/CUDACachingAllocator.cpp, `DeviceCachingAllocator::malloc`, `get_free_block`, `should_split`,
`free_block` and `release_cached_blocks`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MIB = 1 << 20
MIN_BLOCK = 512
"""Sizes are rounded up to a multiple of it (`kMinBlockSize`)."""
SMALL, SMALL_SEGMENT = MIB, 2 * MIB
"""Blocks up to `kSmallSize` come from segments of `kSmallBuffer`."""
LARGE_SEGMENT, MIN_LARGE, ROUND_LARGE = 20 * MIB, 10 * MIB, 2 * MIB
"""Larger blocks come from segments of `kLargeBuffer`, from `kMinLargeAlloc` on of their own size (`kRoundLarge`)."""


class AllocationEvent(NamedTuple):
    """An allocation (or with a negative size a release) of a term."""

    name: str
    bytes: int


STREAMS = {
    "gathered parameters": "gather",
    "receive buffers": "gather",
    "secondary partition": "gather",
    "flattened bucket copy": "reduce",
}
"""Terms that are allocated on a stream of their own; a free block is only used again on its own stream.

Stage 3 gathers on `__allgather_stream` (zero/partitioned_param_coordinator.py), and reduces on
`reduce_and_partition_stream` (zero/stage3.py) or, with `overlap_comm`, `reduction_stream` (zero/stage_1_and_2.py).
"""


class SegmentBlock:
    """A part of a segment."""

    __slots__ = ("is_free", "next", "pool", "previous", "size")

    def __init__(self, pool: BlockPool, size: int) -> None:
        self.pool, self.size, self.is_free = pool, size, False
        self.previous: SegmentBlock | None = None
        self.next: SegmentBlock | None = None


class BlockPool:
    """The free blocks of one stream and size class, sorted by size, then in order of their release."""

    __slots__ = ("free", "is_small", "keys", "serial")

    def __init__(self, is_small: bool) -> None:
        self.is_small = is_small
        self.keys: list[tuple[int, int]] = []
        self.free: dict[tuple[int, int], SegmentBlock] = {}
        self.serial: dict[SegmentBlock, tuple[int, int]] = {}

    def add(self, block: SegmentBlock, number: int) -> None:
        """Make a block available."""
        key = (block.size, number)
        block.is_free = True
        insort(self.keys, key)
        self.free[key], self.serial[block] = block, key

    def remove(self, block: SegmentBlock) -> None:
        """Take a free block."""
        key = self.serial.pop(block)
        del self.keys[bisect_left(self.keys, key)]
        del self.free[key]
        block.is_free = False

    def best_fit(self, size: int) -> SegmentBlock | None:
        """The smallest free block of at least `size` bytes."""
        index = bisect_left(self.keys, (size, -1))
        return self.free[self.keys[index]] if index < len(self.keys) else None


class OutOfMemoryError(Exception):
    """The segments exceed the capacity, even after all cached ones are released."""


class CachingAllocator:
    """Segments and blocks of one device.

    `capacity`: bytes for segments; None: unlimited. `expandable`: whether segments grow (`expandable_segments`), so
    that free blocks of neighboring allocations merge.
    """

    def __init__(self, capacity: int | None = None, *, expandable: bool = False) -> None:
        self.capacity, self.expandable = capacity, expandable
        self.reserved = self.peak_reserved = self.allocated = self.peak_allocated = 0
        self.retries = 0
        """Times that all cached segments were released to make room."""
        self.pools: dict[tuple[str, bool], BlockPool] = {}
        self.tails: dict[BlockPool, SegmentBlock] = {}
        """The last block of each expandable segment."""
        self.live: dict[str, dict[int, list[SegmentBlock]]] = {}
        """Allocated blocks by term and requested bytes."""
        self._number = 0

    def run(self, events: Iterable[AllocationEvent]) -> None:
        """Allocate and free in order.

        Raises:
            OutOfMemoryError: the capacity does not suffice.
        """
        for name, count in events:
            if count > 0:
                self.allocate(name, count)
            elif count:
                self.free(name, -count)

    def allocate(self, name: str, count: int) -> None:
        """Allocate a block of a term."""
        size = max(MIN_BLOCK, -(-count // MIN_BLOCK) * MIN_BLOCK)
        is_small = size <= SMALL
        key = (STREAMS.get(name, ""), is_small)
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = BlockPool(is_small)
        block = pool.best_fit(size)
        if block is None:
            block = self._new_segment(pool, size)
        else:
            pool.remove(block)
        self._split_block(block, size)
        self.allocated += block.size
        self.peak_allocated = max(self.peak_allocated, self.allocated)
        self.live.setdefault(name, {}).setdefault(count, []).append(block)

    def _new_segment(self, pool: BlockPool, size: int) -> SegmentBlock:
        segment = (
            SMALL_SEGMENT
            if pool.is_small
            else LARGE_SEGMENT
            if size < MIN_LARGE
            else -(-size // ROUND_LARGE) * ROUND_LARGE
        )
        if self.expandable:
            return self._expand_segment(pool, size)
        self._reserve_bytes(segment)
        return SegmentBlock(pool, segment)

    def _expand_segment(self, pool: BlockPool, size: int) -> SegmentBlock:
        """Map pages at the end of the pool's segment, next to a free block there (`try_allocate_expandable_block`)."""
        page = SMALL_SEGMENT if pool.is_small else LARGE_SEGMENT
        tail = self.tails.get(pool)
        missing = size - (tail.size if tail and tail.is_free else 0)
        grown = -(-missing // page) * page
        self._reserve_bytes(grown)
        if tail and tail.is_free:
            pool.remove(tail)
            tail.size += grown
            return tail
        block = SegmentBlock(pool, grown)
        block.previous = tail
        if tail:
            tail.next = block
        self.tails[pool] = block
        return block

    def _reserve_bytes(self, count: int) -> None:
        if self.capacity is not None and self.reserved + count > self.capacity:
            self.release_cached()
            self.retries += 1
            if self.reserved + count > self.capacity:
                raise OutOfMemoryError
        self.reserved += count
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def release_cached(self) -> None:
        """Return segments without allocated blocks to the driver (`empty_cache`)."""
        for pool in self.pools.values():
            for block in list(pool.free.values()):
                if block.previous is None and block.next is None:
                    pool.remove(block)
                    self.reserved -= block.size
                    if self.tails.get(pool) is block:
                        del self.tails[pool]
                elif self.expandable and block.next is None and block.previous is not None:
                    pool.remove(block)
                    self.reserved -= block.size
                    block.previous.next = None
                    self.tails[pool] = block.previous

    def _split_block(self, block: SegmentBlock, size: int) -> None:
        rest = block.size - size
        # `should_split`: a small block keeps no rest of a minimal block, a large one none of up to `kSmallSize`.
        splits = rest >= MIN_BLOCK if block.pool.is_small or self.expandable else rest > SMALL
        if not splits:
            return
        remainder = SegmentBlock(block.pool, rest)
        remainder.previous, remainder.next = block, block.next
        if block.next:
            block.next.previous = remainder
        block.next, block.size = remainder, size
        if self.tails.get(block.pool) is block:
            self.tails[block.pool] = remainder
        self._number += 1
        block.pool.add(remainder, self._number)

    def free(self, name: str, count: int) -> None:
        """Free `count` bytes of a term: a block of that size, else the blocks that were allocated first."""
        sizes = self.live.get(name, {})
        if blocks := sizes.get(count):
            self._free_block(blocks.pop())
            if not blocks:
                del sizes[count]
            return
        for size in sorted(sizes, reverse=True):
            while size <= count and sizes.get(size):
                self._free_block(sizes[size].pop(0))
                count -= size
            if not sizes[size]:
                del sizes[size]
            if not count:
                return
        if count and sizes:  # a part of a block that was allocated at once
            size = min(sizes, key=lambda each: (each < count, each))
            block = sizes[size].pop()
            if not sizes[size]:
                del sizes[size]
            self._free_block(block)
            if size > count:
                self.allocate(name, size - count)

    def _free_block(self, block: SegmentBlock) -> None:
        self.allocated -= block.size
        pool = block.pool
        for neighbor in (block.previous, block.next):
            if neighbor is None or not neighbor.is_free:
                continue
            pool.remove(neighbor)
            block.size += neighbor.size
            if neighbor is block.previous:
                block.previous = neighbor.previous
                if block.previous:
                    block.previous.next = block
            else:
                block.next = neighbor.next
                if block.next:
                    block.next.previous = block
            if self.tails.get(pool) is neighbor:
                self.tails[pool] = block
        self._number += 1
        pool.add(block, self._number)


class ReservedMemory(NamedTuple):
    """Bytes that torch reserves in a run."""

    reserved: int
    """Reserved bytes at their peak, as `max_memory_reserved` reports them."""
    allocated: int
    """Allocated bytes at their peak, rounded to blocks (`max_memory_allocated`)."""
    retries: int
    """Times that cached segments had to be released; each costs time."""


def simulate_reserved_memory(
    at_rest: Sequence[AllocationEvent],
    steps: Iterable[Sequence[AllocationEvent]],
    capacity: int | None = None,
    *,
    expandable: bool = False,
) -> ReservedMemory | None:
    """Simulate steps after what is allocated at rest; None if the capacity does not suffice."""
    allocator = CachingAllocator(capacity, expandable=expandable)
    try:
        allocator.run(at_rest)
        for step in steps:
            allocator.run(step)
    except OutOfMemoryError:
        return None
    return ReservedMemory(allocator.peak_reserved, allocator.peak_allocated, allocator.retries)
