"""SuperOffload: a process of its own updates the masters of stage 3 (`runtime/superoffload`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import TEMPORARY, Feature, pinned_padding
from dsconfig.memory.engines.stage3 import DeepSpeedZeroOptimizerStage3

WORKER_GRADS = "SuperOffload gradient buffer"


class SuperOffload(Feature):
    """`SuperOffloadOptimizer_Stage3`: a process of its own updates masters in shared memory."""

    engine: DeepSpeedZeroOptimizerStage3

    def load(self) -> None:
        """Start the process, which creates its states in the first step."""
        self.ledger.allocate(WORKER_GRADS, self.worker_grad_bytes, host=True)

    def allocate_at_rest(self) -> None:
        """Allocate the gradient buffer of the process (`_allocate_worker_grad_buffer`)."""
        self.ledger.allocate(WORKER_GRADS, self.worker_grad_bytes, host=True)

    @property
    def worker_grad_bytes(self) -> int:
        """Bytes of the largest sub-group in fp32 (`max_grad_numel`)."""
        return 4 * max(map(sum, self.engine.groups), default=0)

    def update_group(self, group: int, numel: int, *, host: bool) -> bool:  # noqa: ARG002
        """Update in place in the process; torch updates what `ratio` leaves on the GPU (`backup_optimizer`)."""
        if self.setup.has_separate_host and not host:
            self.ledger.allocate_briefly(TEMPORARY, 4 * numel)
        return True

    def pinned_padding(self) -> int:
        """Cached blocks of pinned gradients moved to shared memory, and the padding of the process's buffer."""
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
