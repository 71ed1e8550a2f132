"""Simulate torch's caching allocator for a training step, to estimate reserved rather than allocated bytes.

Source: c10/cuda/CUDACachingAllocator.cpp, `DeviceCachingAllocator::malloc`, `get_free_block`, `should_split`,
`free_block` and `release_cached_blocks`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple

MIB = 1 << 20
MIN_BLOCK = 512
"""Allocation sizes are rounded up to a multiple of this block size (`kMinBlockSize`)."""
SMALL, SMALL_SEGMENT = MIB, 2 * MIB
"""Blocks of at most `kSmallSize` come from segments of `kSmallBuffer`."""
LARGE_SEGMENT, MIN_LARGE, ROUND_LARGE = 20 * MIB, 10 * MIB, 2 * MIB
"""Larger blocks come from segments of `kLargeBuffer`, or from `kMinLargeAlloc` on, one segment each (`kRoundLarge`)."""


AllocationEvent = tuple[str, int]
"""The name of a memory term, and the number of bytes that it allocates (or, if negative, releases)."""


STREAMS = {
    "gathered parameters": "gather",
    "receive buffers": "gather",
    "secondary partition": "gather",
    "flattened bucket copy": "reduce",
}
"""Memory terms that are allocated on a separate CUDA stream; a free block is reused only on the same stream.

Stage 3 gathers on `__allgather_stream` (zero/partitioned_param_coordinator.py), and reduces on
`reduce_and_partition_stream` (zero/stage3.py) or, with `overlap_comm`, `reduction_stream` (zero/stage_1_and_2.py).
"""
DEFERRED_STREAM = "gather"
"""Stream whose freed blocks the next allocation on it cannot use.

`free_param` (zero/partition_parameters.py) records the compute stream on a gathered parameter, so torch reuses the
block only when the computation has ended. The host issues the next gather before that.
"""


class SegmentBlock:
    """A block inside a segment that torch has reserved."""

    __slots__ = ("is_free", "next", "number", "pool", "previous", "size")

    def __init__(self, pool: BlockPool, size: int) -> None:
        self.pool, self.size, self.is_free = pool, size, False
        self.number = 0
        """Position in the order of all frees, if the block is free."""
        self.previous: SegmentBlock | None = None
        self.next: SegmentBlock | None = None


class BlockPool:
    """The free blocks of one stream and size class, sorted by size and then by the order of their release."""

    __slots__ = ("blocks", "is_deferred", "is_small", "tail")

    def __init__(self, is_small: bool, is_deferred: bool = False) -> None:
        self.is_small, self.is_deferred = is_small, is_deferred
        self.blocks: list[tuple[int, int, SegmentBlock]] = []
        """Free blocks with their sizes and their positions in the order of frees."""
        self.tail: SegmentBlock | None = None
        """The last block of the pool's expandable segment."""

    def remove(self, block: SegmentBlock) -> None:
        """Remove a free block from the pool."""
        del self.blocks[bisect_left(self.blocks, (block.size, block.number))]
        block.is_free = False


class OutOfMemoryError(Exception):
    """Raised if the segments exceed the capacity even without any cached segments."""


class CachingAllocator:
    """The segments and blocks of torch's caching allocator on one device.

    `capacity` limits the bytes of all segments, unless it is None. With `expandable` (`expandable_segments`), segments
    grow, so that free blocks of neighboring allocations merge. With `defers`, the next allocation on `DEFERRED_STREAM`
    finds the blocks that were freed since the last one still in use.
    """

    def __init__(
        self, capacity: int | None = None, *, expandable: bool = False, defers: bool = False
    ) -> None:
        self.capacity, self.expandable, self.defers = capacity, expandable, defers
        self.deferred: list[SegmentBlock] = []
        """Freed blocks of `DEFERRED_STREAM` that wait for its next allocation."""
        self.reserved = self.peak_reserved = self.allocated = self.peak_allocated = 0
        self.retries = 0
        """Number of times that all cached segments were released to make room."""
        self.pools: dict[str, tuple[BlockPool, BlockPool]] = {}
        """Pools of large and small blocks, by stream."""
        self.pools_of_term: dict[str, tuple[BlockPool, BlockPool]] = {}
        self.live: dict[str, dict[int, list[SegmentBlock]]] = {}
        """Allocated blocks by memory term and requested bytes."""
        self._number = 0

    def run(self, events: Iterable[AllocationEvent]) -> None:
        """Perform allocations and frees in order.

        Raises:
            OutOfMemoryError: the segments exceed the capacity.
        """
        for name, count in events:
            if count > 0:
                self.allocate(name, count)
            elif count:
                self.free(name, -count)

    def allocate(self, name: str, count: int) -> None:
        """Allocate a block of `count` bytes for the memory term `name`."""
        size = -(-count // MIN_BLOCK) * MIN_BLOCK
        pools = self.pools_of_term.get(name) or self._pools_of_term(name)
        pool = pools[size <= SMALL]
        # Hot path: an estimate of a large model allocates 30,000 blocks. The smallest free block that fits is taken.
        blocks = pool.blocks
        index = bisect_left(blocks, (size, -1))
        if index < len(blocks):
            block = blocks.pop(index)[2]
            block.is_free = False
        else:
            block = self._expand_segment(pool, size) if self.expandable else self._new_segment(pool, size)
        rest = block.size - size
        # `should_split`: a small block keeps no rest of a minimal block, a large one none of up to `kSmallSize`.
        if rest >= MIN_BLOCK if pool.is_small or self.expandable else rest > SMALL:
            self._split_block(block, size)
        self.allocated += block.size
        if self.allocated > self.peak_allocated:  # noqa: PLR1730  # a call of `max` for each block costs 3 ms
            self.peak_allocated = self.allocated
        sizes = self.live.get(name)
        if sizes is None:
            sizes = self.live[name] = {}
        if count in sizes:
            sizes[count].append(block)
        else:
            sizes[count] = [block]
        if self.deferred and pool.is_deferred:
            self._return_deferred()

    def _pools_of_term(self, name: str) -> tuple[BlockPool, BlockPool]:
        """Return the block pools of the stream that allocates the memory term `name`."""
        stream = STREAMS.get(name, "")
        if stream not in self.pools:
            is_deferred = stream == DEFERRED_STREAM
            self.pools[stream] = (BlockPool(False, is_deferred), BlockPool(True, is_deferred))
        self.pools_of_term[name] = self.pools[stream]
        return self.pools[stream]

    def _new_segment(self, pool: BlockPool, size: int) -> SegmentBlock:
        if pool.is_small:
            size = SMALL_SEGMENT
        else:
            size = LARGE_SEGMENT if size < MIN_LARGE else -(-size // ROUND_LARGE) * ROUND_LARGE
        if self._lacks(size):
            self._retry_without_cache()
        self._reserve_bytes(size)
        return SegmentBlock(pool, size)

    def _expand_segment(self, pool: BlockPool, size: int) -> SegmentBlock:
        """Map pages at the end of the pool's segment, reusing a free block there (`try_allocate_expandable_block`)."""
        missing = self._missing_pages(pool, size)
        if self._lacks(missing):
            self._retry_without_cache()  # unmaps the free block, too
            missing = self._missing_pages(pool, size)
        self._reserve_bytes(missing)
        tail = pool.tail
        if tail and tail.is_free:
            pool.remove(tail)
            tail.size += missing
            return tail
        block = SegmentBlock(pool, missing)
        block.previous = tail
        if tail:
            tail.next = block
        pool.tail = block
        return block

    def _missing_pages(self, pool: BlockPool, size: int) -> int:
        """Return the bytes to map for a block, less a free block at the end of the pool's segment."""
        page = SMALL_SEGMENT if pool.is_small else LARGE_SEGMENT
        missing = size - (pool.tail.size if pool.tail and pool.tail.is_free else 0)
        return -(-missing // page) * page

    def _lacks(self, count: int) -> bool:
        return self.capacity is not None and self.reserved + count > self.capacity

    def _retry_without_cache(self) -> None:
        self.release_cached()
        self.retries += 1

    def _reserve_bytes(self, count: int) -> None:
        if self._lacks(count):
            raise OutOfMemoryError
        self.reserved += count
        self.peak_reserved = max(self.peak_reserved, self.reserved)

    def release_cached(self) -> None:
        """Return unused segments to the driver, as `torch.cuda.empty_cache` does, once no stream uses them."""
        self._return_deferred()
        for pool in (pool for pools in self.pools.values() for pool in pools):
            for _, _, block in list(pool.blocks):
                is_last = block.next is None and (self.expandable or block.previous is None)
                if not is_last:
                    continue
                pool.remove(block)
                self.reserved -= block.size
                if block.previous:
                    block.previous.next = None
                if pool.tail is block:
                    pool.tail = block.previous

    def _split_block(self, block: SegmentBlock, size: int) -> None:
        """Split a block after `size` bytes, and free the rest."""
        pool = block.pool
        remainder = SegmentBlock(pool, block.size - size)
        remainder.previous, remainder.next = block, block.next
        if block.next:
            block.next.previous = remainder
        block.next, block.size = remainder, size
        if pool.tail is block:
            pool.tail = remainder
        self._number += 1
        remainder.is_free, remainder.number = True, self._number
        insort(pool.blocks, (remainder.size, self._number, remainder))

    def free_all(self) -> None:
        """Free all blocks of all memory terms."""
        for blocks in (blocks for sizes in self.live.values() for blocks in sizes.values()):
            for block in blocks:
                self._free_block(block)
        self.live.clear()
        self._return_deferred()

    def free(self, name: str, count: int) -> None:
        """Free `count` bytes of a memory term: the block of exactly that size, or else the oldest blocks."""
        sizes = self.live.get(name)
        if sizes is None:
            return
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

    def _return_deferred(self) -> None:
        waiting, self.deferred = self.deferred, []
        for block in waiting:
            self._free_block(block, was_deferred=True)

    def _free_block(self, block: SegmentBlock, was_deferred: bool = False) -> None:
        """Free a block and merge it with free neighbors, or defer that until its stream allocates again."""
        pool, previous, following = block.pool, block.previous, block.next
        if not was_deferred:
            self.allocated -= block.size
            if pool.is_deferred and self.defers:
                self.deferred.append(block)
                return
        if previous is not None and previous.is_free:
            pool.remove(previous)
            block.size += previous.size
            block.previous = previous.previous
            if block.previous:
                block.previous.next = block
        if following is not None and following.is_free:
            pool.remove(following)
            block.size += following.size
            block.next = following.next
            if block.next:
                block.next.previous = block
            if pool.tail is following:
                pool.tail = block
        self._number += 1
        block.is_free, block.number = True, self._number
        insort(pool.blocks, (block.size, self._number, block))


class ReservedMemory(NamedTuple):
    """The bytes that torch reserves during a run."""

    reserved: int
    """Peak of the reserved bytes, as reported by `max_memory_reserved`."""
    allocated: int
    """Peak of the allocated bytes, rounded up to blocks (`max_memory_allocated`)."""
    retries: int
    """Number of times that cached segments had to be released, which takes time."""


def simulate_reserved_memory(
    at_rest: Sequence[AllocationEvent],
    steps: Iterable[Sequence[AllocationEvent]],
    capacity: int | None = None,
    *,
    expandable: bool = False,
    defers: bool = False,
    load: Sequence[AllocationEvent] = (),
) -> ReservedMemory | None:
    """Simulate training steps on top of the memory at rest; return None if they exceed the capacity.

    `load`: allocations while the model is loaded, whose segments stay cached.
    """
    allocator = CachingAllocator(capacity, expandable=expandable, defers=defers)
    try:
        allocator.run(load)
        allocator.free_all()
        allocator.peak_allocated = 0
        allocator.run(at_rest)
        for step in steps:
            allocator.run(step)
    except OutOfMemoryError:
        return None
    return ReservedMemory(allocator.peak_reserved, allocator.peak_allocated, allocator.retries)
