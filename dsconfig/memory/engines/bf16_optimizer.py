"""Stages 0 and 1 of bf16 with gradients in fp32: the whole model's on every rank (`bf16_optimizer.py`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import FLATTENED, GRADIENTS, MASTER, STATES, TEMPORARY, WEIGHTS, Engine
from dsconfig.memory.engines.param_groups import (
    Partition,
    merge_partitions,
    muon_halves,
    optimizer_groups,
    partition_of,
)
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger

ACCUMULATED = "fp32 model gradients"


class BF16OptimizerEngine(Engine):
    """`BF16_Optimizer`."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        found = (
            muon_halves(setup, self.trainable)
            if setup.optimizer.muon_method
            else optimizer_groups(self.trainable)
        )
        self.partitions = [self._partition_of(members) for members in found]
        self.partition = merge_partitions(self.partitions)

    def _partition_of(self, members: list[Weight]) -> Partition:
        """This rank's piece of a group, of the ranks that share it."""
        ranks = self.ranks_of(members[0])
        return partition_of(
            members, ranks, self.setup.rank // (self.setup.dp_world_size // ranks), round_robin=False
        )

    def allocate_at_rest(self) -> None:
        """Flat weights, flat fp32 gradients that are never freed, a piece of masters and states."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate(
            WEIGHTS, setup.itemsize * (self.partition.padded_numel + self.total_numel - self.trainable_numel)
        )
        ledger.allocate(ACCUMULATED, setup.grad_accum_itemsize * self.partition.padded_numel)
        ledger.allocate(MASTER, setup.master_itemsize * self.partition.numel)
        ledger.allocate(STATES, self._state_bytes() + self.construction_state_bytes)
        self.keeps_bit16_grads = setup.stage in setup.quirks.stages_keeping_bit16_grads
        self.params_with_grad = set[Weight](self.trainable if self.keeps_bit16_grads else ())
        ledger.allocate(GRADIENTS, setup.itemsize * self.trainable_numel if self.keeps_bit16_grads else 0)

    def _state_bytes(self) -> int:
        """Bytes of the optimizer's states for the piece."""
        return self.setup.optimizer.states_nbytes(self.partition.numel)

    def load(self) -> None:
        """The weights are flattened; masters and gradients follow."""
        self.build()
        setup, ledger = self.setup, self.ledger
        for partition in self.partitions:
            ledger.allocate(FLATTENED, setup.itemsize * partition.padded_numel)
            ledger.free(WEIGHTS, setup.itemsize * sum(weight.numel for weight in partition.offsets))
            ledger.allocate_briefly(MASTER, (setup.itemsize + setup.master_itemsize) * partition.numel)
            ledger.allocate(MASTER, setup.master_itemsize * partition.numel)
            ledger.allocate(ACCUMULATED, setup.grad_accum_itemsize * partition.padded_numel)

    def before_backward(self) -> None:
        """`clear_lp_grads` frees what was kept, or fills it with zeros."""
        if self.params_with_grad and self.keeps_bit16_grads and self.setup.quirks.clears_kept_grads_late:
            self.ledger.free(GRADIENTS, self.setup.itemsize * self.trainable_numel)
            self.params_with_grad.clear()

    def receive_gradient(self, weight: Weight, count: int) -> None:
        """It stays until the step, in the model's type."""
        if weight in self.params_with_grad:
            self.ledger.free(GRADIENTS, count)
        self.params_with_grad.add(weight)

    def after_backward(self) -> None:
        """Each gradient is added to the accumulated one; at the boundary these are sent."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate_briefly(
            TEMPORARY, setup.grad_accum_itemsize * max((weight.numel for weight in self.trainable), default=0)
        )
        if self.is_boundary:
            cast = setup.comm_itemsize if setup.comm_itemsize != setup.grad_accum_itemsize else 0
            for (ranks, _), partitions in self.partitions_by_group().items():
                flat = (
                    setup.grad_accum_itemsize if len(partitions) > 1 else 0
                )  # those of several groups in one tensor
                count = sum(partition.padded_numel for partition in partitions)
                ledger.allocate_briefly(FLATTENED, (flat + cast) * count)
                self.count_collective("all_reduce", count, setup.comm_itemsize, ranks)

    def partitions_by_group(self) -> dict[tuple[int, bool], list[Partition]]:
        """Groups by how many ranks share them, and whether they are of experts."""
        found: dict[tuple[int, bool], list[Partition]] = {}
        for partition in self.partitions:
            first = next(iter(partition.offsets))
            found.setdefault((self.ranks_of(first), first.is_expert), []).append(partition)
        return found

    def step(self) -> None:
        """The piece is updated from its part of the accumulated gradients."""
        self._update()
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

    def _update(self) -> None:
        for partition in self.partitions:
            self.update(partition.numel, partition.numel)
