"""ZenFlow at stages 1 to 3: selected columns on the rank, all other weights on the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dsconfig.memory.engines.base import GRADIENTS, MASTER, TEMPORARY, WEIGHTS, pinned_padding
from dsconfig.memory.engines.param_groups import Partition
from dsconfig.memory.engines.setup import Setup, ZenFlowSettings
from dsconfig.memory.engines.zero3 import PERSISTENT, Stage3Engine
from dsconfig.memory.engines.zero12 import OFFLOADED, Stage12Engine
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger

# Which columns ZenFlow selects of each parameter at stages 1 and 2 (`zenflow_stage_1_and_2.py`).

SELECTED = "ZenFlow selected columns"
SELECTED_STATES = "ZenFlow selected states"
STALE = "ZenFlow stale weights"


class ColumnSlice(NamedTuple):
    """What lies of a parameter in the piece of one rank."""

    rank: int
    whole: int
    """Elements of its whole columns; of a vector none."""
    columns: int
    """How many of these are selected."""
    selected: int
    """Elements of the selected ones; all of a vector."""


def columns_of(selection: ZenFlowSettings, count: int) -> int:
    """How many of so many columns are selected (`_num_selected_columns`): -1 is a part of a single one."""
    return max(1, int(count * selection.topk_ratio)) if count else 0


def column_slices(selection: ZenFlowSettings, weight: Weight, partition: Partition) -> list[ColumnSlice]:
    """The stretches of a parameter, which lies transposed in the flat weights: column by column."""
    start, found = partition.offsets[weight], list[ColumnSlice]()
    at, end = start, start + weight.numel
    while at < end:
        rank = at // partition.numel
        stop = min(end, (rank + 1) * partition.numel)
        if len(weight.shape) == 1:
            found.append(ColumnSlice(rank, 0, 0, stop - at))
        else:
            rows = weight.shape[0]
            count = (stop - start) // rows - -(-(at - start) // rows)
            columns = columns_of(selection, count)
            found.append(ColumnSlice(rank, max(0, count) * rows, columns, columns * rows))
        at = stop
    return found


def update(setup: Setup, ledger: Ledger, selected: Iterable[int], copied: int) -> None:
    """`group_step`: AdamW over so many bytes of each parameter; `copied`: of them in copies."""
    sizes = list(selected)
    offloaded = setup.zenflow is not None and setup.zenflow.offload_states
    arriving = 2 * sum(sizes) if offloaded and setup.has_separate_host else 0
    ledger.allocate(SELECTED_STATES, arriving)
    ledger.allocate(SELECTED, copied)
    most = (
        sum(sizes) if setup.has_separate_host else 2 * max(sizes, default=0)
    )  # on a GPU torch takes them together
    ledger.allocate_briefly(TEMPORARY, most)
    ledger.free(SELECTED, copied)
    ledger.free(SELECTED_STATES, arriving)


# ZenFlow at stages 1 and 2: selected columns are updated on the rank, all weights on the host later on.


class ZenFlowStage12(Stage12Engine):
    """`ZenFlowZeroOptimizer`; each rank updates the selected columns of all parameters."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger, selection: ZenFlowSettings) -> None:
        super().__init__(setup, tape, ledger)
        self.settings = selection
        self.column_slices: dict[Weight, list[ColumnSlice]] = {
            weight: column_slices(selection, weight, partition)
            for weight, (partition, _) in self.partition_by_weight.items()
        }
        self.selected = {
            weight: sum(part.selected for part in self.column_slices[weight]) for weight in self.trainable
        }
        """Elements of each parameter that are."""

    @property
    def reduces_grads(self) -> bool:
        """Gradients are sent in each micro batch, at stage 1 too (`is_zenflow_update_boundary`)."""
        return True

    def selected_bytes(self, weights: list[Weight], *, matrices: bool = False) -> int:
        """Of what is selected of these."""
        chosen = (weight for weight in weights if not matrices or len(weight.shape) > 1)
        return self.setup.itemsize * sum(self.selected[weight] for weight in chosen)

    # ------------------------------------------------------------ load and at rest
    def flatten_copy_bytes(self, weights: list[Weight]) -> int:
        """Matrices are copied as they are flattened (`_flatten_dense_tensors`)."""
        return self.setup.itemsize * sum(weight.numel for weight in weights if len(weight.shape) == 2)

    def load(self) -> None:
        """The process starts with the first step."""
        super().load()
        if self.settings.overlap_step:
            self.ledger.allocate(OFFLOADED, 2 * self.setup.master_itemsize * self.partition.numel, host=True)

    def allocate_at_rest(self) -> None:
        """As without, and what is selected, its states, and what the process has for itself."""
        super().allocate_at_rest()
        setup, ledger = self.setup, self.ledger
        states = 2 * self.selected_bytes(self.trainable)
        ledger.allocate(SELECTED_STATES, states, host=self.settings.offload_states)
        ledger.allocate(SELECTED, self._index_bytes(self.trainable))
        if self.settings.overlap_step:
            ledger.allocate(STALE, setup.master_itemsize * self.partition.numel, host=True)
            ledger.allocate(OFFLOADED, setup.master_itemsize * self.partition.numel, host=True)

    def state_bytes(self) -> int:
        """Two of each for the process, which goes from one to the other (`zenflow_optimizer_process`)."""
        return super().state_bytes() * (2 if self.settings.overlap_step else 1)

    def _index_bytes(self, weights: list[Weight]) -> int:
        """Bytes of the numbers of columns; those of several pieces are put together beside them."""
        found = 0
        for weight in weights:
            parts = [part.columns for part in self.column_slices[weight]] if len(weight.shape) > 1 else []
            found += 4 * sum(parts) * (2 if len(parts) > 1 else 1)
        return found

    def pinned_padding(self) -> int:
        """Pinned tensors that move to shared memory leave their blocks behind, which are kept."""
        setup, found = self.setup, super().pinned_padding()
        if self.settings.overlap_step:
            moved = setup.pins_optimizer + (setup.pins_optimizer or setup.quirks.always_pins_masters)
            found += moved * setup.master_itemsize * self.partition.numel
        if self.settings.offload_states and setup.pins_optimizer:
            found += pinned_padding(
                setup.itemsize * count for count in self.selected.values() for _ in range(2)
            )
        return found

    # ------------------------------------------------------------ backward
    def before_backward(self) -> None:
        """Where columns are selected anew, masters are read back from the weights."""
        super().before_backward()
        if self._selects:
            setup, count = self.setup, self.partition.numel
            between = (
                setup.itemsize if setup.has_separate_host and setup.itemsize != setup.master_itemsize else 0
            )
            self.ledger.allocate_briefly(MASTER, (setup.master_itemsize + between) * count, host=True)

    @property
    def _selects(self) -> bool:
        return self.settings.reselects and not self.micro_step

    def receive_gradient(self, weight: Weight, count: int) -> None:
        """It is transposed into the bucket."""
        if len(weight.shape) == 2 and weight.numel <= self.setup.reduce_bucket_size:
            self.ledger.allocate_briefly(GRADIENTS, count)
        super().receive_gradient(weight, count)

    def _transpose_bytes(self, weights: list[Weight]) -> int:
        """What is larger than the bucket is transposed beside itself (`reduce_ipg_grads`)."""
        large = (weight for weight in weights if weight in self.unbucketed_grads and len(weight.shape) == 2)
        return sum(map(self.unbucketed_grads.__getitem__, large))

    def _average(self, weights: list[Weight], kind: int) -> None:
        """`average_tensor`: what is sent is this rank's to select from; then all get what is selected."""
        self.ledger.allocate_briefly(GRADIENTS, self._transpose_bytes(weights))
        super()._average(weights, kind)
        if self._selects:
            self._select(weights)
        self._collect(weights)

    def _select(self, weights: list[Weight]) -> None:
        """`update_selected_channels`: each rank tells the others which columns of its piece are large."""
        matrices = [weight for weight in weights if len(weight.shape) > 1]
        parts = [part for weight in matrices for part in self.column_slices[weight]]
        numbers = 4 * sum(part.columns for part in parts)
        self.ledger.allocate(SELECTED, numbers)
        for part in parts:
            if part.rank == self.setup.rank:
                self.ledger.allocate_briefly(TEMPORARY, self.setup.itemsize * part.whole)
            self.count_collective("broadcast", part.columns, 4)
        self.ledger.free(SELECTED, numbers)

    def _collect(self, weights: list[Weight]) -> None:
        """`_process_selected_fp32_groups_grad`."""
        setup, ledger, itemsize = self.setup, self.ledger, self.setup.itemsize
        buffer = self.selected_bytes(weights)
        ledger.allocate(SELECTED, buffer)
        for weight in weights:
            for part in self.column_slices[weight]:
                if part.rank == setup.rank and part.columns:
                    ledger.allocate_briefly(SELECTED, itemsize * part.selected)
                self.count_collective("broadcast", part.selected, itemsize)
        for weight in weights:
            parts = self.column_slices[weight]
            if len(parts) > 1:
                ledger.allocate_briefly(SELECTED, 2 * itemsize * self.selected[weight])
            ledger.allocate(SELECTED, itemsize * self.selected[weight])
        if self.is_boundary:
            self._copy_params(weights)
        else:
            self._update_selected(weights)
            ledger.free(SELECTED, buffer)
        ledger.free(SELECTED, buffer)

    def _copy_params(self, weights: list[Weight]) -> None:
        """`temp_copy_param`: what the host's update may not undo."""
        offload = self.settings.offload_states
        for weight in weights:
            count = self.setup.itemsize * self.selected[weight]
            self.ledger.allocate_briefly(SELECTED, count * (2 if len(weight.shape) > 1 else 1))
            self.ledger.allocate(SELECTED, count, host=offload)

    def _update_selected(self, weights: list[Weight]) -> None:
        """`group_step`: of columns there are copies."""
        setup, copied = self.setup, self.selected_bytes(weights, matrices=True)
        update(setup, self.ledger, (setup.itemsize * self.selected[weight] for weight in weights), copied)

    # ------------------------------------------------------------ step
    def update(self, numel: int, largest: int, *, host: bool = False) -> None:
        """DeepSpeed's Adam of the host works in place."""

    def step(self) -> None:
        """The host's update, then that of the selected columns (`selective_optimizer_step`)."""
        super().step()
        for weights in self._update_buckets():
            copied, offload = self.selected_bytes(weights), self.settings.offload_states
            last = self._copy_back(weights) if offload else 0
            self.ledger.allocate(SELECTED, last)
            self._update_selected(weights)
            self.ledger.free(SELECTED, last + (copied if offload else 2 * copied))

    def _copy_back(self, weights: list[Weight]) -> int:
        """Each copy comes back, and goes before states come, but for the last: Python has a name for it.

        Bytes of that, and of the columns that it was copied to.
        """
        last = 0
        for weight in weights:
            count = self.selected_bytes([weight])
            self.ledger.allocate_briefly(SELECTED, last + count * (1 + self.setup.has_separate_host))
            self.ledger.free(SELECTED, count, host=True)
            last = count * min(2, len(weight.shape))
        return last

    def _update_buckets(self) -> list[list[Weight]]:
        """`_step_with_offload`: so many elements of parameters at a time; all, where states are here."""
        if not self.settings.offload_states:
            return [self.trainable]
        found, count = [list[Weight]()], 0
        for weight in self.trainable:
            found[-1].append(weight)
            count += weight.numel
            if count >= self.settings.bucket_size:
                found.append([])
                count = 0
        return [weights for weights in found if weights]


# ZenFlow at stage 3: each rank updates the selected columns of its shards (`zenflow/engine_stage3.py`).


class ZenFlowStage3(Stage3Engine):
    """`DeepSpeedZeroOptimizer_Stage3` with the hooks of ZenFlow."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger, selection: ZenFlowSettings) -> None:
        super().__init__(setup, tape, ledger)
        self.settings = selection
        self.columns = {weight: self._columns(weight) for weight in self.trainable if len(weight.shape) > 1}
        """Columns of the rank's shard of each matrix: whole ones, and those that are selected."""
        self.selected = {weight: self._selected(weight) for weight in self.trainable}
        """Elements of each shard that are."""

    def _columns(self, weight: Weight) -> tuple[int, int]:
        """As many of those that are selected of all as of all columns: the gradients decide."""
        ranks, rows, shard = self.ranks_of(weight), weight.shape[0], self.shard(weight)
        ends = [min(shard * (rank + 1), weight.numel) // rows for rank in range(ranks)]
        starts = [-(-min(shard * rank, weight.numel) // rows) for rank in range(ranks)]
        counts = [max(0, end - start) for start, end in zip(starts, ends, strict=True)]
        total, own = sum(counts), counts[self.setup.rank % ranks]
        selected = max(1, int(total * self.settings.topk_ratio))
        return own, -(-selected * own // total) if total else 0

    def _selected(self, weight: Weight) -> int:
        if weight in self.columns:
            return self.columns[weight][1] * weight.shape[0]
        there = self.shard(weight) * self.setup.rank < weight.numel
        return self.shard(weight) if there else 0

    def selected_bytes(self, weights: list[Weight], *, matrices: bool = False) -> int:
        """Of what is selected of these."""
        chosen = (weight for weight in weights if not matrices or weight in self.columns)
        return self.setup.itemsize * sum(self.selected[weight] for weight in chosen)

    # ------------------------------------------------------------ load and at rest
    def offloaded_grad_bytes(self, count: int) -> int:
        """Two of each, while the process is at work with one (`overlap_grad`)."""
        return super().offloaded_grad_bytes(count) * (2 if self.settings.overlap_step else 1)

    def _partition_params(self) -> None:
        matrices = [weight.numel for weight in self.tape.weights if len(weight.shape) > 1]
        self.ledger.allocate_briefly(WEIGHTS, self.setup.itemsize * max(matrices, default=0))
        super()._partition_params()

    def allocate_at_rest(self) -> None:
        """As without, and what is selected, its states, and what the process has for itself."""
        super().allocate_at_rest()
        setup, ledger = self.setup, self.ledger
        ledger.allocate(
            SELECTED_STATES, 2 * self.selected_bytes(self.trainable), host=self.settings.offload_states
        )
        ledger.allocate(SELECTED, 8 * sum(columns for _, columns in self.columns.values()))
        if self.settings.overlap_step:
            ledger.allocate(STALE, setup.master_itemsize * self.trainable_shard_numel, host=True)

    def state_bytes(self, index: int, count: int) -> int:
        """Two of each for the process, which goes from one to the other (`zenflow_optimizer_process`)."""
        return super().state_bytes(index, count) * (2 if self.settings.overlap_step else 1)

    def pinned_padding(self) -> int:
        """Pinned gradients move to shared memory, and their blocks are kept."""
        setup, found = self.setup, super().pinned_padding()
        if self.settings.overlap_step:
            found += setup.pins_optimizer * setup.master_itemsize * self.trainable_shard_numel
        if self.settings.offload_states and setup.pins_optimizer:
            found += pinned_padding(
                setup.itemsize * count for count in self.selected.values() for _ in range(2)
            )
        return found

    # ------------------------------------------------------------ backward
    @property
    def _selects(self) -> bool:
        return self.settings.reselects and not self.micro_step

    def before_backward(self) -> None:
        """Where columns are selected anew, masters are read back from the weights."""
        super().before_backward()
        if (
            self._selects
            and self.setup.has_separate_host
            and self.setup.itemsize != self.setup.master_itemsize
        ):
            self.ledger.allocate_briefly(
                MASTER, self.setup.itemsize * max(map(sum, self.groups), default=0), host=True
            )

    def receive_gradient(self, weight: Weight, count: int) -> None:
        """A weight is a transposed view, and its gradient is to lie as it does (`AccumulateGrad`)."""
        if weight in self.columns and (self.setup.memory_efficient_linear or not weight.is_linear):
            self.ledger.allocate_briefly(GRADIENTS, count)
        super().receive_gradient(weight, count)

    def partition_grads(self, weights: list[Weight]) -> None:
        """Before the shards of a bucket go to the host, columns of them are selected and kept."""
        if self._selects:
            self._select(weights)
        self._collect(weights)
        super().partition_grads(weights)

    def _select(self, weights: list[Weight]) -> None:
        """`update_selected_channels`: all ranks know the sums of all columns."""
        setup, ledger = self.setup, self.ledger
        matrices = [weight for weight in weights if weight in self.columns]
        most = sum(-(-weight.shape[1] // self.ranks_of(weight)) for weight in matrices)
        ledger.allocate(SELECTED, setup.itemsize * most)
        for weight in matrices:
            ledger.allocate_briefly(TEMPORARY, setup.itemsize * self.columns[weight][0] * weight.shape[0])
        self.count_collective("all_gather", most * setup.dp_world_size, setup.itemsize)
        ledger.allocate_briefly(SELECTED, setup.itemsize * most * setup.dp_world_size)
        ledger.free(SELECTED, setup.itemsize * most)

    def _collect(self, weights: list[Weight]) -> None:
        """`_process_selected_fp32_groups_grad`."""
        itemsize, ledger = self.setup.itemsize, self.ledger
        for weight in weights:
            count = itemsize * self.selected[weight]
            ledger.allocate_briefly(SELECTED, count * (2 if weight in self.columns else 1))
            ledger.allocate(SELECTED, count)
        selected = self.selected_bytes(weights)
        if self.is_boundary:
            for weight in weights:
                count = itemsize * self.selected[weight]
                ledger.allocate_briefly(SELECTED, count * (2 if weight in self.columns else 1))
                ledger.allocate(SELECTED, count, host=self.settings.offload_states)
        else:
            self._update_selected(weights)
            ledger.free(SELECTED, selected)

    def _update_selected(self, weights: list[Weight]) -> None:
        """`group_step`; shards that are offloaded come one by one (`_group_step_offloaded`)."""
        if self.setup.offloads_params and len(weights) > 1:
            for weight in weights:
                self._update_selected([weight])
            return
        setup = self.setup
        whole = setup.offloads_params and setup.has_separate_host
        copied = self.selected_bytes(weights, matrices=not whole)
        update(setup, self.ledger, (setup.itemsize * self.selected[weight] for weight in weights), copied)

    def after_backward(self) -> None:
        """All is partitioned, what persists too; it is gathered again as it is used, or by the step."""
        super().after_backward()
        self.coordinator.partition_all()
        if self.coordinator.always_gathered:
            self.ledger.free(PERSISTENT, self.persistent_bytes)
        self.coordinator.always_gathered = set()

    # ------------------------------------------------------------ step
    def update(self, numel: int, largest: int, *, host: bool = False) -> None:
        """DeepSpeed's Adam of the host works in place."""

    def step(self) -> None:
        """The host's update, then that of the selected columns (`selective_optimizer_step`)."""
        self.ledger.allocate(PERSISTENT, self.persistent_bytes)
        super().step()
        self.coordinator.always_gathered = self.persistent
        selected, offload = self.selected_bytes(self.trainable), self.settings.offload_states
        last = self.selected_bytes(self.trainable[-1:]) if offload else 0  # Python has a name for it
        if offload:  # copies come back one by one, before states do
            self.ledger.free(SELECTED, selected, host=True)
        self.ledger.allocate(SELECTED, last)
        self._update_selected(self.trainable)
        self.ledger.free(SELECTED, last + (selected if offload else 2 * selected))
