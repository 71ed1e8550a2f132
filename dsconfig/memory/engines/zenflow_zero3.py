"""ZenFlow at stage 3: each rank updates the selected columns of its shards (`zenflow/engine_stage3.py`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import GRADIENTS, MASTER, TEMPORARY, WEIGHTS
from dsconfig.memory.engines.pinned_memory import rounding
from dsconfig.memory.engines.setup import Selection, Setup
from dsconfig.memory.engines.zenflow_selection import SELECTED, SELECTED_STATES, STALE, update
from dsconfig.memory.engines.zero3 import Partitioned
from dsconfig.memory.engines.zero3_state import PERSISTENT
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger


class ZenFlowShards(Partitioned):
    """`DeepSpeedZeroOptimizer_Stage3` with the hooks of ZenFlow."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger, selection: Selection) -> None:
        super().__init__(setup, tape, ledger)
        self.selection = selection
        self.columns = {weight: self._columns(weight) for weight in self.trained if len(weight.shape) > 1}
        """Columns of the rank's shard of each matrix: whole ones, and those that are selected."""
        self.selected = {weight: self._selected(weight) for weight in self.trained}
        """Elements of each shard that are."""

    def _columns(self, weight: Weight) -> tuple[int, int]:
        """As many of those that are selected of all as of all columns: the gradients decide."""
        ranks, rows, shard = self.ranks_of(weight), weight.shape[0], self.shard(weight)
        ends = [min(shard * (rank + 1), weight.elements) // rows for rank in range(ranks)]
        starts = [-(-min(shard * rank, weight.elements) // rows) for rank in range(ranks)]
        counts = [max(0, end - start) for start, end in zip(starts, ends, strict=True)]
        total, own = sum(counts), counts[self.setup.rank % ranks]
        selected = max(1, int(total * self.selection.ratio))
        return own, -(-selected * own // total) if total else 0

    def _selected(self, weight: Weight) -> int:
        if weight in self.columns:
            return self.columns[weight][1] * weight.shape[0]
        there = self.shard(weight) * self.setup.rank < weight.elements
        return self.shard(weight) if there else 0

    def bytes_selected(self, weights: list[Weight], *, matrices: bool = False) -> int:
        """Of what is selected of these."""
        chosen = (weight for weight in weights if not matrices or weight in self.columns)
        return self.setup.width * sum(self.selected[weight] for weight in chosen)

    # ------------------------------------------------------------ load and at rest
    def gradients_of(self, count: int) -> int:
        """Two of each, while the process is at work with one (`overlap_grad`)."""
        return super().gradients_of(count) * (2 if self.selection.overlap else 1)

    def _cut(self) -> None:
        matrices = [weight.elements for weight in self.tape.weights if len(weight.shape) > 1]
        self.ledger.touch(WEIGHTS, self.setup.width * max(matrices, default=0))
        super()._cut()

    def rest(self) -> None:
        """As without, and what is selected, its states, and what the process has for itself."""
        super().rest()
        setup, ledger = self.setup, self.ledger
        ledger.take(SELECTED_STATES, 2 * self.bytes_selected(self.trained), host=self.selection.offload)
        ledger.take(SELECTED, 8 * sum(columns for _, columns in self.columns.values()))
        if self.selection.overlap:
            ledger.take(STALE, setup.master * self.shards_trained, host=True)

    def states(self, index: int, count: int) -> int:
        """Two of each for the process, which goes from one to the other (`zenflow_optimizer_process`)."""
        return super().states(index, count) * (2 if self.selection.overlap else 1)

    def rounding(self) -> int:
        """Pinned gradients move to shared memory, and their blocks are kept."""
        setup, found = self.setup, super().rounding()
        if self.selection.overlap:
            found += setup.pins_optimizer * setup.master * self.shards_trained
        if self.selection.offload and setup.pins_optimizer:
            found += rounding(setup.width * count for count in self.selected.values() for _ in range(2))
        return found

    # ------------------------------------------------------------ backward
    @property
    def _selects(self) -> bool:
        return self.selection.again and not self.micro

    def begin(self) -> None:
        """Where columns are selected anew, masters are read back from the weights."""
        super().begin()
        if self._selects and self.setup.apart and self.setup.width != self.setup.master:
            self.ledger.touch(MASTER, self.setup.width * max(map(sum, self.groups), default=0), host=True)

    def gradient(self, weight: Weight, count: int) -> None:
        """A weight is a transposed view, and its gradient is to lie as it does (`AccumulateGrad`)."""
        if weight in self.columns and (self.setup.own_linear or not weight.linear):
            self.ledger.touch(GRADIENTS, count)
        super().gradient(weight, count)

    def hand_over(self, weights: list[Weight]) -> None:
        """Before the shards of a bucket go to the host, columns of them are selected and kept."""
        if self._selects:
            self._select(weights)
        self._collect(weights)
        super().hand_over(weights)

    def _select(self, weights: list[Weight]) -> None:
        """`update_selected_channels`: all ranks know the sums of all columns."""
        setup, ledger = self.setup, self.ledger
        matrices = [weight for weight in weights if weight in self.columns]
        most = sum(-(-weight.shape[1] // self.ranks_of(weight)) for weight in matrices)
        ledger.take(SELECTED, setup.width * most)
        for weight in matrices:
            ledger.touch(TEMPORARY, setup.width * self.columns[weight][0] * weight.shape[0])
        self.send("all_gather", most * setup.world, setup.width)
        ledger.touch(SELECTED, setup.width * most * setup.world)
        ledger.give(SELECTED, setup.width * most)

    def _collect(self, weights: list[Weight]) -> None:
        """`_process_selected_fp32_groups_grad`."""
        width, ledger = self.setup.width, self.ledger
        for weight in weights:
            count = width * self.selected[weight]
            ledger.touch(SELECTED, count * (2 if weight in self.columns else 1))
            ledger.take(SELECTED, count)
        selected = self.bytes_selected(weights)
        if self.boundary:
            for weight in weights:
                count = width * self.selected[weight]
                ledger.touch(SELECTED, count * (2 if weight in self.columns else 1))
                ledger.take(SELECTED, count, host=self.selection.offload)
        else:
            self._update_selected(weights)
            ledger.give(SELECTED, selected)

    def _update_selected(self, weights: list[Weight]) -> None:
        """`group_step`; shards that are offloaded come one by one (`_group_step_offloaded`)."""
        if self.setup.offloads_parameters and len(weights) > 1:
            for weight in weights:
                self._update_selected([weight])
            return
        setup = self.setup
        whole = setup.offloads_parameters and setup.apart
        copied = self.bytes_selected(weights, matrices=not whole)
        update(setup, self.ledger, (setup.width * self.selected[weight] for weight in weights), copied)

    def after(self) -> None:
        """All is partitioned, what persists too; it is gathered again as it is used, or by the step."""
        super().after()
        self.coordinator.partition()
        if self.coordinator.whole:
            self.ledger.give(PERSISTENT, self.persisting)
        self.coordinator.whole = set()

    # ------------------------------------------------------------ step
    def update(self, elements: int, largest: int, *, host: bool = False) -> None:
        """DeepSpeed's Adam of the host works in place."""

    def step(self) -> None:
        """The host's update, then that of the selected columns (`selective_optimizer_step`)."""
        self.ledger.take(PERSISTENT, self.persisting)
        super().step()
        self.coordinator.whole = self.kept
        selected, offload = self.bytes_selected(self.trained), self.selection.offload
        last = self.bytes_selected(self.trained[-1:]) if offload else 0  # Python has a name for it
        if offload:  # copies come back one by one, before states do
            self.ledger.give(SELECTED, selected, host=True)
        self.ledger.take(SELECTED, last)
        self._update_selected(self.trained)
        self.ledger.give(SELECTED, last + (selected if offload else 2 * selected))
