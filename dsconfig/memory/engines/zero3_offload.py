"""ZeRO stage 3 with NVMe offload (`runtime/swap_tensor`) or SuperOffload (`runtime/superoffload`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import STATES, TEMPORARY, WEIGHTS, pinned_padding
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero3 import Stage3Engine
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger
from dsconfig.memory.verdict import NotModelledError

# NVMe offload: shards, masters, states and gradients on NVMe, with swap buffers on the host.

SWAP_BUFFERS, UNALIGNED_GRADS = "NVMe swap buffers", "gradients waiting for NVMe"


class NvmeStage3(Stage3Engine):
    """Stage 3 with an optimizer swapper, an `AsyncPartitionedParameterSwapper`, or both."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        self.sizes = [sum(group) for group in self.groups]
        remaining = iter(self.trainable)
        self.members = [[next(remaining) for _ in group] for group in self.groups]
        self.group_of = {weight: number for number, group in enumerate(self.members) for weight in group}
        self.on_nvme = frozenset(self._on_drive()) if setup.nvme.param_buffer_size else frozenset[Weight]()
        """Parameters whose shards are on NVMe."""
        self._reject_small_buffers()
        self.coordinator.set_nvme_params(self.on_nvme, setup.nvme.param_buffer_count)
        self.waiting_grad_bytes = 0
        """Bytes of gradients that are too small or not aligned, and wait for the step."""

    # ------------------------------------------------------------ parameters
    def _reject_small_buffers(self) -> None:
        buffer_numel = self.setup.nvme.param_buffer_size
        shards = (self.shard(weight) for weight in self.tape.weights if self.initial_location(weight) is None)
        if (largest := max(shards, default=0)) > buffer_numel:
            key = "`zero_optimization.offload_param.buffer_size`"
            raise NotModelledError(
                f"DeepSpeed stops where {key} is {buffer_numel:,}: a shard of a parameter has {largest:,} elements",
                "use at least that many",
            )

    @property
    def flat_numel(self) -> int:
        """Elements of shards that stay in host memory (`max_in_cpu`)."""
        max_numel = (
            # `max_in_cpu` counts elements; only whole sub-groups stay in memory.
            self.setup.nvme.max_in_cpu if self.setup.nvme.param_buffer_size else self.trainable_shard_numel
        )
        return min(self.trainable_shard_numel, max_numel)

    def _in_memory(self) -> set[Weight]:
        """Parameters of the sub-groups within that limit (`_create_fp16_partitions_with_defragmentation`)."""
        in_memory, offset, flat_numel = set[Weight](), 0, self.flat_numel
        for members, size in zip(self.members, self.sizes, strict=True):
            offset += size
            if offset <= flat_numel:
                in_memory.update(members)
        return in_memory

    def _on_drive(self) -> list[Weight]:
        """Parameters that are large enough for NVMe and not kept in memory."""
        in_memory = self._in_memory()
        return [
            weight
            for weight in self.tape.weights
            if weight not in in_memory and self.initial_location(weight) is None
        ]

    def initial_location(self, weight: Weight) -> bool | None:
        """Location of a new shard: NVMe if it is large enough, even if it returns to memory later."""
        swapping = self.setup.nvme
        if swapping.param_buffer_size and self.setup.itemsize * self.shard(weight) >= swapping.min_swap_bytes:
            return None
        return super().initial_location(weight)

    def _param_buffer_bytes(self) -> int:
        """Bytes of the shard buffers (`AsyncPartitionedParameterSwapper`)."""
        swapping, itemsize = self.setup.nvme, self.setup.itemsize
        return (
            itemsize
            * swapping.param_buffer_count
            * swapping.aligned_numel(swapping.param_buffer_size, itemsize)
        )

    def _write_buffer_bytes(self) -> int:
        """Bytes of the buffer in which a step assembles whole parameters before it writes them."""
        setup = self.setup
        if not setup.nvme.param_buffer_size or self.flat_numel == self.trainable_shard_numel:
            return 0
        largest = self.members[self.sizes.index(max(self.sizes))]
        return setup.itemsize * sum(
            setup.nvme.aligned_numel(weight.numel, setup.itemsize) for weight in largest
        )

    def _optimizer_buffer_bytes(self) -> int:
        """Bytes of one buffer of `SwapBufferManager`, for the largest sub-group."""
        return self.setup.master_itemsize * self.setup.nvme.aligned_numel(
            max(self.sizes, default=0), self.setup.master_itemsize
        )

    def pinned_padding(self) -> int:
        """Padding as without NVMe, plus that of buffers if torch pins them."""
        padding = super().pinned_padding()
        if self.setup.quirks.nvme_buffers_are_locked_by_deepspeed:
            return padding
        blocks = [self._optimizer_buffer_bytes()] * self.setup.nvme.optimizer_buffers
        return padding + pinned_padding([*blocks, self._param_buffer_bytes(), self._write_buffer_bytes()])

    def create_param_buffers(self) -> None:
        """Create the shard buffers from an unpinned copy."""
        if self.setup.has_separate_host or self.setup.quirks.nvme_buffers_are_locked_by_deepspeed:
            self.ledger.allocate_briefly(SWAP_BUFFERS, 2 * self._param_buffer_bytes(), host=True)
        self.allocate_param_buffers()

    def allocate_param_buffers(self) -> None:
        """Allocate the shard buffers."""
        self.ledger.allocate(SWAP_BUFFERS, self._param_buffer_bytes(), host=True)

    def allocate_shards(self) -> None:
        """Allocate the flat buffer, and shards outside it that are too small for NVMe."""
        setup, swapping = self.setup, self.setup.nvme
        if not swapping.param_buffer_size:
            super().allocate_shards()
            return
        in_memory = self._in_memory()
        self.ledger.allocate(WEIGHTS, setup.itemsize * self.flat_numel, host=True)
        for weight in self.tape.weights:
            if weight not in in_memory and weight not in self.on_nvme:
                self.ledger.allocate(WEIGHTS, self.shard_bytes_of(weight), host=weight not in self.persistent)
        self.ledger.allocate(SWAP_BUFFERS, self._write_buffer_bytes(), host=True)

    # ------------------------------------------------------------ masters, states and gradients
    def is_swapped(self, index: int) -> bool:
        """Whether a sub-group is on NVMe (`_swappable_optimizer_subgroup`, which ignores `ratio`)."""
        swapping = self.setup.nvme
        return (
            swapping.optimizer_buffers > 0
            and self.setup.master_itemsize * self.sizes[index] >= swapping.min_swap_bytes
        )

    def allocate_optimizer_buffers(self) -> None:
        """Allocate the buffers of `SwapBufferManager`."""
        self.ledger.allocate(
            SWAP_BUFFERS, self.setup.nvme.optimizer_buffers * self._optimizer_buffer_bytes(), host=True
        )

    def swap_out_masters(self, index: int, count: int) -> None:
        """Write masters through a buffer; parameters on NVMe are assembled first."""
        if self.on_nvme.intersection(self.members[index]):
            self.ledger.allocate_briefly(TEMPORARY, count, host=True)

    def partition_grads(self, weights: list[Weight]) -> None:
        """Write the fp32 gradients of a bucket; small or unaligned ones wait for the step."""
        setup, ledger, written_bytes = self.setup, self.ledger, 0
        for weight in weights:
            super().partition_grads([weight])
            if not (self.is_boundary and self.is_swapped(self.group_of[weight])):
                continue
            shard = self.shard(weight)
            count = (
                setup.master_itemsize * shard
                if setup.has_separate_host or setup.grad_accum_itemsize != setup.master_itemsize
                else 0
            )
            ledger.allocate(UNALIGNED_GRADS, count)
            is_large = setup.master_itemsize * shard >= setup.nvme.min_swap_bytes
            if is_large and setup.nvme.is_aligned(shard, setup.master_itemsize):
                written_bytes += count
            else:
                self.waiting_grad_bytes += count
        ledger.free(UNALIGNED_GRADS, written_bytes)

    def update_group(self, index: int, count: int, *, host: bool) -> None:
        """Update a sub-group in the swap buffers; the first step creates states and writes them."""
        new_states = (
            self._new_state_bytes([count])
            if self.is_swapped(index) and not self.setup.nvme.is_pipelined
            else 0
        )
        self.ledger.allocate(STATES, new_states, host=True)
        self.update(count, count, host=host or self.is_swapped(index))
        self.ledger.free(STATES, new_states, host=True)

    def _new_state_bytes(self, sizes: list[int]) -> int:
        return self.setup.optimizer.state_bytes * self.setup.master_itemsize // 4 * sum(sizes)

    def run(self) -> None:
        """Run one step; a pipelined swapper holds the states of the first step until the second reads them."""
        new_states = 0
        if self.setup.nvme.is_pipelined:
            new_states = self._new_state_bytes(
                [size for index, size in enumerate(self.sizes) if self.is_swapped(index)]
            )
        self.ledger.allocate(STATES, new_states, host=True)
        super().run()
        self.ledger.free(STATES, new_states, host=True)

    def step(self) -> None:
        """Update the weights, then free the gradients that were not written."""
        super().step()
        self.ledger.free(UNALIGNED_GRADS, self.waiting_grad_bytes)
        self.waiting_grad_bytes = 0


# SuperOffload: a process of its own updates the masters (`runtime/superoffload`).

WORKER_GRADS = "SuperOffload gradient buffer"


class SuperOffloadStage3(Stage3Engine):
    """`SuperOffloadOptimizer_Stage3`: a process of its own updates masters in shared memory."""

    def load(self) -> None:
        """Load as stage 3; the process starts last, and creates its states in the first step."""
        super().load()
        self.ledger.allocate(WORKER_GRADS, self.worker_grad_bytes, host=True)

    def allocate_at_rest(self) -> None:
        """Allocate as stage 3, plus the process's gradient buffer (`_allocate_worker_grad_buffer`)."""
        super().allocate_at_rest()
        self.ledger.allocate(WORKER_GRADS, self.worker_grad_bytes, host=True)

    @property
    def worker_grad_bytes(self) -> int:
        """Bytes of the largest sub-group in fp32 (`max_grad_numel`)."""
        return 4 * max(map(sum, self.groups), default=0)

    def update_group(self, index: int, count: int, *, host: bool) -> None:  # noqa: ARG002
        """Update in place in the process; torch updates what `ratio` leaves on the GPU (`backup_optimizer`)."""
        if self.setup.has_separate_host and not host:
            self.ledger.allocate_briefly(TEMPORARY, 4 * count)

    def pinned_padding(self) -> int:
        """Padding, plus the cached blocks of pinned gradients moved to shared memory (`SimpleQueue.put`)."""
        setup = self.setup
        # `SimpleQueue.put` moves tensors to shared memory; the pinned block stays in torch's cache.
        moved_blocks = [
            setup.master_itemsize * sum(group)
            for index, group in enumerate(self.groups)
            if self.is_offloaded(index)
        ]
        worker_block = (
            self.worker_grad_bytes
            if setup.pins_optimizer or setup.quirks.superoffload_buffer_is_always_pinned
            else 0
        )
        return (
            super().pinned_padding()
            + sum(moved_blocks) * setup.pins_optimizer
            + pinned_padding([worker_block])
        )
