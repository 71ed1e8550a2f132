"""ZeRO stage 3 with states on NVMe (`runtime/swap_tensor`) or with SuperOffload (`runtime/superoffload`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import STATES, TEMPORARY, WEIGHTS, rounding
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero3 import Partitioned
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger
from dsconfig.memory.verdict import NotModelledError

# Stage 3 with what it keeps on NVMe, and the buffers on the host that this takes (`runtime/swap_tensor`).

SWAPPED, WAITING = "staging buffers of NVMe", "gradients that wait for NVMe"


class Swapped(Partitioned):
    """`Partitioned` with an `OptimizerSwapper`, an `AsyncPartitionedParameterSwapper`, or both."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        self.sizes = [sum(group) for group in self.groups]
        left = iter(self.trainable)
        self.members = [[next(left) for _ in group] for group in self.groups]
        self.numbers = {weight: number for number, group in enumerate(self.members) for weight in group}
        self.away = frozenset(self._on_drive()) if setup.nvme.param_buffer_size else frozenset[Weight]()
        """Parameters whose shards lie on the drive."""
        self._refuse_small_buffers()
        self.coordinator.drive(self.away, setup.nvme.param_buffer_count)
        self.waiting = 0
        """Bytes of gradients that are too small to be written, or of an odd length."""

    # ------------------------------------------------------------ parameters
    def _refuse_small_buffers(self) -> None:
        size = self.setup.nvme.param_buffer_size
        written = (self.shard(weight) for weight in self.tape.weights if self.first_home(weight) is None)
        if (largest := max(written, default=0)) > size:
            key = "`zero_optimization.offload_param.buffer_size`"
            raise NotModelledError(
                f"DeepSpeed stops where {key} is {size:,}: a part of a parameter has {largest:,} elements",
                "give at least as many",
            )

    @property
    def flat(self) -> int:
        """As much as the config wants in memory for good."""
        most = self.setup.nvme.max_in_cpu if self.setup.nvme.param_buffer_size else self.shards_trained
        return min(self.shards_trained, most)

    def _in_memory(self) -> set[Weight]:
        """What lies there: sub-groups that end before it does (`_create_fp16_partitions…`)."""
        found, offset, flat = set[Weight](), 0, self.flat
        for members, size in zip(self.members, self.sizes, strict=True):
            offset += size
            if offset <= flat:
                found.update(members)
        return found

    def _on_drive(self) -> list[Weight]:
        """What is large enough, and not in memory for good."""
        there = self._in_memory()
        return [
            weight for weight in self.tape.weights if weight not in there and self.first_home(weight) is None
        ]

    def first_home(self, weight: Weight) -> bool | None:
        """The drive, if it is large enough, whether it stays there or not."""
        swapping = self.setup.nvme
        if swapping.param_buffer_size and self.setup.itemsize * self.shard(weight) >= swapping.min_swap_bytes:
            return None
        return super().first_home(weight)

    def _parameter_buffers(self) -> int:
        """`AsyncPartitionedParameterSwapper`: bytes of some buffers, each for one shard."""
        swapping, itemsize = self.setup.nvme, self.setup.itemsize
        return (
            itemsize
            * swapping.param_buffer_count
            * swapping.aligned_numel(swapping.param_buffer_size, itemsize)
        )

    def _written_together(self) -> int:
        """What a step writes of sub-groups on the drive is put together, in a buffer for whole parameters."""
        setup = self.setup
        if not setup.nvme.param_buffer_size or self.flat == self.shards_trained:
            return 0
        largest = self.members[self.sizes.index(max(self.sizes))]
        return setup.itemsize * sum(
            setup.nvme.aligned_numel(weight.numel, setup.itemsize) for weight in largest
        )

    def _optimizer_buffer(self) -> int:
        """`SwapBufferManager`: bytes of one of its buffers, for the largest sub-group."""
        return self.setup.master_itemsize * self.setup.nvme.aligned_numel(
            max(self.sizes, default=0), self.setup.master_itemsize
        )

    def rounding(self) -> int:
        """Buffers too, where torch pins them."""
        found = super().rounding()
        if self.setup.quirks.locks_nvme_buffers:
            return found
        blocks = [self._optimizer_buffer()] * self.setup.nvme.optimizer_buffers
        return found + rounding([*blocks, self._parameter_buffers(), self._written_together()])

    def make_parameter_buffers(self) -> None:
        """What they are pinned from is there beside them for a moment."""
        if self.setup.has_separate_host or self.setup.quirks.locks_nvme_buffers:
            self.ledger.allocate_briefly(SWAPPED, 2 * self._parameter_buffers(), host=True)
        self.take_parameter_buffers()

    def take_parameter_buffers(self) -> None:
        """They stay."""
        self.ledger.allocate(SWAPPED, self._parameter_buffers(), host=True)

    def take_shards(self) -> None:
        """A flat buffer, and shards that are neither in it nor large enough for the drive."""
        setup, swapping = self.setup, self.setup.nvme
        if not swapping.param_buffer_size:
            super().take_shards()
            return
        there = self._in_memory()
        self.ledger.allocate(WEIGHTS, setup.itemsize * self.flat, host=True)
        for weight in self.tape.weights:
            if weight not in there and weight not in self.away:
                self.ledger.allocate(WEIGHTS, self.bytes_of(weight), host=weight not in self.kept)
        self.ledger.allocate(SWAPPED, self._written_together(), host=True)

    # ------------------------------------------------------------ masters, states and gradients
    def swapped(self, index: int) -> bool:
        """`_swappable_optimizer_subgroup`; it does not ask for `ratio`."""
        swapping = self.setup.nvme
        return (
            swapping.optimizer_buffers > 0
            and self.setup.master_itemsize * self.sizes[index] >= swapping.min_swap_bytes
        )

    def take_optimizer_buffers(self) -> None:
        """`SwapBufferManager`."""
        self.ledger.allocate(SWAPPED, self.setup.nvme.optimizer_buffers * self._optimizer_buffer(), host=True)

    def write_masters(self, index: int, count: int) -> None:
        """Through a buffer; what lies on the drive itself is put together first."""
        if self.away.intersection(self.members[index]):
            self.ledger.allocate_briefly(TEMPORARY, count, host=True)

    def hand_over(self, weights: list[Weight]) -> None:
        """In fp32, all of a bucket; those that cannot be written stay up to the step."""
        setup, ledger, written = self.setup, self.ledger, 0
        for weight in weights:
            super().hand_over([weight])
            if not (self.boundary and self.swapped(self.numbers[weight])):
                continue
            shard = self.shard(weight)
            count = (
                setup.master_itemsize * shard
                if setup.has_separate_host or setup.grad_accum_itemsize != setup.master_itemsize
                else 0
            )
            ledger.allocate(WAITING, count)
            large = setup.master_itemsize * shard >= setup.nvme.min_swap_bytes
            if large and setup.nvme.is_aligned(shard, setup.master_itemsize):
                written += count
            else:
                self.waiting += count
        ledger.free(WAITING, written)

    def update_group(self, index: int, count: int, *, host: bool) -> None:
        """What is read lies in the buffers; the first step makes states beside them, and writes them then."""
        made = self._made([count]) if self.swapped(index) and not self.setup.nvme.is_pipelined else 0
        self.ledger.allocate(STATES, made, host=True)
        self.update(count, count, host=host or self.swapped(index))
        self.ledger.free(STATES, made, host=True)

    def _made(self, sizes: list[int]) -> int:
        return self.setup.optimizer.state_bytes * self.setup.master_itemsize // 4 * sum(sizes)

    def run(self) -> None:
        """Pipelined, states that the first step made are let go of as the second one reads them."""
        made = 0
        if self.setup.nvme.is_pipelined:
            made = self._made([size for index, size in enumerate(self.sizes) if self.swapped(index)])
        self.ledger.allocate(STATES, made, host=True)
        super().run()
        self.ledger.free(STATES, made, host=True)

    def step(self) -> None:
        """As without a drive."""
        super().step()
        self.ledger.free(WAITING, self.waiting)
        self.waiting = 0


# SuperOffload: stage 3 with its masters updated in a process of its own (`runtime/superoffload`).

ARRIVING = "gradient buffer of the optimizer's process"


class SuperOffloaded(Partitioned):
    """`SuperOffloadOptimizer_Stage3`: masters and gradients are shared, states the process's own."""

    def load(self) -> None:
        """The process starts last, and is given its states in the first step."""
        super().load()
        self.ledger.allocate(ARRIVING, self.arriving, host=True)

    def rest(self) -> None:
        """As of stage 3, and what gradients are copied to (`_allocate_worker_grad_buffer`)."""
        super().rest()
        self.ledger.allocate(ARRIVING, self.arriving, host=True)

    @property
    def arriving(self) -> int:
        """Bytes that the largest sub-group takes in fp32 (`max_grad_numel`)."""
        return 4 * max(map(sum, self.groups), default=0)

    def update_group(self, index: int, count: int, *, host: bool) -> None:  # noqa: ARG002
        """The process works in place; what `ratio` leaves on the GPU is torch's (`backup_optimizer`)."""
        if self.setup.has_separate_host and not host:
            self.ledger.allocate_briefly(TEMPORARY, 4 * count)

    def rounding(self) -> int:
        """Pinned gradients move to shared memory (`SimpleQueue.put`), and their blocks are kept."""
        setup = self.setup
        moved = [
            setup.master_itemsize * sum(group)
            for index, group in enumerate(self.groups)
            if self.on_host(index)
        ]
        arriving = (
            self.arriving if setup.pins_optimizer or setup.quirks.always_pins_superoffload_buffer else 0
        )
        return super().rounding() + sum(moved) * setup.pins_optimizer + rounding([arriving])
