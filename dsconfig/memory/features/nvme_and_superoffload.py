"""Stage 3 with NVMe offload, which swaps through host buffers, and with SuperOffload (`runtime/superoffload`)."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ModelParameter
from dsconfig.memory.engines.base_engine import STATES, TEMPORARY, WEIGHTS, Feature, pinned_padding
from dsconfig.memory.engines.stage3 import DeepSpeedZeroOptimizerStage3
from dsconfig.memory.unsupported_settings import stop_error

SWAP_BUFFERS, UNALIGNED_GRADS = "NVMe swap buffers", "gradients waiting for NVMe"


class NvmeOffload(Feature):
    """NVMe offload of optimizer states, parameters or both (`runtime/swap_tensor`)."""

    engine: DeepSpeedZeroOptimizerStage3

    def __init__(self, engine: DeepSpeedZeroOptimizerStage3) -> None:
        super().__init__(engine)
        swapping = self.setup.nvme
        if swapping.param_buffer_size:  # `max_in_cpu` counts elements; only whole sub-groups stay in memory
            engine.flat_numel = min(engine.trainable_shard_numel, swapping.max_in_cpu)
        self.sizes = [sum(group) for group in engine.groups]
        engine.swapped_groups = frozenset(
            # `_swappable_optimizer_subgroup` ignores `ratio`.
            index
            for index, size in enumerate(self.sizes)
            if swapping.optimizer_buffers and self.setup.master_itemsize * size >= swapping.min_swap_bytes
        )
        remaining = iter(engine.trainable)
        self.members = [[next(remaining) for _ in group] for group in engine.groups]
        self.group_of = {weight: number for number, group in enumerate(self.members) for weight in group}
        self.in_memory = self._in_memory()
        self.on_nvme = frozenset(
            weight
            for weight in engine.tape.weights
            if weight not in self.in_memory and self.is_on_nvme(weight)
        )
        """Parameters whose shards are kept on NVMe."""
        self._reject_small_buffers()
        engine.coordinator.set_nvme_params(self.on_nvme, swapping.param_buffer_count)
        self.waiting_grad_bytes = self.written_grad_bytes = 0
        """Bytes of small or unaligned gradients that wait for the step, and of gradients that are being written."""

    # ------------------------------------------------------------ parameters
    def _reject_small_buffers(self) -> None:
        buffer_numel = self.setup.nvme.param_buffer_size
        engine = self.engine
        shards = (engine.shard_numel(weight) for weight in engine.tape.weights if self.is_on_nvme(weight))
        if (largest := max(shards, default=0)) > buffer_numel:
            key = "`zero_optimization.offload_param.buffer_size`"
            why = f"a shard of a parameter has {largest:,} elements"
            raise stop_error(f"where {key} is {buffer_numel:,}", why, "use at least that many")

    def _in_memory(self) -> set[ModelParameter]:
        """Return the parameters whose sub-groups are in the flat buffer rather than on NVMe."""
        in_memory, offset = set[ModelParameter](), 0
        for members, size in zip(self.members, self.sizes, strict=True):
            offset += size
            if offset <= self.engine.flat_numel:
                in_memory.update(members)
        return in_memory

    def is_on_nvme(self, weight: ModelParameter) -> bool:
        """Return whether a new shard is large enough to be on NVMe, even if it is moved back to memory later."""
        swapping = self.setup.nvme
        large = self.setup.itemsize * self.engine.shard_numel(weight) >= swapping.min_swap_bytes
        return large and swapping.param_buffer_size > 0

    def _param_buffer_bytes(self) -> int:
        """Return the bytes of the buffers for parameter shards (`AsyncPartitionedParameterSwapper`)."""
        swapping, itemsize = self.setup.nvme, self.setup.itemsize
        return (
            itemsize
            * swapping.param_buffer_count
            * swapping.aligned_numel(swapping.param_buffer_size, itemsize)
        )

    def _write_buffer_bytes(self) -> int:
        """Return the bytes of the buffer in which a step assembles parameters before writing them."""
        setup = self.setup
        if not setup.nvme.param_buffer_size or self.engine.flat_numel == self.engine.trainable_shard_numel:
            return 0
        largest = self.members[self.sizes.index(max(self.sizes))]
        return setup.itemsize * sum(
            setup.nvme.aligned_numel(weight.numel, setup.itemsize) for weight in largest
        )

    def _optimizer_buffer_bytes(self) -> int:
        """Return the bytes of one `SwapBufferManager` buffer, which holds the largest sub-group."""
        return self.setup.master_itemsize * self.setup.nvme.aligned_numel(
            max(self.sizes, default=0), self.setup.master_itemsize
        )

    def pinned_padding(self) -> int:
        """Return the padding of the swap buffers if torch pins them, else 0."""
        if self.setup.quirks.nvme_buffers_are_locked_by_deepspeed:
            return 0
        blocks = [self._optimizer_buffer_bytes()] * self.setup.nvme.optimizer_buffers
        return pinned_padding([*blocks, self._param_buffer_bytes(), self._write_buffer_bytes()])

    def before_partition(self) -> None:
        """Create the shard buffers, copying them from unpinned memory."""
        if self.setup.has_separate_host or self.setup.quirks.nvme_buffers_are_locked_by_deepspeed:
            self.ledger.allocate_briefly(SWAP_BUFFERS, 2 * self._param_buffer_bytes(), host=True)
        self.ledger.allocate(SWAP_BUFFERS, self._param_buffer_bytes(), host=True)

    def allocate_offloaded_shards(self) -> bool:
        """Allocate the flat buffer, and the shards outside it that are too small for NVMe."""
        engine = self.engine
        if not self.setup.nvme.param_buffer_size:
            return False
        self.ledger.allocate(WEIGHTS, self.setup.itemsize * engine.flat_numel, host=True)
        for weight in engine.tape.weights:
            if weight not in self.in_memory and weight not in self.on_nvme:
                on_host = weight not in engine.persistent
                self.ledger.allocate(WEIGHTS, engine.shard_bytes_of(weight), host=on_host)
        self.ledger.allocate(SWAP_BUFFERS, self._write_buffer_bytes(), host=True)
        return True

    def allocate_at_rest(self) -> None:
        """Allocate all buffers, and for a pipelined swapper, the new states that it keeps until the second step."""
        self.ledger.allocate(SWAP_BUFFERS, self._param_buffer_bytes(), host=True)
        self.before_masters()
        self.ledger.allocate(STATES, self._pipelined_state_bytes(), host=True)

    def after_run(self) -> None:
        """Free the states that were created in the first step."""
        self.ledger.free(STATES, self._pipelined_state_bytes(), host=True)

    # ------------------------------------------------------------ masters, states and gradients
    def before_masters(self) -> None:
        """Allocate the buffers of `SwapBufferManager`."""
        count = self.setup.nvme.optimizer_buffers * self._optimizer_buffer_bytes()
        self.ledger.allocate(SWAP_BUFFERS, count, host=True)

    def swap_out_masters(self, group: int, count: int) -> None:
        """Write master weights through a buffer, assembling parameters that are on NVMe first."""
        if self.on_nvme.intersection(self.members[group]):
            self.ledger.allocate_briefly(TEMPORARY, count, host=True)

    def store_gradient(self, weight: ModelParameter) -> None:
        """Write an fp32 gradient to NVMe; small or unaligned gradients wait for the step."""
        setup, engine = self.setup, self.engine
        if not (engine.is_boundary and self.group_of[weight] in engine.swapped_groups):
            return
        shard = engine.shard_numel(weight)
        is_copied = setup.has_separate_host or setup.grad_accum_itemsize != setup.master_itemsize
        count = setup.master_itemsize * shard if is_copied else 0
        self.ledger.allocate(UNALIGNED_GRADS, count)
        is_large = setup.master_itemsize * shard >= setup.nvme.min_swap_bytes
        if is_large and setup.nvme.is_aligned(shard, setup.master_itemsize):
            self.written_grad_bytes += count
        else:
            self.waiting_grad_bytes += count

    def after_store(self) -> None:
        """Free the gradients that were written to NVMe."""
        self.ledger.free(UNALIGNED_GRADS, self.written_grad_bytes)
        self.written_grad_bytes = 0

    def update_group(self, group: int, numel: int, *, host: bool) -> bool:
        """Update a sub-group in the swap buffers; the first step also creates and writes its states."""
        is_swapped = group in self.engine.swapped_groups
        new_states = self._new_state_bytes(numel) if is_swapped and not self.setup.nvme.is_pipelined else 0
        self.ledger.allocate(STATES, new_states, host=True)
        self.engine.update(numel, numel, host=host or is_swapped)
        self.ledger.free(STATES, new_states, host=True)
        return True

    def _new_state_bytes(self, numel: int) -> int:
        return self.setup.optimizer.state_bytes * self.setup.master_itemsize // 4 * numel

    def _pipelined_state_bytes(self) -> int:
        """Return the bytes of the first step's states if reads or writes are pipelined, else 0."""
        numel = sum(self.sizes[index] for index in self.engine.swapped_groups)
        return self._new_state_bytes(numel) if self.setup.nvme.is_pipelined else 0

    def after_step(self) -> None:
        """Free the gradients that waited for the step."""
        self.ledger.free(UNALIGNED_GRADS, self.waiting_grad_bytes)
        self.waiting_grad_bytes = 0


WORKER_GRADS = "SuperOffload gradient buffer"


class SuperOffload(Feature):
    """`SuperOffloadOptimizer_Stage3`, which updates master weights in shared memory from a separate process."""

    engine: DeepSpeedZeroOptimizerStage3

    def load(self) -> None:
        """Start the optimizer process; it creates its states in the first step."""
        self.ledger.allocate(WORKER_GRADS, self.worker_grad_bytes, host=True)

    def allocate_at_rest(self) -> None:
        """Allocate the gradient buffer of the optimizer process (`_allocate_worker_grad_buffer`)."""
        self.ledger.allocate(WORKER_GRADS, self.worker_grad_bytes, host=True)

    @property
    def worker_grad_bytes(self) -> int:
        """Bytes of the largest sub-group's gradients in fp32 (`max_grad_numel`)."""
        return 4 * max(map(sum, self.engine.groups), default=0)

    def update_group(self, group: int, numel: int, *, host: bool) -> bool:  # noqa: ARG002
        """Update in place in the optimizer process; torch updates the part that `ratio` keeps on the GPU."""
        if self.setup.has_separate_host and not host:
            self.ledger.allocate_briefly(TEMPORARY, 4 * numel)
        return True

    def pinned_padding(self) -> int:
        """Return the padding of pinned tensors, including freed blocks in torch's cache of pinned memory."""
        setup = self.setup
        # `SimpleQueue.put` moves tensors to shared memory; the pinned block stays in torch's cache.
        moved_blocks = [
            setup.master_itemsize * sum(group)
            for index, group in enumerate(self.engine.groups)
            if self.engine.is_offloaded(index)
        ]
        worker_block = (
            self.worker_grad_bytes
            if setup.pins_optimizer or setup.quirks.superoffload_buffer_is_always_pinned
            else 0
        )
        return sum(moved_blocks) * setup.pins_optimizer + pinned_padding([worker_block])
