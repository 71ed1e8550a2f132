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
        found = halves(setup, self.trained) if setup.optimizer.muon else groups(self.trained)
        self.cuts = [self._piece(members) for members in found]
        self.cut = joined(self.cuts)

    def _piece(self, members: list[Weight]) -> Partition:
        """This rank's piece of a group, of the ranks that share it."""
        ranks = self.ranks_of(members[0])
        return partition(members, ranks, self.setup.rank // (self.setup.world // ranks), round_robin=False)

    def rest(self) -> None:
        """Flat weights, flat fp32 gradients that are never freed, a piece of masters and states."""
        setup, ledger = self.setup, self.ledger
        ledger.take(WEIGHTS, setup.width * (self.cut.padded + self.everything - self.elements))
        ledger.take(ACCUMULATED, setup.gradient * self.cut.padded)
        ledger.take(MASTER, setup.master * self.cut.size)
        ledger.take(STATES, self._states() + self.begun)
        self.keeps = setup.stage in setup.ways.keeps_gradients
        self.there = set[Weight](self.trained if self.keeps else ())
        ledger.take(GRADIENTS, setup.width * self.elements if self.keeps else 0)

    def _states(self) -> int:
        """Bytes of the optimizer's states for the piece."""
        return self.setup.optimizer.kept(self.cut.size)

    def load(self) -> None:
        """The weights are flattened; masters and gradients follow."""
        self.build()
        setup, ledger = self.setup, self.ledger
        for cut in self.cuts:
            ledger.take(FLATTENED, setup.width * cut.padded)
            ledger.give(WEIGHTS, setup.width * sum(weight.elements for weight in cut.starts))
            ledger.touch(MASTER, (setup.width + setup.master) * cut.size)
            ledger.take(MASTER, setup.master * cut.size)
            ledger.take(ACCUMULATED, setup.gradient * cut.padded)

    def begin(self) -> None:
        """`clear_lp_grads` frees what was kept, or fills it with zeros."""
        if self.there and self.keeps and self.setup.ways.frees_gradients:
            self.ledger.give(GRADIENTS, self.setup.width * self.elements)
            self.there.clear()

    def gradient(self, weight: Weight, count: int) -> None:
        """It stays until the step, in the model's type."""
        if weight in self.there:
            self.ledger.give(GRADIENTS, count)
        self.there.add(weight)

    def after(self) -> None:
        """Each gradient is added to the accumulated one; at the boundary these are sent."""
        setup, ledger = self.setup, self.ledger
        ledger.touch(TEMPORARY, setup.gradient * max((weight.elements for weight in self.trained), default=0))
        if self.boundary:
            cast = setup.sent if setup.sent != setup.gradient else 0
            for (ranks, _), cuts in self.by_ranks().items():
                flat = setup.gradient if len(cuts) > 1 else 0  # those of several groups in one tensor
                count = sum(cut.padded for cut in cuts)
                ledger.touch(FLATTENED, (flat + cast) * count)
                self.send("all_reduce", count, setup.sent, ranks)

    def by_ranks(self) -> dict[tuple[int, bool], list[Partition]]:
        """Groups by how many ranks share them, and whether they are of experts."""
        found: dict[tuple[int, bool], list[Partition]] = {}
        for cut in self.cuts:
            first = next(iter(cut.starts))
            found.setdefault((self.ranks_of(first), first.expert), []).append(cut)
        return found

    def step(self) -> None:
        """The piece is updated from its part of the accumulated gradients."""
        self._update()
        if not self.keeps:
            self.ledger.give(GRADIENTS, self.setup.width * self.elements)
            self.there.clear()
        for cut in self.cuts:
            if cut.padded > cut.size:
                self.send("all_gather", cut.padded, self.setup.width, cut.padded // cut.size)

    def _update(self) -> None:
        for cut in self.cuts:
            self.update(cut.size, cut.size)
