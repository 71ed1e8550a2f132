"""Estimate the GPU memory outside of tensors: CUDA context, NCCL buffers, workspaces and cached segments."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.memory.caching_allocator import simulate_reserved_memory
from dsconfig.memory.engines.base_engine import BUILT
from dsconfig.memory.verdict import ACTIVATION_TERMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dsconfig.core.json_types import JsonObject
    from dsconfig.memory.caching_allocator import AllocationEvent, ReservedMemory
    from dsconfig.memory.engines.engine_setup import EngineSetup
    from dsconfig.memory.models.architecture import Architecture, MicroBatch

MIB = 1 << 20
GIB = 1 << 30

# NCCL: one receive buffer for each protocol, channel and connection (nccl src/include/device.h, src/init.cc).

LL_BUFFER = 8 * 512 * 8 * 16
"""Product of `NCCL_LL_LINES_PER_THREAD`, `NCCL_LL_MAX_NTHREADS`, `NCCL_STEPS` and the size of a line."""
LL128_BUFFER = 120 * 640 * 8 * 8
"""Product of `NCCL_LL128_ELEMS_PER_THREAD`, `NCCL_LL128_MAX_NTHREADS`, `NCCL_STEPS` and 8."""
SIMPLE_BUFFER = 1 << 22
"""Default size of NCCL's simple buffer (`DEFAULT_BUFFSIZE`), which `NCCL_BUFFSIZE` overrides."""
CONNECTION = LL_BUFFER + LL128_BUFFER + SIMPLE_BUFFER
CHANNELS = (2, 24)
"""Lowest and highest number of channels of a communicator: few over PCIe, up to 24 over NVLink."""
CONNECTIONS = (1, 3)
"""Lowest and highest number of connections of a channel: a ring has one, and a tree adds up to two."""
COMMUNICATORS = (1, 3)
"""Number of communicators of the data-parallel ranks: one of all ranks, DeepSpeed's own group of the same ranks
(utils/groups.py, `_clone_world_group`), and one that a library creates. NVIDIA/nccl#864 reports 1.6 GB for the first.
"""

# The CUDA context with the code of the kernels in use. torch loads kernels lazily since CUDA 11.7.

CONTEXT = (350 * MIB, 800 * MIB)
"""Lowest and highest size of a CUDA context: `nvidia-smi` minus torch's reserved memory, in single-GPU runs."""
CUBLAS = (9 * MIB, 64 * MIB)
"""Lowest and highest size of the cuBLAS and cuBLASLt workspaces (ATen/cuda/CublasHandlePool.cpp).

They have 8 MiB before Hopper, and 32 MiB each from Hopper on.
"""


EQUAL_STEPS, VARIED_STEPS = 2, 8
"""Number of simulated steps: more if sequence lengths differ, because each new length can add segments."""
SHORTEST, GOLDEN = 0.25, 0.6180339887
"""Shortest sequence relative to the longest, and the increment of an evenly spread (golden-ratio) series of lengths."""


def relative_lengths(samples: int) -> tuple[float, ...]:
    """Return the lengths of batches of `samples` sequences, in increasing order, relative to the longest one.

    Sequence lengths are assumed to be evenly distributed, and a batch is padded to its longest sequence.
    """
    spread = ((number * GOLDEN) % 1 for number in range(1, VARIED_STEPS))
    return (*(SHORTEST + (1 - SHORTEST) * share ** (1 / samples) for share in spread), 1.0)


LOAD = "load: "
"""Prefix of the memory terms of allocations during initialization."""


class DeviceOverhead(NamedTuple):
    """GPU memory, in bytes, that does not belong to any tensor of the run."""

    name: str
    low: int
    high: int
    text: str

    def to_dict(self) -> JsonObject:
        """Return the overhead as a JSON object."""
        return {"name": self.name, "low": self.low, "high": self.high, "text": self.text}


def overheads_of(setup: EngineSetup, arch: Architecture, batch: MicroBatch) -> tuple[DeviceOverhead, ...]:
    """Return the GPU memory of a run, other than tensors and cached segments."""
    terms = [DeviceOverhead("CUDA context", *CONTEXT, "the context and the code of loaded kernels")]
    ranks = setup.dp_world_size * setup.tp_size
    if ranks > 1:
        groups = sum(size > 1 for size in (setup.tp_size, setup.sp_size, setup.ep_size, setup.hpz_size))
        low, high = (
            communicators * channels * connections * CONNECTION
            for communicators, channels, connections in zip(COMMUNICATORS, CHANNELS, CONNECTIONS, strict=True)
        )
        high += groups * CHANNELS[1] * CONNECTION
        number = f"{COMMUNICATORS[0]} to {COMMUNICATORS[1] + groups} communicators"
        terms.append(DeviceOverhead("NCCL buffers", low, high, number))
    workspace = CUBLAS[1] + attention_workspace(arch, batch)
    terms.append(
        DeviceOverhead("workspaces", CUBLAS[0], workspace, "cuBLAS, and attention in the backward pass")
    )
    return tuple(terms)


def attention_workspace(arch: Architecture, batch: MicroBatch) -> int:
    """Return the bytes that the backward pass of flash attention allocates for one layer.

    The gradient of the queries is accumulated in fp32, and those of keys and values are expanded to all query
    heads (flash_api.cpp, `mha_bwd`).
    """
    if batch.attn_implementation == "eager" or not arch.num_heads or arch.family in ("sized", "plain"):
        return 0
    head_dim = arch.head_dim or arch.hidden_size // arch.num_heads
    numel = batch.micro_batch_size * batch.sequence_length * arch.num_heads * head_dim // batch.sp_size
    return 4 * numel + (4 * numel if arch.num_kv_heads < arch.num_heads else 0)


@dataclass(frozen=True)
class DeviceUsage:
    """The memory that `nvidia-smi` is expected to show for a training process."""

    allocated: int
    """Allocated bytes of the process at the peak."""
    bound: int
    """Upper bound of the allocated bytes of the process."""
    overheads: tuple[DeviceOverhead, ...]
    at_rest: Sequence[AllocationEvent]
    step: Sequence[AllocationEvent]
    load: Sequence[AllocationEvent] = ()
    """Allocations during initialization whose segments stay cached, all of them on the default stream."""
    lengths: tuple[float, ...] = ()
    """Sequence lengths of successive steps relative to the longest, or empty if all are equally long."""
    is_expandable: bool = False
    """Whether the job sets `expandable_segments` for torch's allocator."""

    @cached_property
    def equal_steps(self) -> ReservedMemory:
        """Memory that torch reserves, without a limit, if all sequences are equally long."""
        return self._reserve([self.step] * EQUAL_STEPS)

    @cached_property
    def unlimited(self) -> ReservedMemory:
        """Memory that torch reserves if the GPU sets no limit."""
        if not self.lengths:
            return self.equal_steps
        result = self._reserve(self._steps())
        return result if result.reserved > self.equal_steps.reserved else self.equal_steps

    @cached_property
    def expandable(self) -> ReservedMemory:
        """Memory that torch reserves with `expandable_segments` if every freed block can be used again at once."""
        certain = [
            event for event in self.load if event[0] != LOAD + BUILT
        ]  # scripts build models differently
        result = simulate_reserved_memory(self.at_rest, self._steps(), expandable=True, load=certain)
        assert result is not None
        return result

    def _reserve(self, steps: Iterable[Sequence[AllocationEvent]]) -> ReservedMemory:
        result = simulate_reserved_memory(
            self.at_rest, steps, expandable=self.is_expandable, defers=True, load=self.load
        )
        assert result is not None
        return result

    def _steps(self) -> Iterator[Sequence[AllocationEvent]]:
        """Yield the allocations of successive steps; activations are proportional to the sequence length."""
        if not self.lengths:
            yield from [self.step] * EQUAL_STEPS
        for length in self.lengths:
            yield [
                (name, int(count * length) if name in ACTIVATION_TERMS else count)
                for name, count in self.step
            ]

    @property
    def overhead(self) -> tuple[int, int]:
        """The lowest and the highest sum of all overheads, in bytes."""
        return sum(term.low for term in self.overheads), sum(term.high for term in self.overheads)

    @property
    def needed(self) -> int:
        """Upper bound of the allocated bytes plus the highest overheads, not counting cached blocks."""
        return self.bound + self.overhead[1]

    @property
    def cached_at_least(self) -> int:
        """Cached bytes at the peak even without fragmentation, because torch keeps freed memory.

        If the peak is that of initialization, it is not part of the replay, and later steps use its cached blocks.
        """
        replays = (self.expandable, self.unlimited)
        return max(0, min(result.reserved - max(result.allocated, self.allocated) for result in replays))

    def low(self, capacity: int | None = None) -> int:
        """Return the lowest expected usage; torch releases cached segments before exceeding `capacity`."""
        least = self.allocated + self.overhead[0]
        if capacity is not None and least >= capacity:  # without a simulation of the allocator
            return least
        cached = least + self.cached_at_least
        return cached if capacity is None else min(cached, capacity)

    def high(self, capacity: int | None = None) -> int:
        """Return the highest expected usage; torch releases cached segments before exceeding `capacity`."""
        if capacity is not None and self.needed >= capacity:
            return self.needed
        cached = max(self.bound, self.unlimited.reserved) + self.overhead[1]
        return cached if capacity is None else min(cached, capacity)

    def fits_despite_fragmentation(self, capacity: int, *, expandable: bool = False) -> bool:
        """Return whether torch can place every block within `capacity` even if memory is fragmented."""
        spare = self.bound - self.allocated
        room = capacity - self.overhead[1] - spare
        expandable = expandable or self.is_expandable
        return (
            room > 0
            and simulate_reserved_memory(
                self.at_rest, self._steps(), room, expandable=expandable, defers=True, load=self.load
            )
            is not None
        )

    def to_dict(self) -> JsonObject:
        """Return the usage as a JSON object."""
        return {
            "low": self.low(),
            "high": self.high(),
            "needed": self.needed,
            "allocated": self.allocated,
            "cached_at_least": self.cached_at_least,
            "reserved": self.unlimited.reserved,
            "reserved_expandable": self.expandable.reserved,
            "overheads": [term.to_dict() for term in self.overheads],
        }
