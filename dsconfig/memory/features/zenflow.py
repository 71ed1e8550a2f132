"""ZenFlow at stages 1 to 3, which updates selected columns on the GPU and all other columns on the host."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dsconfig.memory.autograd_graph import ModelParameter
from dsconfig.memory.engines.base_engine import GRADIENTS, MASTER, TEMPORARY, Feature, pinned_padding
from dsconfig.memory.engines.engine_setup import EngineSetup, ZenFlowSettings
from dsconfig.memory.engines.param_groups import FlatPartition
from dsconfig.memory.engines.stage3 import PERSISTENT, DeepSpeedZeroOptimizerStage3
from dsconfig.memory.engines.stage_1_and_2 import OFFLOADED, DeepSpeedZeroOptimizer
from dsconfig.memory.memory_ledger import MemoryLedger

# Column selection at stages 1 and 2 (`zenflow_stage_1_and_2.py`).

SELECTED = "ZenFlow selected columns"
SELECTED_STATES = "ZenFlow selected states"
STALE = "ZenFlow stale weights"


class ColumnSlice(NamedTuple):
    """The part of a parameter that lies within one rank's partition."""

    rank: int
    whole: int
    """Number of elements in complete columns, or 0 for a vector."""
    columns: int
    """Number of columns that ZenFlow selects in the slice."""
    selected: int
    """Number of elements in the selected columns, or of the slice if the parameter is a vector."""


def selected_column_count(selection: ZenFlowSettings, num_columns: int) -> int:
    """Return how many of `num_columns` columns are selected; `num_columns` is -1 for a part of a single column."""
    return max(1, int(num_columns * selection.topk_ratio)) if num_columns else 0


def column_slices(
    selection: ZenFlowSettings, weight: ModelParameter, partition: FlatPartition
) -> list[ColumnSlice]:
    """Split a parameter into slices by rank; the flat weights store it transposed, column by column."""
    start, slices = partition.offsets[weight], list[ColumnSlice]()
    offset, end = start, start + weight.numel
    while offset < end:
        rank = offset // partition.numel
        stop = min(end, (rank + 1) * partition.numel)
        if len(weight.shape) == 1:
            slices.append(ColumnSlice(rank, 0, 0, stop - offset))
        else:
            rows = weight.shape[0]
            count = (stop - start) // rows - -(-(offset - start) // rows)
            columns = selected_column_count(selection, count)
            slices.append(ColumnSlice(rank, max(0, count) * rows, columns, columns * rows))
        offset = stop
    return slices


def update_selected_columns(
    setup: EngineSetup, ledger: MemoryLedger, selected: Iterable[int], copy_bytes: int
) -> None:
    """Copy `copy_bytes` bytes, then apply AdamW to the selected elements (`group_step`)."""
    sizes = list(selected)
    is_offloaded = setup.zenflow is not None and setup.zenflow.offload_states
    # Offloaded states are copied to the GPU for the update (`_group_step_offloaded`).
    state_bytes = 2 * sum(sizes) if is_offloaded and setup.has_separate_host else 0
    ledger.allocate(SELECTED_STATES, state_bytes)
    ledger.allocate(SELECTED, copy_bytes)
    # On a GPU foreach updates all tensors at once.
    peak = sum(sizes) if setup.has_separate_host else 2 * max(sizes, default=0)
    ledger.allocate_briefly(TEMPORARY, peak)
    ledger.free(SELECTED, copy_bytes)
    ledger.free(SELECTED_STATES, state_bytes)


# Stages 1 and 2.


class ZenFlowStage12(Feature):
    """`ZenFlowZeroOptimizer`, in which each rank updates the selected columns of all parameters."""

    engine: DeepSpeedZeroOptimizer

    reduces_each_micro_batch = True  # `is_zenflow_update_boundary`

    def __init__(self, engine: DeepSpeedZeroOptimizer) -> None:
        super().__init__(engine)
        assert self.setup.zenflow is not None
        self.settings = self.setup.zenflow
        engine.updates_in_place = True  # DeepSpeed's CPU Adam
        self.trainable = engine.trainable
        self.column_slices: dict[ModelParameter, list[ColumnSlice]] = {
            weight: column_slices(self.settings, weight, partition)
            for weight, (partition, _) in engine.partition_by_weight.items()
        }
        self.selected = {
            weight: sum(part.selected for part in self.column_slices[weight]) for weight in self.trainable
        }
        """Number of selected elements of each parameter."""

    def selected_bytes(self, weights: list[ModelParameter], *, matrices: bool = False) -> int:
        """Return the bytes of the selected elements of these parameters."""
        chosen = (weight for weight in weights if not matrices or len(weight.shape) > 1)
        return self.setup.itemsize * sum(self.selected[weight] for weight in chosen)

    # ------------------------------------------------------------ load and at rest
    def flatten_copy_bytes(self, weights: list[ModelParameter]) -> int:
        """Return the bytes of the matrix copies made during flattening (`_flatten_dense_tensors`)."""
        return self.setup.itemsize * sum(weight.numel for weight in weights if len(weight.shape) == 2)

    def load(self) -> None:
        """Allocate the memory shared with the optimizer process, which starts in the first step."""
        if self.settings.overlap_step:
            numel = self.engine.partition.numel
            self.ledger.allocate(OFFLOADED, 2 * self.setup.master_itemsize * numel, host=True)

    def allocate_at_rest(self) -> None:
        """Allocate the states and indices of the selected columns, and the optimizer process's tensors."""
        setup, ledger = self.setup, self.ledger
        states = 2 * self.selected_bytes(self.trainable)
        ledger.allocate(SELECTED_STATES, states, host=self.settings.offload_states)
        ledger.allocate(SELECTED, self._index_bytes(self.trainable))
        if self.settings.overlap_step:
            ledger.allocate(STALE, setup.master_itemsize * self.engine.partition.numel, host=True)
            ledger.allocate(OFFLOADED, setup.master_itemsize * self.engine.partition.numel, host=True)

    def state_bytes(self, group: int, numel: int, default: int) -> int:  # noqa: ARG002
        """Return the bytes of a group's states, of which the optimizer process alternates between two copies."""
        return default * (2 if self.settings.overlap_step else 1)

    def _index_bytes(self, weights: list[ModelParameter]) -> int:
        """Return the bytes of column indices; indices of several slices are also concatenated into a copy."""
        # Column indices are int32.
        index_bytes = 0
        for weight in weights:
            columns = [part.columns for part in self.column_slices[weight]] if len(weight.shape) > 1 else []
            index_bytes += 4 * sum(columns) * (2 if len(columns) > 1 else 1)
        return index_bytes

    def pinned_padding(self) -> int:
        """Return the padding of pinned tensors, including freed blocks in torch's cache of pinned memory."""
        setup, padding = self.setup, 0
        if self.settings.overlap_step:
            moved_copies = setup.pins_optimizer + (
                setup.pins_optimizer or setup.quirks.masters_are_always_pinned
            )
            padding += moved_copies * setup.master_itemsize * self.engine.partition.numel
        if self.settings.offload_states and setup.pins_optimizer:
            padding += pinned_padding(
                setup.itemsize * count for count in self.selected.values() for _ in range(2)
            )
        return padding

    # ------------------------------------------------------------ backward
    def before_backward(self) -> None:
        """Refresh the master weights from the model weights before selecting columns again."""
        if self._selects:
            setup, count = self.setup, self.engine.partition.numel
            cast_itemsize = (
                setup.itemsize if setup.has_separate_host and setup.itemsize != setup.master_itemsize else 0
            )
            self.ledger.allocate_briefly(MASTER, (setup.master_itemsize + cast_itemsize) * count, host=True)

    @property
    def _selects(self) -> bool:
        return self.settings.reselects and not self.engine.micro_step

    def receive_gradient(self, weight: ModelParameter, count: int) -> None:
        """Transpose a matrix's gradient into the reduce bucket."""
        if len(weight.shape) == 2 and weight.numel <= self.setup.reduce_bucket_size:
            self.ledger.allocate_briefly(GRADIENTS, count)

    def before_reduce(self, weights: list[ModelParameter]) -> None:
        """Transpose gradients that are larger than the bucket (`reduce_ipg_grads`)."""
        unbucketed = self.engine.unbucketed_grads
        copies = (unbucketed.get(weight, 0) for weight in weights if len(weight.shape) == 2)
        self.ledger.allocate_briefly(GRADIENTS, sum(copies))

    def after_reduce(self, weights: list[ModelParameter]) -> None:
        """Select columns from this rank's part of the bucket and broadcast them (`average_tensor`)."""
        if self._selects:
            self._select(weights)
        self._collect(weights)

    def _select(self, weights: list[ModelParameter]) -> None:
        """Broadcast the indices of the largest columns (`update_selected_channels`)."""
        matrices = [weight for weight in weights if len(weight.shape) > 1]
        parts = [part for weight in matrices for part in self.column_slices[weight]]
        numbers = 4 * sum(part.columns for part in parts)
        self.ledger.allocate(SELECTED, numbers)
        for part in parts:
            if part.rank == self.setup.rank:
                self.ledger.allocate_briefly(TEMPORARY, self.setup.itemsize * part.whole)
            self.engine.count_collective("broadcast", part.columns, 4)
        self.ledger.free(SELECTED, numbers)

    def _collect(self, weights: list[ModelParameter]) -> None:
        """Broadcast the gradients of selected columns (`_process_selected_fp32_groups_grad`)."""
        setup, ledger, itemsize = self.setup, self.ledger, self.setup.itemsize
        buffer = self.selected_bytes(weights)
        ledger.allocate(SELECTED, buffer)
        for weight in weights:
            for part in self.column_slices[weight]:
                if part.rank == setup.rank and part.columns:
                    ledger.allocate_briefly(SELECTED, itemsize * part.selected)
                self.engine.count_collective("broadcast", part.selected, itemsize)
        for weight in weights:
            parts = self.column_slices[weight]
            if len(parts) > 1:
                ledger.allocate_briefly(SELECTED, 2 * itemsize * self.selected[weight])
            ledger.allocate(SELECTED, itemsize * self.selected[weight])
        if self.engine.is_boundary:
            self._copy_selected_weights(weights)
        else:
            self._update_selected(weights)
            ledger.free(SELECTED, buffer)
        ledger.free(SELECTED, buffer)

    def _copy_selected_weights(self, weights: list[ModelParameter]) -> None:
        """Save the selected weights, so that the host's update does not overwrite them (`temp_copy_param`)."""
        offload = self.settings.offload_states
        for weight in weights:
            count = self.setup.itemsize * self.selected[weight]
            self.ledger.allocate_briefly(SELECTED, count * (2 if len(weight.shape) > 1 else 1))
            self.ledger.allocate(SELECTED, count, host=offload)

    def _update_selected(self, weights: list[ModelParameter]) -> None:
        """Update the selected columns, using copies of them (`group_step`)."""
        setup, copy_bytes = self.setup, self.selected_bytes(weights, matrices=True)
        update_selected_columns(
            setup, self.ledger, (setup.itemsize * self.selected[weight] for weight in weights), copy_bytes
        )

    # ------------------------------------------------------------ step
    def after_step(self) -> None:
        """Update the selected columns after the update on the host (`selective_optimizer_step`)."""
        for weights in self._parameters_updated_together():
            copied, offload = self.selected_bytes(weights), self.settings.offload_states
            last = self._restore_selected_weights(weights) if offload else 0
            self.ledger.allocate(SELECTED, last)
            self._update_selected(weights)
            self.ledger.free(SELECTED, last + (copied if offload else 2 * copied))

    def _restore_selected_weights(self, weights: list[ModelParameter]) -> int:
        """Copy the saved weights back one by one, and return the bytes that remain referenced.

        These are the bytes of the last copy, and of the columns that it was written to.
        """
        last = 0
        for weight in weights:
            count = self.selected_bytes([weight])
            self.ledger.allocate_briefly(SELECTED, last + count * (1 + self.setup.has_separate_host))
            self.ledger.free(SELECTED, count, host=True)
            last = count * min(2, len(weight.shape))
        return last

    def _parameters_updated_together(self) -> list[list[ModelParameter]]:
        """Group the parameters whose states are loaded together; on the GPU, all are in one group."""
        if not self.settings.offload_states:
            return [self.trainable]
        buckets, count = [list[ModelParameter]()], 0
        for weight in self.trainable:
            buckets[-1].append(weight)
            count += weight.numel
            if count >= self.settings.bucket_size:
                buckets.append([])
                count = 0
        return [weights for weights in buckets if weights]


# Stage 3: each rank updates the selected columns of its shards.


class ZenFlowStage3(Feature):
    """The ZenFlow hooks of `DeepSpeedZeroOptimizer_Stage3` (`zenflow/engine_stage3.py`)."""

    engine: DeepSpeedZeroOptimizerStage3

    def __init__(self, engine: DeepSpeedZeroOptimizerStage3) -> None:
        super().__init__(engine)
        assert self.setup.zenflow is not None
        self.settings = self.setup.zenflow
        engine.updates_in_place = True  # DeepSpeed's CPU Adam
        engine.offloaded_grad_copies = (
            2 if self.settings.overlap_step else 1
        )  # the process reads one (`overlap_grad`)
        self.trainable = engine.trainable
        self.columns = {
            weight: self._count_columns(weight) for weight in self.trainable if len(weight.shape) > 1
        }
        """Numbers of complete and selected columns in this rank's shard, by matrix."""
        self.selected = {weight: self._selected_numel(weight) for weight in self.trainable}
        """Number of selected elements in each shard."""

    def _count_columns(self, weight: ModelParameter) -> tuple[int, int]:
        """Return the numbers of complete columns and of selected columns in a shard.

        The gradients decide which columns are selected; the estimate assumes that each rank has an equal share.
        """
        ranks, rows, shard = self.engine.ranks_of(weight), weight.shape[0], self.engine.shard_numel(weight)
        ends = [min(shard * (rank + 1), weight.numel) // rows for rank in range(ranks)]
        starts = [-(-min(shard * rank, weight.numel) // rows) for rank in range(ranks)]
        counts = [max(0, end - start) for start, end in zip(starts, ends, strict=True)]
        total, own_columns = sum(counts), counts[self.setup.rank % ranks]
        selected = max(1, int(total * self.settings.topk_ratio))
        return own_columns, -(-selected * own_columns // total) if total else 0

    def _selected_numel(self, weight: ModelParameter) -> int:
        if weight in self.columns:
            return self.columns[weight][1] * weight.shape[0]
        has_shard = self.engine.shard_numel(weight) * self.setup.rank < weight.numel
        return self.engine.shard_numel(weight) if has_shard else 0

    def selected_bytes(self, weights: list[ModelParameter], *, matrices: bool = False) -> int:
        """Return the bytes of the selected elements of these shards."""
        chosen = (weight for weight in weights if not matrices or weight in self.columns)
        return self.setup.itemsize * sum(self.selected[weight] for weight in chosen)

    # ------------------------------------------------------------ load and at rest
    def flatten_copy_bytes(self, weights: list[ModelParameter]) -> int:
        """Return the bytes of a matrix's transposed copy."""
        matrices = (weight.numel for weight in weights if len(weight.shape) > 1)
        return self.setup.itemsize * max(matrices, default=0)

    def allocate_at_rest(self) -> None:
        """Allocate the states and indices of the selected columns, and the optimizer process's tensors."""
        setup, ledger = self.setup, self.ledger
        ledger.allocate(
            SELECTED_STATES, 2 * self.selected_bytes(self.trainable), host=self.settings.offload_states
        )
        ledger.allocate(SELECTED, 8 * sum(columns for _, columns in self.columns.values()))
        if self.settings.overlap_step:
            ledger.allocate(STALE, setup.master_itemsize * self.engine.trainable_shard_numel, host=True)

    def state_bytes(self, group: int, numel: int, default: int) -> int:  # noqa: ARG002
        """Return the bytes of a group's states, of which the optimizer process alternates between two copies."""
        return default * (2 if self.settings.overlap_step else 1)

    def pinned_padding(self) -> int:
        """Return the padding of pinned tensors, including freed blocks in torch's cache of pinned memory."""
        setup, padding = self.setup, 0
        if self.settings.overlap_step:
            padding += setup.pins_optimizer * setup.master_itemsize * self.engine.trainable_shard_numel
        if self.settings.offload_states and setup.pins_optimizer:
            padding += pinned_padding(
                setup.itemsize * count for count in self.selected.values() for _ in range(2)
            )
        return padding

    # ------------------------------------------------------------ backward
    @property
    def _selects(self) -> bool:
        return self.settings.reselects and not self.engine.micro_step

    def before_backward(self) -> None:
        """Refresh the master weights from the model weights before selecting columns again."""
        if (
            self._selects
            and self.setup.has_separate_host
            and self.setup.itemsize != self.setup.master_itemsize
        ):
            self.ledger.allocate_briefly(
                MASTER, self.setup.itemsize * max(map(sum, self.engine.groups), default=0), host=True
            )

    def receive_gradient(self, weight: ModelParameter, count: int) -> None:
        """Copy the gradient to the layout of the transposed weight (`AccumulateGrad`)."""
        if weight in self.columns and (self.setup.memory_efficient_linear or not weight.is_linear):
            self.ledger.allocate_briefly(GRADIENTS, count)

    def after_reduce(self, weights: list[ModelParameter]) -> None:
        """Select columns and keep their gradients before the bucket's shards move to the host."""
        if self._selects:
            self._select(weights)
        self._collect(weights)

    def _select(self, weights: list[ModelParameter]) -> None:
        """All-gather the column sums, so that every rank selects the same columns (`update_selected_channels`)."""
        setup, ledger = self.setup, self.ledger
        matrices = [weight for weight in weights if weight in self.columns]
        max_columns = sum(-(-weight.shape[1] // self.engine.ranks_of(weight)) for weight in matrices)
        ledger.allocate(SELECTED, setup.itemsize * max_columns)
        for weight in matrices:
            ledger.allocate_briefly(TEMPORARY, setup.itemsize * self.columns[weight][0] * weight.shape[0])
        self.engine.count_collective("all_gather", max_columns * setup.dp_world_size, setup.itemsize)
        ledger.allocate_briefly(SELECTED, setup.itemsize * max_columns * setup.dp_world_size)
        ledger.free(SELECTED, setup.itemsize * max_columns)

    def _collect(self, weights: list[ModelParameter]) -> None:
        """Keep the gradients of the selected columns (`_process_selected_fp32_groups_grad`)."""
        itemsize, ledger = self.setup.itemsize, self.ledger
        for weight in weights:
            count = itemsize * self.selected[weight]
            ledger.allocate_briefly(SELECTED, count * (2 if weight in self.columns else 1))
            ledger.allocate(SELECTED, count)
        selected = self.selected_bytes(weights)
        if self.engine.is_boundary:
            for weight in weights:
                count = itemsize * self.selected[weight]
                ledger.allocate_briefly(SELECTED, count * (2 if weight in self.columns else 1))
                ledger.allocate(SELECTED, count, host=self.settings.offload_states)
        else:
            self._update_selected(weights)
            ledger.free(SELECTED, selected)

    def _update_selected(self, weights: list[ModelParameter]) -> None:
        """Update the selected columns, one shard at a time if shards are offloaded (`_group_step_offloaded`)."""
        if self.setup.offloads_params and len(weights) > 1:
            for weight in weights:
                self._update_selected([weight])
            return
        setup = self.setup
        copies_all = setup.offloads_params and setup.has_separate_host
        copy_bytes = self.selected_bytes(weights, matrices=not copies_all)
        update_selected_columns(
            setup, self.ledger, (setup.itemsize * self.selected[weight] for weight in weights), copy_bytes
        )

    def after_backward(self) -> None:
        """Partition all parameters, including persistent ones; the next use gathers them again."""
        self.engine.coordinator.partition_all()
        if self.engine.coordinator.always_gathered:
            self.ledger.free(PERSISTENT, self.engine.persistent_bytes)
        self.engine.coordinator.always_gathered = set()

    # ------------------------------------------------------------ step
    def before_step(self) -> None:
        """Add the persistent parameters again, because the step partitions them."""
        self.ledger.allocate(PERSISTENT, self.engine.persistent_bytes)

    def after_step(self) -> None:
        """Update the selected columns after the update on the host (`selective_optimizer_step`)."""
        self.engine.coordinator.always_gathered = self.engine.persistent
        selected, offload = self.selected_bytes(self.trainable), self.settings.offload_states
        last = self.selected_bytes(self.trainable[-1:]) if offload else 0  # stays referenced
        if offload:  # copied back one by one, before states are loaded
            self.ledger.free(SELECTED, selected, host=True)
        self.ledger.allocate(SELECTED, last)
        self._update_selected(self.trainable)
        self.ledger.free(SELECTED, last + (selected if offload else 2 * selected))
