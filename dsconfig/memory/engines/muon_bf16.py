"""Stage 1 of bf16 with gradients in fp32, with Muon (`BF16_Optimizer._prepare_muon_updates`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import TEMPORARY
from dsconfig.memory.engines.bf16_optimizer import Accumulated
from dsconfig.memory.engines.flat_partition import Partition
from dsconfig.memory.engines.muon_param_groups import is_muon, needs
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Tape
from dsconfig.memory.memory_ledger import Ledger
from dsconfig.memory.not_modelled import NotModelledError


class OrthogonalAccumulated(Accumulated):
    """Momentum is cut as the masters are; pieces of matrices go to the ranks that have others of them."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        first = self.cuts[0]
        self.matrices: Partition | None = first if is_muon(next(iter(first.starts))) else None
        if any(len(weight.shape) != 2 for weight in self.trained if is_muon(weight)):
            raise NotModelledError(
                "Muon at stage 1 with gradients in fp32 and experts is not modelled: DeepSpeed raises "
                "`BF16 Muon currently supports dense two-dimensional matrices only`"
            )

    def _states(self) -> int:
        """The momentum of a piece of the matrices, and what Adam keeps of a piece of the rest."""
        muon = self.matrices.size if self.matrices else 0
        return self.setup.optimizer.kept(self.cut.size - muon) + self.setup.master * muon

    def _update(self) -> None:
        cut, setup = self.matrices, self.setup
        if cut is not None:
            received, sent, split = _exchanged(cut, setup)
            self.ledger.take(TEMPORARY, 4 * (received + sent))
            if split:
                self.send("all_to_all", max(received, sent), 4)
            self._orthogonalise(cut)
            self.ledger.give(TEMPORARY, 4 * (received + sent))
        rest = self.cut.size - (cut.size if cut else 0)
        self.update(rest, rest)

    def _orthogonalise(self, cut: Partition) -> None:
        """A whole matrix at a time; Python has names for the last update and momentum up to the next."""
        ledger = self.ledger
        update = momentum = 0
        for weight in cut.own:
            whole = 0 if cut.parts[weight] == weight.elements else 4 * weight.elements
            ledger.take(TEMPORARY, whole)
            ledger.give(TEMPORARY, momentum)
            momentum = whole
            ledger.touch(TEMPORARY, 4 * weight.elements + needs(self.setup, weight, 4))
            ledger.give(TEMPORARY, update)
            update = 4 * weight.elements
            ledger.take(TEMPORARY, update)
        ledger.give(TEMPORARY, update + momentum)


def _exchanged(cut: Partition, setup: Setup) -> tuple[int, int, bool]:
    """Elements that this rank gets and gives, and whether any is split (`_build_muon_exchange_layout`)."""
    received = sum(weight.elements - part for weight, part in cut.parts.items())
    sent, split = 0, False
    for weight, start in cut.starts.items():
        ranks = (start + weight.elements - 1) // cut.size - start // cut.size + 1
        split = split or ranks > 1
        sent += (ranks - 1) * cut.parts.get(weight, 0)
    return received, sent if split else 0, split and setup.world > 1
