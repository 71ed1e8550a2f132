"""ZeRO stages 1 and 2 (`stage_1_and_2.py`): flat weights, and a partition of states for each rank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.memory.engines.base import (
    BUCKET,
    FLATTENED,
    GRADIENTS,
    MASTER,
    STATES,
    TEMPORARY,
    WEIGHTS,
    Engine,
    pinned_padding,
)
from dsconfig.memory.engines.param_groups import (
    Partition,
    bucket_slices,
    merge_partitions,
    muon_halves,
    optimizer_groups,
    partition_of,
)
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger, with_slack
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from collections.abc import Sequence


# Stages 1 and 2 as they are loaded and at rest: flat weights, a piece of the rest (`stage_1_and_2.py`).

COMPACT = "fp32 gradient partition"
STAGING = "offload staging buffers"
OFFLOADED = "offloaded gradient partition"


class Stage12State(Engine):
    """What `DeepSpeedZeroOptimizer` has made by the time that training begins."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        found = (
            muon_halves(setup, self.trainable)
            if setup.optimizer.muon_method
            else optimizer_groups(self.trainable)
        )
        self.groups = [(members, *self._partition_of(members)) for members in found]
        self.partition = merge_partitions([partition for _, partition, _ in self.groups])
        self.partition_by_weight = {
            weight: (partition, rank) for members, partition, rank in self.groups for weight in members
        }
        self.owned = set(self.partition.weights)
        self.largest_numel = max((weight.numel for weight in self.trainable), default=0)
        raised = setup.accumulates_fp32
        self.has_compact_grads, self.has_grad_lists = (
            raised and setup.quirks.has_compact_fp32_grads,
            raised and not setup.quirks.has_compact_fp32_grads,
        )
        """Gradients in fp32: of the partition, or tensor by tensor."""
        self.casts_each_grad = setup.stage == 1 and self.has_compact_grads
        """Whether gradients are cast one by one, and keep the bucket that they lie in (`grad_accum`)."""
        self.buckets: dict[int, list[Weight]] = {}
        self.bucket_fill: dict[int, int] = {}
        self.unbucketed_grads: dict[Weight, int] = {}
        """Gradients that have blocks of their own, in bytes."""
        self.flattened_on_host = False
        """Whether a group was flattened on the host, for want of room on the GPU."""
        self.has_buckets = False
        self.new_grad_bytes = self.accumulated_grad_bytes = 0
        self.compact_grad_bytes: dict[int, int] = {}
        """Bytes of fp32 gradients of each group's piece, by its place."""
        self.matrices = frozenset[Weight]()
        """What Muon needs whole: each rank that has a part of one gets all of its gradient."""

    def _partition_of(self, members: list[Weight]) -> tuple[Partition, int]:
        """This rank's piece of a group, and its place among the ranks that share it."""
        ranks = self.ranks_of(members[0])
        rank = self.setup.rank // (self.setup.dp_world_size // ranks)
        return partition_of(members, ranks, rank, self.setup.round_robin_gradients), rank

    # ------------------------------------------------------------ load
    def load(self) -> None:
        """The weights are flattened beside themselves; the piece is cloned and cast."""
        self.build()
        setup, ledger, size, host = (
            self.setup,
            self.ledger,
            self.partition.numel,
            self.setup.offloads_optimizer,
        )
        if setup.quirks.flattens_on_host:
            self._flatten_on_host(self.trainable, self.partition.padded_numel)
        else:
            for members, partition, _ in self.groups:
                if self._has_room(partition.padded_numel, self.flatten_copy_bytes(members)):
                    ledger.allocate_briefly(
                        FLATTENED, setup.itemsize * partition.padded_numel + self.flatten_copy_bytes(members)
                    )
                    ledger.allocate(FLATTENED, setup.itemsize * partition.padded_numel)
                    ledger.free(WEIGHTS, setup.itemsize * sum(weight.numel for weight in members))
                else:
                    self._flatten_on_host(members, partition.padded_numel)
                self._clone_masters(partition.numel)
        for _, partition, _ in self.groups if setup.quirks.flattens_on_host else ():
            self._clone_masters(partition.numel)
        if host:
            ledger.allocate(STAGING, self._staging_bytes(), host=True)
            ledger.allocate(STAGING, setup.itemsize * self.largest_numel)
        if setup.optimizer.allocates_states_early:
            ledger.allocate(STATES, setup.optimizer.state_bytes * size, host=host)
        ledger.allocate_briefly(TEMPORARY, setup.master_itemsize * size, host=host)

    def _has_room(self, padded: int, copied: int) -> bool:
        """Whether the GPU holds a flat copy beside the weights (`flatten_on_accelerator`, from 0.19.0 on).

        DeepSpeed asks the device for its `available_memory`; so does this, less the bound's slack.
        """
        needed = self.ledger.rank.total + self.setup.itemsize * padded + copied
        if self.setup.gpu_limit is None or with_slack(needed) <= self.setup.gpu_limit:
            return True
        self.flattened_on_host = True
        return False

    def _flatten_on_host(self, weights: list[Weight], padded: int) -> None:
        """Weights move to the host, are put together there, and come back as one tensor (`cpu_data`)."""
        itemsize, ledger = self.setup.itemsize, self.ledger
        own = itemsize * sum(weight.numel for weight in weights)
        ledger.allocate(FLATTENED, own, host=True)
        ledger.free(WEIGHTS, own)
        ledger.allocate_briefly(FLATTENED, itemsize * padded + self.flatten_copy_bytes(weights), host=True)
        ledger.free(FLATTENED, own, host=True)
        ledger.allocate_briefly(FLATTENED, itemsize * padded, host=True)
        ledger.allocate(FLATTENED, itemsize * padded)

    def flatten_copy_bytes(self, weights: list[Weight]) -> int:  # noqa: ARG002
        """Bytes of copies that are made of these to flatten them."""
        return 0

    def _clone_masters(self, size: int) -> None:
        """The masters of a piece, beside it in the model's type."""
        setup, ledger, host = self.setup, self.ledger, self.setup.offloads_optimizer
        cast = host or setup.itemsize != setup.master_itemsize
        ledger.allocate(TEMPORARY, setup.itemsize * size)
        ledger.allocate(MASTER, setup.master_itemsize * size if cast else 0, host=host)
        ledger.free(TEMPORARY, setup.itemsize * size)
        ledger.allocate(MASTER, 0 if cast else setup.master_itemsize * size)

    def _staging_bytes(self) -> int:
        """Bytes on the host beside masters and states: the piece in half precision came with 0.17."""
        return self.setup.itemsize * (
            self.largest_numel + (self.partition.numel if self.setup.quirks.keeps_bit16_on_host else 0)
        )

    # ------------------------------------------------------------ at rest
    def allocate_at_rest(self) -> None:
        """Flat weights, masters and states; with offload all but the weights is on the host."""
        setup, ledger, size = self.setup, self.ledger, self.partition.numel
        host = setup.offloads_optimizer
        frozen = self.total_numel - self.trainable_numel
        ledger.allocate(WEIGHTS, setup.itemsize * (self.partition.padded_numel + frozen))
        ledger.allocate(MASTER, setup.master_itemsize * size, host=host)
        ledger.allocate(STATES, self.state_bytes(), host=host)
        if host:
            ledger.allocate(OFFLOADED, setup.master_itemsize * size, host=True)
            ledger.allocate(STAGING, self._staging_bytes(), host=True)
            ledger.allocate(STAGING, setup.itemsize * self.largest_numel)
            if self._accumulates_on_host:
                ledger.allocate(OFFLOADED, setup.itemsize * sum(self._accumulated_numels), host=True)

    def state_bytes(self) -> int:
        """Bytes of the optimizer's states."""
        rule = self.setup.optimizer
        return (
            rule.states_nbytes(self.partition.numel) * self.setup.master_itemsize // 4
            + self.construction_state_bytes
        )

    def pinned_padding(self) -> int:
        """Masters, their gradients, and what stages them."""
        setup, sizes = self.setup, [partition.numel for _, partition, _ in self.groups]
        if not setup.offloads_optimizer:
            return 0
        blocks = [setup.master_itemsize * size for size in sizes] * (
            setup.pins_optimizer or setup.quirks.always_pins_masters
        )
        if setup.pins_optimizer:
            blocks += [*(setup.master_itemsize * size for size in sizes), setup.itemsize * self.largest_numel]
            blocks += [setup.itemsize * size for size in sizes] * setup.quirks.keeps_bit16_on_host
        if setup.pins_optimizer and self._accumulates_on_host:
            blocks += [setup.itemsize * count for count in self._accumulated_numels]
        return pinned_padding(blocks)

    @property
    def _accumulates_on_host(self) -> bool:
        setup = self.setup
        sends = setup.stage == 2 or setup.zenflow or setup.quirks.accumulates_on_host_at_stage1
        return bool(sends) and setup.gradient_accumulation_steps > 1

    @property
    def _accumulated_numels(self) -> list[int]:
        """Elements of each gradient that is accumulated there."""
        own = (
            self.matrices.intersection(self.partition.weights)
            if self.has_compact_grads
            else self.partition.weights
        )
        return [weight.numel for weight in own]


# Stages 1 and 2: flat weights, a piece of masters and states for each rank (`stage_1_and_2.py`).


class Stage12Engine(Stage12State):
    """`DeepSpeedZeroOptimizer` of stages 1 and 2."""

    # ------------------------------------------------------------ backward
    def before_backward(self) -> None:
        """`backward_prologue`."""
        if self.setup.quirks.allocates_bucket_in_prologue:
            self._allocate_buckets()

    def receive_gradient(self, weight: Weight, count: int) -> None:
        """`process_gradients`: a bucket is filled, and reduced when the next does not fit."""
        self._allocate_buckets()
        setup = self.setup
        if self.casts_each_grad or self.has_grad_lists:
            self.ledger.allocate(GRADIENTS, setup.grad_accum_itemsize * weight.numel)
            self.ledger.free(GRADIENTS, count)
            count = setup.grad_accum_itemsize * weight.numel
        if weight in self.unbucketed_grads:
            self.ledger.free(GRADIENTS, count)
        else:
            self.unbucketed_grads[weight] = count
        if setup.stage == 2 or (setup.overlap_comm and self.reduces_grads):
            self.reduce_ready(weight)

    @property
    def reduces_grads(self) -> bool:
        """Whether gradients of this micro batch are sent."""
        return self.setup.stage == 2 or self.is_boundary

    def _allocate_buckets(self) -> None:
        """The buckets are there from the first gradient on (`setup_buckets`)."""
        if self.has_buckets:
            return
        self.has_buckets, self.reduce_count = True, 0
        setup = self.setup
        kinds = (
            {2 if weight.is_linear else 4 for weight in self.trainable}
            if setup.autocast
            else {setup.comm_itemsize}
        )
        self.buckets = {kind: [] for kind in kinds}
        self.bucket_fill = dict.fromkeys(kinds, 0)
        if setup.contiguous_gradients:
            self.bucket_bytes = (
                self.buffer_itemsize
                * setup.reduce_bucket_size
                * (2 if setup.overlap_comm else 1)
                * len(kinds)
            )
            self.ledger.allocate(BUCKET, self.bucket_bytes)

    @property
    def buffer_itemsize(self) -> int:
        """Bytes of an element of the bucket (`_gradient_reduction_buffer_dtype`)."""
        setup = self.setup
        return setup.grad_accum_itemsize if self.casts_each_grad else setup.itemsize

    def comm_itemsize_of(self, weight: Weight) -> int:
        """Which bucket it goes to, by the width of its type."""
        if self.setup.autocast:
            return 2 if weight.is_linear else 4
        return self.setup.comm_itemsize

    def reduce_ready(self, weight: Weight) -> None:
        """`reduce_independent_p_g_buckets_and_remove_grads`."""
        setup, kind = self.setup, self.comm_itemsize_of(weight)
        if self.bucket_fill[kind] + weight.numel > setup.reduce_bucket_size:
            for each in sorted(self.buckets) if setup.quirks.reduces_all_buckets else (kind,):
                self.reduce(each)
        if setup.contiguous_gradients and weight.numel <= setup.reduce_bucket_size:
            self.ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
        elif setup.offloads_optimizer and not setup.zenflow:  # cloned, so that nothing else writes there
            self.ledger.allocate_briefly(GRADIENTS, self.unbucketed_grads[weight])
        self.buckets[kind].append(weight)
        self.bucket_fill[kind] += weight.numel

    def reduce(self, kind: int) -> None:
        """`reduce_ipg_grads`: average what is in the bucket, then keep what is this rank's."""
        weights = self.buckets[kind]
        if weights:
            self.reduce_count += 1
            self._average(weights, kind)
        for weight in weights:
            if weight in self.owned:
                self._copy_to_partition(weight)
            elif self.setup.stage == 2 and weight in self.unbucketed_grads:
                self.ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
        self.buckets[kind], self.bucket_fill[kind] = [], 0

    def _average(self, weights: list[Weight], kind: int) -> None:
        """`average_tensor`: stretches for several ranks are flattened into one tensor first."""
        setup, ledger = self.setup, self.ledger
        itemsize, total = self.buffer_itemsize, sum(weight.numel for weight in weights)
        for index, (members, partition, _) in enumerate(self.groups if self.has_compact_grads else ()):
            if (
                index not in self.compact_grad_bytes
                and self.owned & set(weights) & set(members) - self.matrices
            ):
                self.compact_grad_bytes[index] = 4 * partition.numel
                ledger.allocate(COMPACT, 4 * partition.numel)
        if setup.sp_size > 1 and (setup.reduce_scatter or not setup.contiguous_gradients):
            kind = 4  # `allreduce_bucket`
        if not setup.reduce_scatter or not setup.contiguous_gradients:
            self.count_collective("all_reduce", total, kind)
            if not setup.contiguous_gradients and len(weights) > 1:
                ledger.allocate(FLATTENED, itemsize * total)
            if kind != itemsize or setup.comm_dtype_is_other_half:
                ledger.allocate_briefly(FLATTENED, kind * total)
            if not setup.contiguous_gradients and len(weights) > 1:
                ledger.free(FLATTENED, itemsize * total)
            return
        found = bucket_slices(
            self.partition_by_weight.__getitem__, weights, not self.has_compact_grads, self.matrices
        )
        for experts in dict.fromkeys(expert for _, _, expert in found):
            goals: dict[int, list[tuple[int, int]]] = {}
            for to, count, expert in found:
                if expert is experts:
                    goals.setdefault(0 if setup.multi_rank_allreduce else to, []).append((to, count))
            for column_slices in goals.values():
                self._in_chunks(column_slices, kind, itemsize, experts)

    def _in_chunks(
        self, column_slices: list[tuple[int, int]], kind: int, itemsize: int, experts: bool
    ) -> None:
        """As many at once as fill a bucket (`allreduce_and_scatter`, `allreduce_no_retain`)."""
        chunk: list[tuple[int, int]] = []
        filled = 0
        for index, stretch in enumerate(column_slices):
            chunk.append(stretch)
            filled += stretch[1]
            if filled > self.setup.reduce_bucket_size or index == len(column_slices) - 1:
                self._all_reduce(chunk, kind, itemsize, experts)
                chunk, filled = [], 0

    def _all_reduce(self, chunk: list[tuple[int, int]], kind: int, itemsize: int, experts: bool) -> None:
        total, flat = sum(count for _, count in chunk), len(chunk) > 1
        name = "all_reduce" if self.setup.multi_rank_allreduce else "reduce"
        self.count_collective(
            name, total, kind, self.setup.dp_world_size // (self.tape.ep_size if experts else 1)
        )
        held = (itemsize * total if flat else 0) + (
            kind * total if kind != itemsize or self.setup.comm_dtype_is_other_half else 0
        )
        self.ledger.allocate(FLATTENED, held)
        if self.has_compact_grads:  # this rank's are cast, one by one (`_add_to_grad_partition_buffer`)
            ranks = {rank for members, _, rank in self.groups if members[0].is_expert is experts}
            own = (count for to, count in chunk if to in ranks)
            self.ledger.allocate_briefly(FLATTENED, 4 * max(own, default=0))
        self.ledger.free(FLATTENED, held)

    def _copy_to_partition(self, weight: Weight) -> None:
        """`copy_grads_in_partition`."""
        setup, ledger = self.setup, self.ledger
        if setup.offloads_optimizer:
            part = self.partition.numel_by_weight[weight]
            if self.is_boundary:
                ledger.allocate_briefly(TEMPORARY, 8 * part)
                if setup.quirks.copies_grads_for_overflow_check:
                    ledger.allocate_briefly(
                        TEMPORARY, (7 if setup.itemsize == 4 or self.has_grad_lists else 11) * weight.numel
                    )
                if setup.itemsize != setup.master_itemsize:
                    ledger.allocate_briefly(TEMPORARY, setup.master_itemsize * part)
                if weight in self.unbucketed_grads and not self.has_grad_lists:
                    ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
            return
        if (self.has_compact_grads and weight not in self.matrices) or not setup.contiguous_gradients:
            return
        if not self.new_grad_bytes:
            self.new_grad_bytes = setup.itemsize * self.partition.touched_numel
            ledger.allocate(GRADIENTS, self.new_grad_bytes)
        if weight in self.unbucketed_grads and not self.has_grad_lists:
            ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))

    def after_backward(self) -> None:
        """`reduce_gradients` and `independent_gradient_partition_epilogue`."""
        setup, ledger = self.setup, self.ledger
        if not self.reduces_grads:
            return
        if setup.stage == 1 and not setup.overlap_comm:
            for weight in (weight for members, _, _ in self.groups for weight in members):
                self._allocate_buckets()
                self.reduce_ready(weight)
        for kind in sorted(self.buckets):
            self.reduce(kind)
        if setup.contiguous_gradients and self.has_buckets:
            # What is cast to fp32 stays, as views of the buffers that were filled: of two, one may be empty.
            empty = 2 if setup.overlap_comm and self.reduce_count < 2 else 1
            self.bytes_in_bucket_views = self.bucket_bytes // empty if self.casts_each_grad else 0
            ledger.free(BUCKET, self.bucket_bytes - self.bytes_in_bucket_views)
        self.has_buckets = False
        self._epilogue()

    def _epilogue(self) -> None:
        """What is left of the gradients is what lies in the partition."""
        ledger = self.ledger
        if self.new_grad_bytes and self.has_grad_lists:  # nobody reads it
            ledger.free(GRADIENTS, self.new_grad_bytes)
            self.new_grad_bytes = 0
        if self.new_grad_bytes:  # added to those of the micro batches before, if there are any
            if self.accumulated_grad_bytes:
                ledger.free(GRADIENTS, self.new_grad_bytes)
            else:
                self.accumulated_grad_bytes = self.new_grad_bytes
            self.new_grad_bytes = 0
        for weight in list(self.unbucketed_grads):
            if weight not in self.owned and self.keeps_other_ranks_grads:
                continue
            count = self.unbucketed_grads[weight]
            if self.has_compact_grads or weight not in self.owned or self.setup.offloads_optimizer:
                ledger.free(GRADIENTS, self.unbucketed_grads.pop(weight))
            elif not self.setup.contiguous_gradients or self.has_grad_lists:
                self.unbucketed_grads.pop(weight)
                if self.micro_step and self.setup.stage == 2:  # added to those of the micro batches before
                    ledger.free(GRADIENTS, count)
                else:
                    self.accumulated_grad_bytes += count

    @property
    def keeps_other_ranks_grads(self) -> bool:
        """Whether gradients for other ranks stay until the step: nobody clears them.

        Of those that are cast one by one, what is larger than a bucket, where it is cloned for the host.
        """
        listed = (
            self.has_grad_lists and self.setup.stage == 1 and self.setup.quirks.keeps_grads_of_other_ranks
        )
        return listed or (self.casts_each_grad and self.setup.offloads_optimizer)

    # ------------------------------------------------------------ step
    def step(self) -> None:
        """The norm, one flat gradient in the masters' type, the update."""
        setup, ledger = self.setup, self.ledger
        if setup.compute_grad_norm and not setup.offloads_optimizer:
            searched = setup.checks_overflow and setup.quirks.copies_grads_for_overflow_check
            for count in self.partition.numel_by_weight.values():
                ledger.allocate_briefly(TEMPORARY, (11 if searched else 8) * count)
        last = len(self.groups) - 1  # gradients of all groups are one tensor
        for index, (_, partition, _) in enumerate(self.groups):
            self.update_group(partition, index, self.accumulated_grad_bytes if index == last else 0)
        self.accumulated_grad_bytes = 0
        for members, partition, _ in self.groups:
            if self.ranks_of(members[0]) > 1:
                self.count_collective(
                    "all_gather", partition.padded_numel, setup.itemsize, self.ranks_of(members[0])
                )
        if self.casts_each_grad and setup.contiguous_gradients:
            ledger.free(BUCKET, self.bytes_in_bucket_views)
        if self.keeps_other_ranks_grads or (self.casts_each_grad and setup.contiguous_gradients):
            ledger.free(GRADIENTS, sum(self.unbucketed_grads.values()))  # `zero_grad`
            self.unbucketed_grads.clear()

    def update_group(self, partition: Partition, index: int, kept: int, *, steps: bool = True) -> None:
        """Of one group; `kept`: bytes of its gradients; `steps`: with what the optimizer needs."""
        setup, ledger, size = self.setup, self.ledger, partition.numel
        compact = self.compact_grad_bytes.pop(index, 0)
        if setup.offloads_optimizer or compact:
            self.update(size * steps, size * steps, host=setup.offloads_optimizer)
            ledger.free(COMPACT, compact)
            ledger.free(GRADIENTS, kept if setup.offloads_optimizer else 0)
            return
        flat = setup.grad_accum_itemsize * size
        copies = len(partition.numel_by_weight) > 1 or sum(partition.numel_by_weight.values()) < size
        full = setup.master_itemsize * size if setup.grad_accum_itemsize != setup.master_itemsize else 0
        held = (full or flat) if copies or full else 0
        ledger.allocate(TEMPORARY, flat if copies else 0)
        if full:
            ledger.allocate(TEMPORARY, full)
            ledger.free(TEMPORARY, flat if copies else 0)
        if held:
            ledger.free(GRADIENTS, kept)
        self.update(size * steps, size * steps)
        ledger.free(TEMPORARY, held)
        if not held:
            ledger.free(GRADIENTS, kept)


# Stages 1 and 2 with gradients in fp32 tensor by tensor, as releases before 0.19.8 keep them.


class Stage12PerTensorGrads(Stage12Engine):
    """What is sent is a copy in the model's type, for each who asks (`get_gradient_for_reduction`)."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        self.caller_copy_bytes = self.oversized_bytes = 0
        """Bytes of the copies that `reduce_gradients` has, and a bucket whose only gradient is too large."""

    def reduce_ready(self, weight: Weight) -> None:
        """The copy goes into the bucket, or stays where it is larger."""
        setup, ledger, kind = self.setup, self.ledger, self.comm_itemsize_of(weight)
        copy = setup.itemsize * weight.numel
        if setup.stage == 1 and not setup.overlap_comm:  # its caller has one too
            ledger.allocate(GRADIENTS, copy - self.caller_copy_bytes)
            self.caller_copy_bytes = copy
        ledger.allocate(GRADIENTS, copy)
        if self.bucket_fill[kind] + weight.numel > setup.reduce_bucket_size:
            self.reduce(kind)
        if weight.numel > setup.reduce_bucket_size:
            self.oversized_bytes = copy
        else:
            ledger.free(GRADIENTS, copy)
        self.buckets[kind].append(weight)
        self.bucket_fill[kind] += weight.numel

    def reduce(self, kind: int) -> None:
        """Of what is too large there is one more copy."""
        self.ledger.allocate(GRADIENTS, self.oversized_bytes)
        super().reduce(kind)
        self.ledger.free(GRADIENTS, 2 * self.oversized_bytes)
        self.oversized_bytes = 0

    def after_backward(self) -> None:
        """The last copy goes with its loop."""
        super().after_backward()
        self.ledger.free(GRADIENTS, self.caller_copy_bytes)
        self.caller_copy_bytes = 0


# Gradients of stages 1 and 2 that are sent in another type than their own, where DeepSpeed stops.

ZERO = "zero_optimization."
KEY = f"{ZERO}reduce_bucket_size"
_WAYS_OUT = "make it larger, or upgrade DeepSpeed to 0.18.2 or later"


def reject_mistyped_grads(setup: Setup, tape: Tape) -> None:
    """Refuse what DeepSpeed itself stops with, in the first backward pass.

    Raises:
        NotModelledError: gradients are sent too early, or do not fit a bucket.
    """
    if setup.is_unsharded or setup.stage == 3 or setup.uses_bf16_optimizer:
        return
    _reject_overlap(setup)
    retyped = setup.comm_itemsize != setup.itemsize or setup.comm_dtype_is_other_half
    if setup.autocast or retyped:
        trained = [weight for weight in tape.weights if weight.requires_grad]
        sent = [weight for weight in trained if weight.is_linear] if setup.autocast else trained
        _reject_small_bucket(setup, sent, retyped)


def _reject_overlap(setup: Setup) -> None:
    """Gradients in another type come after the pass in which `overlap_comm` sends them (DSC418)."""
    late = (
        setup.stage == 1
        and setup.grad_accum_itemsize != setup.itemsize
        and setup.quirks.casts_grads_after_backward
    )
    if late and setup.overlap_comm and setup.gradient_accumulation_steps == 1:
        what = "gradients are sent before they are there in the type that they accumulate in"
        told = "remove it, or upgrade DeepSpeed to 0.16.5 or later"
        raise NotModelledError(f"DeepSpeed stops with `{ZERO}overlap_comm`: {what}", told)


def _reject_small_bucket(setup: Setup, sent: Sequence[Weight], retyped: bool) -> None:
    """What is looked up by the type of the model is not found (DSC411).

    Sources: `runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.reduce_ipg_grads`, which looks for what is
    larger than a bucket; `runtime/base_optimizer.py:ZeROOptimizer.report_ipg_memory_usage`, as one is full.
    """
    total, stops = (
        sum(weight.numel for weight in sent),
        f"DeepSpeed stops with `{KEY}` {setup.reduce_bucket_size:,}",
    )
    if retyped and setup.quirks.reports_model_dtype_bucket and total > setup.reduce_bucket_size:
        raise NotModelledError(f"{stops}: the {total:,} gradients fill it more than once", _WAYS_OUT)
    most = max(sent, key=lambda weight: weight.numel, default=None)
    if (
        setup.quirks.looks_up_model_dtype_bucket
        and setup.contiguous_gradients
        and most
        and most.numel > setup.reduce_bucket_size
    ):
        what = f"`{most.name}` has {most.numel:,} elements, and its gradient is sent in another format"
        raise NotModelledError(f"{stops}: {what}", _WAYS_OUT)
