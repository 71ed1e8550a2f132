"""Stages 0 and 1 of bf16 with gradients in fp32: the whole model's on every rank (`bf16_optimizer.py`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import FLATTENED, GRADIENTS, MASTER, STATES, TEMPORARY, WEIGHTS, Engine
from dsconfig.memory.engines.param_groups import Partition, groups, halves, joined, partition
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger

ACCUMULATED = "fp32 gradients of the model"


class Accumulated(Engine):
    """`BF16_Optimizer`."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        found = halves(setup, self.trainable) if setup.optimizer.muon_method else groups(self.trainable)
        self.cuts = [self._piece(members) for members in found]
        self.cut = joined(self.cuts)

    def _piece(self, members: list[Weight]) -> Partition:
        """This rank's piece of a group, of the ranks that share it."""
        ranks = self.ranks_of(members[0])
        return partition(
            members, ranks, self.setup.rank // (self.setup.dp_world_size // ranks), round_robin=False
        )

    def rest(self) -> None:
        """Flat weights, flat fp32 gradients that are never freed, a piece of masters and states."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate(WEIGHTS, setup.itemsize * (self.cut.padded + self.total_numel - self.trainable_numel))
        ledger.allocate(ACCUMULATED, setup.grad_accum_itemsize * self.cut.padded)
        ledger.allocate(MASTER, setup.master_itemsize * self.cut.size)
        ledger.allocate(STATES, self._states() + self.begun)
        self.keeps = setup.stage in setup.quirks.stages_keeping_bit16_grads
        self.there = set[Weight](self.trainable if self.keeps else ())
        ledger.allocate(GRADIENTS, setup.itemsize * self.trainable_numel if self.keeps else 0)

    def _states(self) -> int:
        """Bytes of the optimizer's states for the piece."""
        return self.setup.optimizer.states_nbytes(self.cut.size)

    def load(self) -> None:
        """The weights are flattened; masters and gradients follow."""
        self.build()
        setup, ledger = self.setup, self.ledger
        for cut in self.cuts:
            ledger.allocate(FLATTENED, setup.itemsize * cut.padded)
            ledger.free(WEIGHTS, setup.itemsize * sum(weight.numel for weight in cut.starts))
            ledger.allocate_briefly(MASTER, (setup.itemsize + setup.master_itemsize) * cut.size)
            ledger.allocate(MASTER, setup.master_itemsize * cut.size)
            ledger.allocate(ACCUMULATED, setup.grad_accum_itemsize * cut.padded)

    def begin(self) -> None:
        """`clear_lp_grads` frees what was kept, or fills it with zeros."""
        if self.there and self.keeps and self.setup.quirks.clears_kept_grads_late:
            self.ledger.free(GRADIENTS, self.setup.itemsize * self.trainable_numel)
            self.there.clear()

    def gradient(self, weight: Weight, count: int) -> None:
        """It stays until the step, in the model's type."""
        if weight in self.there:
            self.ledger.free(GRADIENTS, count)
        self.there.add(weight)

    def after(self) -> None:
        """Each gradient is added to the accumulated one; at the boundary these are sent."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate_briefly(
            TEMPORARY, setup.grad_accum_itemsize * max((weight.numel for weight in self.trainable), default=0)
        )
        if self.boundary:
            cast = setup.comm_itemsize if setup.comm_itemsize != setup.grad_accum_itemsize else 0
            for (ranks, _), cuts in self.by_ranks().items():
                flat = (
                    setup.grad_accum_itemsize if len(cuts) > 1 else 0
                )  # those of several groups in one tensor
                count = sum(cut.padded for cut in cuts)
                ledger.allocate_briefly(FLATTENED, (flat + cast) * count)
                self.send("all_reduce", count, setup.comm_itemsize, ranks)

    def by_ranks(self) -> dict[tuple[int, bool], list[Partition]]:
        """Groups by how many ranks share them, and whether they are of experts."""
        found: dict[tuple[int, bool], list[Partition]] = {}
        for cut in self.cuts:
            first = next(iter(cut.starts))
            found.setdefault((self.ranks_of(first), first.is_expert), []).append(cut)
        return found

    def step(self) -> None:
        """The piece is updated from its part of the accumulated gradients."""
        self._update()
        if not self.keeps:
            self.ledger.free(GRADIENTS, self.setup.itemsize * self.trainable_numel)
            self.there.clear()
        for cut in self.cuts:
            if cut.padded > cut.size:
                self.send("all_gather", cut.padded, self.setup.itemsize, cut.padded // cut.size)

    def _update(self) -> None:
        for cut in self.cuts:
            self.update(cut.size, cut.size)
