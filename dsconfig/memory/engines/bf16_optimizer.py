"""`BF16_Optimizer`: stages 0 and 1 of bf16 with fp32 gradients, which every rank keeps for the whole model."""

from __future__ import annotations

from dsconfig.memory.autograd_graph import ForwardTape, ModelParameter
from dsconfig.memory.engines.base import FLATTENED, GRADIENTS, MASTER, STATES, TEMPORARY, WEIGHTS, Engine
from dsconfig.memory.engines.engine_setup import EngineSetup
from dsconfig.memory.engines.param_groups import (
    FlatPartition,
    merge_partitions,
    parameter_groups,
    partition_of,
)
from dsconfig.memory.memory_ledger import MemoryLedger

ACCUMULATED = "fp32 model gradients"


class BF16Optimizer(Engine):
    """`BF16_Optimizer` (runtime/bf16_optimizer.py)."""

    def __init__(self, setup: EngineSetup, tape: ForwardTape, ledger: MemoryLedger) -> None:
        super().__init__(setup, tape, ledger)
        groups = parameter_groups(setup, self.trainable)
        self.partitions = [self._partition_of(members) for members in groups]
        self.partition = merge_partitions(self.partitions)

    def _partition_of(self, members: list[ModelParameter]) -> FlatPartition:
        """Return the partition of a parameter group that belongs to this rank."""
        ranks = self.ranks_of(members[0])
        return partition_of(
            members, ranks, self.setup.rank // (self.setup.dp_world_size // ranks), round_robin=False
        )

    def _allocate_at_rest(self) -> None:
        """Allocate flat weights, fp32 gradients of the whole model, and this rank's masters and states."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate(
            WEIGHTS, setup.itemsize * (self.partition.padded_numel + self.total_numel - self.trainable_numel)
        )
        ledger.allocate(ACCUMULATED, setup.grad_accum_itemsize * self.partition.padded_numel)
        ledger.allocate(MASTER, setup.master_itemsize * self.partition.numel)
        numel = self.partition.numel
        states = self.state_bytes(0, numel, setup.optimizer.states_nbytes(numel))
        ledger.allocate(STATES, states + self.construction_state_bytes)
        # `fp32_groups_gradients_flat` covers the whole model and is never freed (bf16_optimizer.py
        # `_setup_for_real_optimizer`).
        self.keeps_bit16_grads = setup.keeps_bit16_grads
        self.params_with_grad = set[ModelParameter](self.trainable if self.keeps_bit16_grads else ())
        ledger.allocate(GRADIENTS, setup.itemsize * self.trainable_numel if self.keeps_bit16_grads else 0)

    def _load(self) -> None:
        """Flatten the weights of each group, then create masters and fp32 gradients."""
        self.build()
        setup, ledger = self.setup, self.ledger
        for partition in self.partitions:
            ledger.allocate(FLATTENED, setup.itemsize * partition.padded_numel)
            ledger.free(WEIGHTS, setup.itemsize * sum(weight.numel for weight in partition.offsets))
            ledger.allocate_briefly(MASTER, (setup.itemsize + setup.master_itemsize) * partition.numel)
            ledger.allocate(MASTER, setup.master_itemsize * partition.numel)
            ledger.allocate(ACCUMULATED, setup.grad_accum_itemsize * partition.padded_numel)

    def _before_backward(self) -> None:
        """Free the kept bf16 gradients (`clear_lp_grads`); some releases fill them with zeros instead."""
        if (
            self.params_with_grad
            and self.keeps_bit16_grads
            and self.setup.quirks.bf16_grads_stay_until_next_backward
        ):
            self.ledger.free(GRADIENTS, self.setup.itemsize * self.trainable_numel)
            self.params_with_grad.clear()

    def _receive_gradient(self, weight: ModelParameter, count: int) -> None:
        """Keep the bf16 gradient until the step."""
        if weight in self.params_with_grad:
            self.ledger.free(GRADIENTS, count)
        self.params_with_grad.add(weight)

    def _after_backward(self) -> None:
        """Add each gradient to its fp32 copy; at the boundary, all-reduce these."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate_briefly(
            TEMPORARY, setup.grad_accum_itemsize * max((weight.numel for weight in self.trainable), default=0)
        )
        if self.is_boundary:
            cast_itemsize = setup.comm_itemsize if setup.comm_itemsize != setup.grad_accum_itemsize else 0
            for (ranks, _), partitions in self.partitions_by_group().items():
                # Several groups are flattened into one tensor.
                flat_itemsize = setup.grad_accum_itemsize if len(partitions) > 1 else 0
                count = sum(partition.padded_numel for partition in partitions)
                ledger.allocate_briefly(FLATTENED, (flat_itemsize + cast_itemsize) * count)
                self.count_collective("all_reduce", count, setup.comm_itemsize, ranks)

    def partitions_by_group(self) -> dict[tuple[int, bool], list[FlatPartition]]:
        """Partitions by number of ranks and by whether they hold experts."""
        by_group: dict[tuple[int, bool], list[FlatPartition]] = {}
        for partition in self.partitions:
            weight = next(iter(partition.offsets))
            by_group.setdefault((self.ranks_of(weight), weight.is_expert), []).append(partition)
        return by_group

    def _step(self) -> None:
        """Update this rank's partition, then all-gather the weights."""
        for index, partition in enumerate(self.partitions):
            self.update_group(index, partition.numel, partition.numel)
        if not self.keeps_bit16_grads:
            self.ledger.free(GRADIENTS, self.setup.itemsize * self.trainable_numel)
            self.params_with_grad.clear()
        for partition in self.partitions:
            if partition.padded_numel > partition.numel:
                self.count_collective(
                    "all_gather",
                    partition.padded_numel,
                    self.setup.itemsize,
                    partition.padded_numel // partition.numel,
                )
