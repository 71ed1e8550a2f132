"""ZenFlow at stages 1 and 2: selected columns are updated on the rank, all weights on the host later on."""

from __future__ import annotations

from dsconfig.memory.engines.base import GRADIENTS, MASTER, TEMPORARY
from dsconfig.memory.engines.pinned_memory import rounding
from dsconfig.memory.engines.setup import Selection, Setup
from dsconfig.memory.engines.zenflow_selection import (
    SELECTED,
    SELECTED_STATES,
    STALE,
    Stretch,
    stretches,
    update,
)
from dsconfig.memory.engines.zero12 import Sharded
from dsconfig.memory.engines.zero12_state import OFFLOADED
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger


class ZenFlow(Sharded):
    """`ZenFlowZeroOptimizer`; each rank updates the selected columns of all parameters."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger, selection: Selection) -> None:
        super().__init__(setup, tape, ledger)
        self.selection = selection
        self.stretches: dict[Weight, list[Stretch]] = {
            weight: stretches(selection, weight, cut) for weight, (cut, _) in self.piece_of.items()
        }
        self.selected = {
            weight: sum(part.selected for part in self.stretches[weight]) for weight in self.trained
        }
        """Elements of each parameter that are."""

    @property
    def sends(self) -> bool:
        """Gradients are sent in each micro batch, at stage 1 too (`is_zenflow_update_boundary`)."""
        return True

    def bytes_of(self, weights: list[Weight], *, matrices: bool = False) -> int:
        """Of what is selected of these."""
        chosen = (weight for weight in weights if not matrices or len(weight.shape) > 1)
        return self.setup.width * sum(self.selected[weight] for weight in chosen)

    # ------------------------------------------------------------ load and at rest
    def copied(self, weights: list[Weight]) -> int:
        """Matrices are copied as they are flattened (`_flatten_dense_tensors`)."""
        return self.setup.width * sum(weight.elements for weight in weights if len(weight.shape) == 2)

    def load(self) -> None:
        """The process starts with the first step."""
        super().load()
        if self.selection.overlap:
            self.ledger.take(OFFLOADED, 2 * self.setup.master * self.cut.size, host=True)

    def rest(self) -> None:
        """As without, and what is selected, its states, and what the process has for itself."""
        super().rest()
        setup, ledger = self.setup, self.ledger
        states = 2 * self.bytes_of(self.trained)
        ledger.take(SELECTED_STATES, states, host=self.selection.offload)
        ledger.take(SELECTED, self._indices(self.trained))
        if self.selection.overlap:
            ledger.take(STALE, setup.master * self.cut.size, host=True)
            ledger.take(OFFLOADED, setup.master * self.cut.size, host=True)

    def states(self) -> int:
        """Two of each for the process, which goes from one to the other (`zenflow_optimizer_process`)."""
        return super().states() * (2 if self.selection.overlap else 1)

    def _indices(self, weights: list[Weight]) -> int:
        """Bytes of the numbers of columns; those of several pieces are put together beside them."""
        found = 0
        for weight in weights:
            parts = [part.columns for part in self.stretches[weight]] if len(weight.shape) > 1 else []
            found += 4 * sum(parts) * (2 if len(parts) > 1 else 1)
        return found

    def rounding(self) -> int:
        """Pinned tensors that move to shared memory leave their blocks behind, which are kept."""
        setup, found = self.setup, super().rounding()
        if self.selection.overlap:
            moved = setup.pins_optimizer + (setup.pins_optimizer or setup.ways.pins_masters)
            found += moved * setup.master * self.cut.size
        if self.selection.offload and setup.pins_optimizer:
            found += rounding(setup.width * count for count in self.selected.values() for _ in range(2))
        return found

    # ------------------------------------------------------------ backward
    def begin(self) -> None:
        """Where columns are selected anew, masters are read back from the weights."""
        super().begin()
        if self._selects:
            setup, count = self.setup, self.cut.size
            between = setup.width if setup.apart and setup.width != setup.master else 0
            self.ledger.touch(MASTER, (setup.master + between) * count, host=True)

    @property
    def _selects(self) -> bool:
        return self.selection.again and not self.micro

    def gradient(self, weight: Weight, count: int) -> None:
        """It is transposed into the bucket."""
        if len(weight.shape) == 2 and weight.elements <= self.setup.bucket:
            self.ledger.touch(GRADIENTS, count)
        super().gradient(weight, count)

    def _transposed(self, weights: list[Weight]) -> int:
        """What is larger than the bucket is transposed beside itself (`reduce_ipg_grads`)."""
        large = (weight for weight in weights if weight in self.there and len(weight.shape) == 2)
        return sum(map(self.there.__getitem__, large))

    def _average(self, weights: list[Weight], kind: int) -> None:
        """`average_tensor`: what is sent is this rank's to select from; then all get what is selected."""
        self.ledger.touch(GRADIENTS, self._transposed(weights))
        super()._average(weights, kind)
        if self._selects:
            self._select(weights)
        self._collect(weights)

    def _select(self, weights: list[Weight]) -> None:
        """`update_selected_channels`: each rank tells the others which columns of its piece are large."""
        matrices = [weight for weight in weights if len(weight.shape) > 1]
        parts = [part for weight in matrices for part in self.stretches[weight]]
        numbers = 4 * sum(part.columns for part in parts)
        self.ledger.take(SELECTED, numbers)
        for part in parts:
            if part.rank == self.setup.rank:
                self.ledger.touch(TEMPORARY, self.setup.width * part.whole)
            self.send("broadcast", part.columns, 4)
        self.ledger.give(SELECTED, numbers)

    def _collect(self, weights: list[Weight]) -> None:
        """`_process_selected_fp32_groups_grad`."""
        setup, ledger, width = self.setup, self.ledger, self.setup.width
        buffer = self.bytes_of(weights)
        ledger.take(SELECTED, buffer)
        for weight in weights:
            for part in self.stretches[weight]:
                if part.rank == setup.rank and part.columns:
                    ledger.touch(SELECTED, width * part.selected)
                self.send("broadcast", part.selected, width)
        for weight in weights:
            parts = self.stretches[weight]
            if len(parts) > 1:
                ledger.touch(SELECTED, 2 * width * self.selected[weight])
            ledger.take(SELECTED, width * self.selected[weight])
        if self.boundary:
            self._copy(weights)
        else:
            self._update_selected(weights)
            ledger.give(SELECTED, buffer)
        ledger.give(SELECTED, buffer)

    def _copy(self, weights: list[Weight]) -> None:
        """`temp_copy_param`: what the host's update may not undo."""
        offload = self.selection.offload
        for weight in weights:
            count = self.setup.width * self.selected[weight]
            self.ledger.touch(SELECTED, count * (2 if len(weight.shape) > 1 else 1))
            self.ledger.take(SELECTED, count, host=offload)

    def _update_selected(self, weights: list[Weight]) -> None:
        """`group_step`: of columns there are copies."""
        setup, copied = self.setup, self.bytes_of(weights, matrices=True)
        update(setup, self.ledger, (setup.width * self.selected[weight] for weight in weights), copied)

    # ------------------------------------------------------------ step
    def update(self, elements: int, largest: int, *, host: bool = False) -> None:
        """DeepSpeed's Adam of the host works in place."""

    def step(self) -> None:
        """The host's update, then that of the selected columns (`selective_optimizer_step`)."""
        super().step()
        for weights in self._in_buckets():
            copied, offload = self.bytes_of(weights), self.selection.offload
            last = self._copy_back(weights) if offload else 0
            self.ledger.take(SELECTED, last)
            self._update_selected(weights)
            self.ledger.give(SELECTED, last + (copied if offload else 2 * copied))

    def _copy_back(self, weights: list[Weight]) -> int:
        """Each copy comes back, and goes before states come, but for the last: Python has a name for it.

        Bytes of that, and of the columns that it was copied to.
        """
        last = 0
        for weight in weights:
            count = self.bytes_of([weight])
            self.ledger.touch(SELECTED, last + count * (1 + self.setup.apart))
            self.ledger.give(SELECTED, count, host=True)
            last = count * min(2, len(weight.shape))
        return last

    def _in_buckets(self) -> list[list[Weight]]:
        """`_step_with_offload`: so many elements of parameters at a time; all, where states are here."""
        if not self.selection.offload:
            return [self.trained]
        found, count = [list[Weight]()], 0
        for weight in self.trained:
            found[-1].append(weight)
            count += weight.elements
            if count >= self.selection.bucket:
                found.append([])
                count = 0
        return [weights for weights in found if weights]
