"""Stage 0 with Muon: every rank makes every matrix orthogonal."""

from __future__ import annotations

from dsconfig.memory.engines.base import TEMPORARY
from dsconfig.memory.engines.muon_param_groups import is_muon, needs
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero0 import Whole
from dsconfig.memory.graph import Tape
from dsconfig.memory.memory_ledger import Ledger


class OrthogonalWhole(Whole):
    """`MuonWithAuxAdam.step`, over gradients in fp32 and with them."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        self.matrices = [weight for weight in self.trained if is_muon(weight)]
        if not setup.zero_init:
            self.matrices.sort(key=lambda weight: weight.shape, reverse=True)
        self.others = [weight for weight in self.trained if not is_muon(weight)]

    def _states(self) -> int:
        """The momentum of matrices, and what Adam keeps of the rest."""
        rest = sum(weight.elements for weight in self.others)
        late = self.setup.ways.muon_late  # without ZeRO it then is SGD
        return self.setup.optimizer.kept(rest) + (0 if late else self.setup.master * (self.elements - rest))

    def update(self, elements: int, largest: int, *, host: bool = False) -> None:  # noqa: ARG002
        """One matrix after the other; Python has a name for the last update up to the next."""
        made, width = 0, self.setup.master
        for weight in () if self.setup.ways.muon_late else self.matrices:
            need = needs(self.setup, weight, width)
            self.ledger.touch(TEMPORARY, made + need, host=host)
            made = width * weight.elements
        self.ledger.take(TEMPORARY, made, host=host)
        sizes = [weight.elements for weight in self.others]
        super().update(sum(sizes), max(sizes, default=0), host=host)
        self.ledger.give(TEMPORARY, made, host=host)
