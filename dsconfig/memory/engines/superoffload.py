"""SuperOffload: stage 3 with its masters updated in a process of its own (`runtime/superoffload`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import TEMPORARY
from dsconfig.memory.engines.pinned_memory import rounding
from dsconfig.memory.engines.zero3 import Partitioned

ARRIVING = "gradient buffer of the optimizer's process"


class SuperOffloaded(Partitioned):
    """`SuperOffloadOptimizer_Stage3`: masters and gradients are shared, states the process's own."""

    def load(self) -> None:
        """The process starts last, and is given its states in the first step."""
        super().load()
        self.ledger.take(ARRIVING, self.arriving, host=True)

    def rest(self) -> None:
        """As of stage 3, and what gradients are copied to (`_allocate_worker_grad_buffer`)."""
        super().rest()
        self.ledger.take(ARRIVING, self.arriving, host=True)

    @property
    def arriving(self) -> int:
        """Bytes that the largest sub-group takes in fp32 (`max_grad_numel`)."""
        return 4 * max(map(sum, self.groups), default=0)

    def update_group(self, index: int, count: int, *, host: bool) -> None:  # noqa: ARG002
        """The process works in place; what `ratio` leaves on the GPU is torch's (`backup_optimizer`)."""
        if self.setup.apart and not host:
            self.ledger.touch(TEMPORARY, 4 * count)

    def rounding(self) -> int:
        """Pinned gradients move to shared memory (`SimpleQueue.put`), and their blocks are kept."""
        setup = self.setup
        moved = [setup.master * sum(group) for index, group in enumerate(self.groups) if self.on_host(index)]
        arriving = self.arriving if setup.pins_optimizer or setup.ways.pins_arriving else 0
        return super().rounding() + sum(moved) * setup.pins_optimizer + rounding([arriving])
