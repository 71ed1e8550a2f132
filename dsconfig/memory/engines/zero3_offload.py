"""ZeRO stage 3 with states on NVMe (`runtime/swap_tensor`) or with SuperOffload (`runtime/superoffload`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import STATES, TEMPORARY, WEIGHTS, pinned_padding
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero3 import Stage3Engine
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger
from dsconfig.memory.verdict import NotModelledError

# Stage 3 with what it keeps on NVMe, and the buffers on the host that this takes (`runtime/swap_tensor`).

SWAP_BUFFERS, UNALIGNED_GRADS = "NVMe swap buffers", "gradients waiting for NVMe"


class NvmeStage3(Stage3Engine):
    """`Partitioned` with an `OptimizerSwapper`, an `AsyncPartitionedParameterSwapper`, or both."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        self.sizes = [sum(group) for group in self.groups]
        left = iter(self.trainable)
        self.members = [[next(left) for _ in group] for group in self.groups]
        self.group_of = {weight: number for number, group in enumerate(self.members) for weight in group}
        self.on_nvme = frozenset(self._on_drive()) if setup.nvme.param_buffer_size else frozenset[Weight]()
        """Parameters whose shards lie on the drive."""
        self._reject_small_buffers()
        self.coordinator.set_nvme_params(self.on_nvme, setup.nvme.param_buffer_count)
        self.waiting_grad_bytes = 0
        """Bytes of gradients that are too small to be written, or of an odd length."""

    # ------------------------------------------------------------ parameters
    def _reject_small_buffers(self) -> None:
        size = self.setup.nvme.param_buffer_size
        written = (
            self.shard(weight) for weight in self.tape.weights if self.initial_location(weight) is None
        )
        if (largest := max(written, default=0)) > size:
            key = "`zero_optimization.offload_param.buffer_size`"
            raise NotModelledError(
                f"DeepSpeed stops where {key} is {size:,}: a part of a parameter has {largest:,} elements",
                "give at least as many",
            )

    @property
    def flat_numel(self) -> int:
        """As much as the config wants in memory for good."""
        most = self.setup.nvme.max_in_cpu if self.setup.nvme.param_buffer_size else self.trainable_shard_numel
        return min(self.trainable_shard_numel, most)

    def _in_memory(self) -> set[Weight]:
        """What lies there: sub-groups that end before it does (`_create_fp16_partitions…`)."""
        found, offset, flat = set[Weight](), 0, self.flat_numel
        for members, size in zip(self.members, self.sizes, strict=True):
            offset += size
            if offset <= flat:
                found.update(members)
        return found

    def _on_drive(self) -> list[Weight]:
        """What is large enough, and not in memory for good."""
        there = self._in_memory()
        return [
            weight
            for weight in self.tape.weights
            if weight not in there and self.initial_location(weight) is None
        ]

    def initial_location(self, weight: Weight) -> bool | None:
        """The drive, if it is large enough, whether it stays there or not."""
        swapping = self.setup.nvme
        if swapping.param_buffer_size and self.setup.itemsize * self.shard(weight) >= swapping.min_swap_bytes:
            return None
        return super().initial_location(weight)

    def _param_buffer_bytes(self) -> int:
        """`AsyncPartitionedParameterSwapper`: bytes of some buffers, each for one shard."""
        swapping, itemsize = self.setup.nvme, self.setup.itemsize
        return (
            itemsize
            * swapping.param_buffer_count
            * swapping.aligned_numel(swapping.param_buffer_size, itemsize)
        )

    def _write_buffer_bytes(self) -> int:
        """What a step writes of sub-groups on the drive is put together, in a buffer for whole parameters."""
        setup = self.setup
        if not setup.nvme.param_buffer_size or self.flat_numel == self.trainable_shard_numel:
            return 0
        largest = self.members[self.sizes.index(max(self.sizes))]
        return setup.itemsize * sum(
            setup.nvme.aligned_numel(weight.numel, setup.itemsize) for weight in largest
        )

    def _optimizer_buffer_bytes(self) -> int:
        """`SwapBufferManager`: bytes of one of its buffers, for the largest sub-group."""
        return self.setup.master_itemsize * self.setup.nvme.aligned_numel(
            max(self.sizes, default=0), self.setup.master_itemsize
        )

    def pinned_padding(self) -> int:
        """Buffers too, where torch pins them."""
        found = super().pinned_padding()
        if self.setup.quirks.locks_nvme_buffers:
            return found
        blocks = [self._optimizer_buffer_bytes()] * self.setup.nvme.optimizer_buffers
        return found + pinned_padding([*blocks, self._param_buffer_bytes(), self._write_buffer_bytes()])

    def create_param_buffers(self) -> None:
        """What they are pinned from is there beside them for a moment."""
        if self.setup.has_separate_host or self.setup.quirks.locks_nvme_buffers:
            self.ledger.allocate_briefly(SWAP_BUFFERS, 2 * self._param_buffer_bytes(), host=True)
        self.allocate_param_buffers()

    def allocate_param_buffers(self) -> None:
        """They stay."""
        self.ledger.allocate(SWAP_BUFFERS, self._param_buffer_bytes(), host=True)

    def allocate_shards(self) -> None:
        """A flat buffer, and shards that are neither in it nor large enough for the drive."""
        setup, swapping = self.setup, self.setup.nvme
        if not swapping.param_buffer_size:
            super().allocate_shards()
            return
        there = self._in_memory()
        self.ledger.allocate(WEIGHTS, setup.itemsize * self.flat_numel, host=True)
        for weight in self.tape.weights:
            if weight not in there and weight not in self.on_nvme:
                self.ledger.allocate(WEIGHTS, self.shard_bytes_of(weight), host=weight not in self.persistent)
        self.ledger.allocate(SWAP_BUFFERS, self._write_buffer_bytes(), host=True)

    # ------------------------------------------------------------ masters, states and gradients
    def is_swapped(self, index: int) -> bool:
        """`_swappable_optimizer_subgroup`; it does not ask for `ratio`."""
        swapping = self.setup.nvme
        return (
            swapping.optimizer_buffers > 0
            and self.setup.master_itemsize * self.sizes[index] >= swapping.min_swap_bytes
        )

    def allocate_optimizer_buffers(self) -> None:
        """`SwapBufferManager`."""
        self.ledger.allocate(
            SWAP_BUFFERS, self.setup.nvme.optimizer_buffers * self._optimizer_buffer_bytes(), host=True
        )

    def swap_out_masters(self, index: int, count: int) -> None:
        """Through a buffer; what lies on the drive itself is put together first."""
        if self.on_nvme.intersection(self.members[index]):
            self.ledger.allocate_briefly(TEMPORARY, count, host=True)

    def partition_grads(self, weights: list[Weight]) -> None:
        """In fp32, all of a bucket; those that cannot be written stay up to the step."""
        setup, ledger, written = self.setup, self.ledger, 0
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
            large = setup.master_itemsize * shard >= setup.nvme.min_swap_bytes
            if large and setup.nvme.is_aligned(shard, setup.master_itemsize):
                written += count
            else:
                self.waiting_grad_bytes += count
        ledger.free(UNALIGNED_GRADS, written)

    def update_group(self, index: int, count: int, *, host: bool) -> None:
        """What is read lies in the buffers; the first step makes states beside them, and writes them then."""
        made = (
            self._new_state_bytes([count])
            if self.is_swapped(index) and not self.setup.nvme.is_pipelined
            else 0
        )
        self.ledger.allocate(STATES, made, host=True)
        self.update(count, count, host=host or self.is_swapped(index))
        self.ledger.free(STATES, made, host=True)

    def _new_state_bytes(self, sizes: list[int]) -> int:
        return self.setup.optimizer.state_bytes * self.setup.master_itemsize // 4 * sum(sizes)

    def run(self) -> None:
        """Pipelined, states that the first step made are let go of as the second one reads them."""
        made = 0
        if self.setup.nvme.is_pipelined:
            made = self._new_state_bytes(
                [size for index, size in enumerate(self.sizes) if self.is_swapped(index)]
            )
        self.ledger.allocate(STATES, made, host=True)
        super().run()
        self.ledger.free(STATES, made, host=True)

    def step(self) -> None:
        """As without a drive."""
        super().step()
        self.ledger.free(UNALIGNED_GRADS, self.waiting_grad_bytes)
        self.waiting_grad_bytes = 0


# SuperOffload: stage 3 with its masters updated in a process of its own (`runtime/superoffload`).

WORKER_GRADS = "SuperOffload gradient buffer"


class SuperOffloadStage3(Stage3Engine):
    """`SuperOffloadOptimizer_Stage3`: masters and gradients are shared, states the process's own."""

    def load(self) -> None:
        """The process starts last, and is given its states in the first step."""
        super().load()
        self.ledger.allocate(WORKER_GRADS, self.worker_grad_bytes, host=True)

    def allocate_at_rest(self) -> None:
        """As of stage 3, and what gradients are copied to (`_allocate_worker_grad_buffer`)."""
        super().allocate_at_rest()
        self.ledger.allocate(WORKER_GRADS, self.worker_grad_bytes, host=True)

    @property
    def worker_grad_bytes(self) -> int:
        """Bytes that the largest sub-group takes in fp32 (`max_grad_numel`)."""
        return 4 * max(map(sum, self.groups), default=0)

    def update_group(self, index: int, count: int, *, host: bool) -> None:  # noqa: ARG002
        """The process works in place; what `ratio` leaves on the GPU is torch's (`backup_optimizer`)."""
        if self.setup.has_separate_host and not host:
            self.ledger.allocate_briefly(TEMPORARY, 4 * count)

    def pinned_padding(self) -> int:
        """Pinned gradients move to shared memory (`SimpleQueue.put`), and their blocks are kept."""
        setup = self.setup
        moved = [
            setup.master_itemsize * sum(group)
            for index, group in enumerate(self.groups)
            if self.is_offloaded(index)
        ]
        arriving = (
            self.worker_grad_bytes
            if setup.pins_optimizer or setup.quirks.always_pins_superoffload_buffer
            else 0
        )
        return super().pinned_padding() + sum(moved) * setup.pins_optimizer + pinned_padding([arriving])
