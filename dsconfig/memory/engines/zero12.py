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
    rounding,
)
from dsconfig.memory.engines.param_groups import Partition, groups, halves, joined, partition, slices
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger, with_slack
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from collections.abc import Sequence


# Stages 1 and 2 as they are loaded and at rest: flat weights, a piece of the rest (`stage_1_and_2.py`).

COMPACT = "fp32 gradients of the partition"
STAGING = "staging buffers of offload"
OFFLOADED = "gradients of the partition, offloaded"


class Flattened(Engine):
    """What `DeepSpeedZeroOptimizer` has made by the time that training begins."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        found = halves(setup, self.trainable) if setup.optimizer.muon_method else groups(self.trainable)
        self.groups = [(members, *self._piece(members)) for members in found]
        self.cut = joined([cut for _, cut, _ in self.groups])
        self.piece_of = {weight: (cut, rank) for members, cut, rank in self.groups for weight in members}
        self.mine = set(self.cut.own)
        self.largest = max((weight.numel for weight in self.trainable), default=0)
        raised = setup.accumulates_fp32
        self.compact, self.lists = (
            raised and setup.quirks.has_compact_fp32_grads,
            raised and not setup.quirks.has_compact_fp32_grads,
        )
        """Gradients in fp32: of the partition, or tensor by tensor."""
        self.casts = setup.stage == 1 and self.compact
        """Whether gradients are cast one by one, and keep the bucket that they lie in (`grad_accum`)."""
        self.buckets: dict[int, list[Weight]] = {}
        self.filled: dict[int, int] = {}
        self.there: dict[Weight, int] = {}
        """Gradients that have blocks of their own, in bytes."""
        self.on_host = False
        """Whether a group was flattened on the host, for want of room on the GPU."""
        self.ready = False
        self.partial = self.kept = 0
        self.compact_held: dict[int, int] = {}
        """Bytes of fp32 gradients of each group's piece, by its place."""
        self.matrices = frozenset[Weight]()
        """What Muon needs whole: each rank that has a part of one gets all of its gradient."""

    def _piece(self, members: list[Weight]) -> tuple[Partition, int]:
        """This rank's piece of a group, and its place among the ranks that share it."""
        ranks = self.ranks_of(members[0])
        rank = self.setup.rank // (self.setup.dp_world_size // ranks)
        return partition(members, ranks, rank, self.setup.round_robin_gradients), rank

    # ------------------------------------------------------------ load
    def load(self) -> None:
        """The weights are flattened beside themselves; the piece is cloned and cast."""
        self.build()
        setup, ledger, size, host = self.setup, self.ledger, self.cut.size, self.setup.offloads_optimizer
        if setup.quirks.flattens_on_host:
            self._flatten_on_host(self.trainable, self.cut.padded)
        else:
            for members, cut, _ in self.groups:
                if self._has_room(cut.padded, self.copied(members)):
                    ledger.allocate_briefly(FLATTENED, setup.itemsize * cut.padded + self.copied(members))
                    ledger.allocate(FLATTENED, setup.itemsize * cut.padded)
                    ledger.free(WEIGHTS, setup.itemsize * sum(weight.numel for weight in members))
                else:
                    self._flatten_on_host(members, cut.padded)
                self._clone(cut.size)
        for _, cut, _ in self.groups if setup.quirks.flattens_on_host else ():
            self._clone(cut.size)
        if host:
            ledger.allocate(STAGING, self._staged(), host=True)
            ledger.allocate(STAGING, setup.itemsize * self.largest)
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
        self.on_host = True
        return False

    def _flatten_on_host(self, weights: list[Weight], padded: int) -> None:
        """Weights move to the host, are put together there, and come back as one tensor (`cpu_data`)."""
        itemsize, ledger = self.setup.itemsize, self.ledger
        own = itemsize * sum(weight.numel for weight in weights)
        ledger.allocate(FLATTENED, own, host=True)
        ledger.free(WEIGHTS, own)
        ledger.allocate_briefly(FLATTENED, itemsize * padded + self.copied(weights), host=True)
        ledger.free(FLATTENED, own, host=True)
        ledger.allocate_briefly(FLATTENED, itemsize * padded, host=True)
        ledger.allocate(FLATTENED, itemsize * padded)

    def copied(self, weights: list[Weight]) -> int:  # noqa: ARG002
        """Bytes of copies that are made of these to flatten them."""
        return 0

    def _clone(self, size: int) -> None:
        """The masters of a piece, beside it in the model's type."""
        setup, ledger, host = self.setup, self.ledger, self.setup.offloads_optimizer
        cast = host or setup.itemsize != setup.master_itemsize
        ledger.allocate(TEMPORARY, setup.itemsize * size)
        ledger.allocate(MASTER, setup.master_itemsize * size if cast else 0, host=host)
        ledger.free(TEMPORARY, setup.itemsize * size)
        ledger.allocate(MASTER, 0 if cast else setup.master_itemsize * size)

    def _staged(self) -> int:
        """Bytes on the host beside masters and states: the piece in half precision came with 0.17."""
        return self.setup.itemsize * (
            self.largest + (self.cut.size if self.setup.quirks.keeps_bit16_on_host else 0)
        )

    # ------------------------------------------------------------ at rest
    def rest(self) -> None:
        """Flat weights, masters and states; with offload all but the weights is on the host."""
        setup, ledger, size = self.setup, self.ledger, self.cut.size
        host = setup.offloads_optimizer
        frozen = self.total_numel - self.trainable_numel
        ledger.allocate(WEIGHTS, setup.itemsize * (self.cut.padded + frozen))
        ledger.allocate(MASTER, setup.master_itemsize * size, host=host)
        ledger.allocate(STATES, self.states(), host=host)
        if host:
            ledger.allocate(OFFLOADED, setup.master_itemsize * size, host=True)
            ledger.allocate(STAGING, self._staged(), host=True)
            ledger.allocate(STAGING, setup.itemsize * self.largest)
            if self._accumulates_on_host:
                ledger.allocate(OFFLOADED, setup.itemsize * sum(self._accumulated), host=True)

    def states(self) -> int:
        """Bytes of the optimizer's states."""
        rule = self.setup.optimizer
        return rule.states_nbytes(self.cut.size) * self.setup.master_itemsize // 4 + self.begun

    def rounding(self) -> int:
        """Masters, their gradients, and what stages them."""
        setup, sizes = self.setup, [cut.size for _, cut, _ in self.groups]
        if not setup.offloads_optimizer:
            return 0
        blocks = [setup.master_itemsize * size for size in sizes] * (
            setup.pins_optimizer or setup.quirks.always_pins_masters
        )
        if setup.pins_optimizer:
            blocks += [*(setup.master_itemsize * size for size in sizes), setup.itemsize * self.largest]
            blocks += [setup.itemsize * size for size in sizes] * setup.quirks.keeps_bit16_on_host
        if setup.pins_optimizer and self._accumulates_on_host:
            blocks += [setup.itemsize * count for count in self._accumulated]
        return rounding(blocks)

    @property
    def _accumulates_on_host(self) -> bool:
        setup = self.setup
        sends = setup.stage == 2 or setup.zenflow or setup.quirks.accumulates_on_host_at_stage1
        return bool(sends) and setup.gradient_accumulation_steps > 1

    @property
    def _accumulated(self) -> list[int]:
        """Elements of each gradient that is accumulated there."""
        own = self.matrices.intersection(self.cut.own) if self.compact else self.cut.own
        return [weight.numel for weight in own]


# Stages 1 and 2: flat weights, a piece of masters and states for each rank (`stage_1_and_2.py`).


class Sharded(Flattened):
    """`DeepSpeedZeroOptimizer` of stages 1 and 2."""

    # ------------------------------------------------------------ backward
    def begin(self) -> None:
        """`backward_prologue`."""
        if self.setup.quirks.allocates_bucket_in_prologue:
            self._set_up()

    def gradient(self, weight: Weight, count: int) -> None:
        """`process_gradients`: a bucket is filled, and reduced when the next does not fit."""
        self._set_up()
        setup = self.setup
        if self.casts or self.lists:
            self.ledger.allocate(GRADIENTS, setup.grad_accum_itemsize * weight.numel)
            self.ledger.free(GRADIENTS, count)
            count = setup.grad_accum_itemsize * weight.numel
        if weight in self.there:
            self.ledger.free(GRADIENTS, count)
        else:
            self.there[weight] = count
        if setup.stage == 2 or (setup.overlap_comm and self.sends):
            self.reduce_ready(weight)

    @property
    def sends(self) -> bool:
        """Whether gradients of this micro batch are sent."""
        return self.setup.stage == 2 or self.boundary

    def _set_up(self) -> None:
        """The buckets are there from the first gradient on (`setup_buckets`)."""
        if self.ready:
            return
        self.ready, self.reductions = True, 0
        setup = self.setup
        kinds = (
            {2 if weight.is_linear else 4 for weight in self.trainable}
            if setup.autocast
            else {setup.comm_itemsize}
        )
        self.buckets = {kind: [] for kind in kinds}
        self.filled = dict.fromkeys(kinds, 0)
        if setup.contiguous_gradients:
            self.bucket_bytes = (
                self.buffer_width * setup.reduce_bucket_size * (2 if setup.overlap_comm else 1) * len(kinds)
            )
            self.ledger.allocate(BUCKET, self.bucket_bytes)

    @property
    def buffer_width(self) -> int:
        """Bytes of an element of the bucket (`_gradient_reduction_buffer_dtype`)."""
        setup = self.setup
        return setup.grad_accum_itemsize if self.casts else setup.itemsize

    def kind_of(self, weight: Weight) -> int:
        """Which bucket it goes to, by the width of its type."""
        if self.setup.autocast:
            return 2 if weight.is_linear else 4
        return self.setup.comm_itemsize

    def reduce_ready(self, weight: Weight) -> None:
        """`reduce_independent_p_g_buckets_and_remove_grads`."""
        setup, kind = self.setup, self.kind_of(weight)
        if self.filled[kind] + weight.numel > setup.reduce_bucket_size:
            for each in sorted(self.buckets) if setup.quirks.reduces_all_buckets else (kind,):
                self.reduce(each)
        if setup.contiguous_gradients and weight.numel <= setup.reduce_bucket_size:
            self.ledger.free(GRADIENTS, self.there.pop(weight))
        elif setup.offloads_optimizer and not setup.zenflow:  # cloned, so that nothing else writes there
            self.ledger.allocate_briefly(GRADIENTS, self.there[weight])
        self.buckets[kind].append(weight)
        self.filled[kind] += weight.numel

    def reduce(self, kind: int) -> None:
        """`reduce_ipg_grads`: average what is in the bucket, then keep what is this rank's."""
        weights = self.buckets[kind]
        if weights:
            self.reductions += 1
            self._average(weights, kind)
        for weight in weights:
            if weight in self.mine:
                self._keep(weight)
            elif self.setup.stage == 2 and weight in self.there:
                self.ledger.free(GRADIENTS, self.there.pop(weight))
        self.buckets[kind], self.filled[kind] = [], 0

    def _average(self, weights: list[Weight], kind: int) -> None:
        """`average_tensor`: stretches for several ranks are flattened into one tensor first."""
        setup, ledger = self.setup, self.ledger
        itemsize, total = self.buffer_width, sum(weight.numel for weight in weights)
        for index, (members, cut, _) in enumerate(self.groups if self.compact else ()):
            if index not in self.compact_held and self.mine & set(weights) & set(members) - self.matrices:
                self.compact_held[index] = 4 * cut.size
                ledger.allocate(COMPACT, 4 * cut.size)
        if setup.sp_size > 1 and (setup.reduce_scatter or not setup.contiguous_gradients):
            kind = 4  # `allreduce_bucket`
        if not setup.reduce_scatter or not setup.contiguous_gradients:
            self.send("all_reduce", total, kind)
            if not setup.contiguous_gradients and len(weights) > 1:
                ledger.allocate(FLATTENED, itemsize * total)
            if kind != itemsize or setup.comm_dtype_is_other_half:
                ledger.allocate_briefly(FLATTENED, kind * total)
            if not setup.contiguous_gradients and len(weights) > 1:
                ledger.free(FLATTENED, itemsize * total)
            return
        found = slices(self.piece_of.__getitem__, weights, not self.compact, self.matrices)
        for experts in dict.fromkeys(expert for _, _, expert in found):
            goals: dict[int, list[tuple[int, int]]] = {}
            for to, count, expert in found:
                if expert is experts:
                    goals.setdefault(0 if setup.multi_rank_allreduce else to, []).append((to, count))
            for stretches in goals.values():
                self._in_chunks(stretches, kind, itemsize, experts)

    def _in_chunks(self, stretches: list[tuple[int, int]], kind: int, itemsize: int, experts: bool) -> None:
        """As many at once as fill a bucket (`allreduce_and_scatter`, `allreduce_no_retain`)."""
        chunk: list[tuple[int, int]] = []
        filled = 0
        for index, stretch in enumerate(stretches):
            chunk.append(stretch)
            filled += stretch[1]
            if filled > self.setup.reduce_bucket_size or index == len(stretches) - 1:
                self._all_reduce(chunk, kind, itemsize, experts)
                chunk, filled = [], 0

    def _all_reduce(self, chunk: list[tuple[int, int]], kind: int, itemsize: int, experts: bool) -> None:
        total, flat = sum(count for _, count in chunk), len(chunk) > 1
        name = "all_reduce" if self.setup.multi_rank_allreduce else "reduce"
        self.send(name, total, kind, self.setup.dp_world_size // (self.tape.ep_size if experts else 1))
        held = (itemsize * total if flat else 0) + (
            kind * total if kind != itemsize or self.setup.comm_dtype_is_other_half else 0
        )
        self.ledger.allocate(FLATTENED, held)
        if self.compact:  # this rank's are cast, one by one (`_add_to_grad_partition_buffer`)
            ranks = {rank for members, _, rank in self.groups if members[0].is_expert is experts}
            own = (count for to, count in chunk if to in ranks)
            self.ledger.allocate_briefly(FLATTENED, 4 * max(own, default=0))
        self.ledger.free(FLATTENED, held)

    def _keep(self, weight: Weight) -> None:
        """`copy_grads_in_partition`."""
        setup, ledger = self.setup, self.ledger
        if setup.offloads_optimizer:
            part = self.cut.parts[weight]
            if self.boundary:
                ledger.allocate_briefly(TEMPORARY, 8 * part)
                if setup.quirks.copies_grads_for_overflow_check:
                    ledger.allocate_briefly(
                        TEMPORARY, (7 if setup.itemsize == 4 or self.lists else 11) * weight.numel
                    )
                if setup.itemsize != setup.master_itemsize:
                    ledger.allocate_briefly(TEMPORARY, setup.master_itemsize * part)
                if weight in self.there and not self.lists:
                    ledger.free(GRADIENTS, self.there.pop(weight))
            return
        if (self.compact and weight not in self.matrices) or not setup.contiguous_gradients:
            return
        if not self.partial:
            self.partial = setup.itemsize * self.cut.whole
            ledger.allocate(GRADIENTS, self.partial)
        if weight in self.there and not self.lists:
            ledger.free(GRADIENTS, self.there.pop(weight))

    def after(self) -> None:
        """`reduce_gradients` and `independent_gradient_partition_epilogue`."""
        setup, ledger = self.setup, self.ledger
        if not self.sends:
            return
        if setup.stage == 1 and not setup.overlap_comm:
            for weight in (weight for members, _, _ in self.groups for weight in members):
                self._set_up()
                self.reduce_ready(weight)
        for kind in sorted(self.buckets):
            self.reduce(kind)
        if setup.contiguous_gradients and self.ready:
            # What is cast to fp32 stays, as views of the buffers that were filled: of two, one may be empty.
            empty = 2 if setup.overlap_comm and self.reductions < 2 else 1
            self.bytes_in_bucket_views = self.bucket_bytes // empty if self.casts else 0
            ledger.free(BUCKET, self.bucket_bytes - self.bytes_in_bucket_views)
        self.ready = False
        self._epilogue()

    def _epilogue(self) -> None:
        """What is left of the gradients is what lies in the partition."""
        ledger = self.ledger
        if self.partial and self.lists:  # nobody reads it
            ledger.free(GRADIENTS, self.partial)
            self.partial = 0
        if self.partial:  # added to those of the micro batches before, if there are any
            if self.kept:
                ledger.free(GRADIENTS, self.partial)
            else:
                self.kept = self.partial
            self.partial = 0
        for weight in list(self.there):
            if weight not in self.mine and self.keeps_others:
                continue
            count = self.there[weight]
            if self.compact or weight not in self.mine or self.setup.offloads_optimizer:
                ledger.free(GRADIENTS, self.there.pop(weight))
            elif not self.setup.contiguous_gradients or self.lists:
                self.there.pop(weight)
                if self.micro and self.setup.stage == 2:  # added to those of the micro batches before
                    ledger.free(GRADIENTS, count)
                else:
                    self.kept += count

    @property
    def keeps_others(self) -> bool:
        """Whether gradients for other ranks stay until the step: nobody clears them.

        Of those that are cast one by one, what is larger than a bucket, where it is cloned for the host.
        """
        listed = self.lists and self.setup.stage == 1 and self.setup.quirks.keeps_grads_of_other_ranks
        return listed or (self.casts and self.setup.offloads_optimizer)

    # ------------------------------------------------------------ step
    def step(self) -> None:
        """The norm, one flat gradient in the masters' type, the update."""
        setup, ledger = self.setup, self.ledger
        if setup.compute_grad_norm and not setup.offloads_optimizer:
            searched = setup.checks_overflow and setup.quirks.copies_grads_for_overflow_check
            for count in self.cut.parts.values():
                ledger.allocate_briefly(TEMPORARY, (11 if searched else 8) * count)
        last = len(self.groups) - 1  # gradients of all groups are one tensor
        for index, (_, cut, _) in enumerate(self.groups):
            self.update_group(cut, index, self.kept if index == last else 0)
        self.kept = 0
        for members, cut, _ in self.groups:
            if self.ranks_of(members[0]) > 1:
                self.send("all_gather", cut.padded, setup.itemsize, self.ranks_of(members[0]))
        if self.casts and setup.contiguous_gradients:
            ledger.free(BUCKET, self.bytes_in_bucket_views)
        if self.keeps_others or (self.casts and setup.contiguous_gradients):
            ledger.free(GRADIENTS, sum(self.there.values()))  # `zero_grad`
            self.there.clear()

    def update_group(self, cut: Partition, index: int, kept: int, *, steps: bool = True) -> None:
        """Of one group; `kept`: bytes of its gradients; `steps`: with what the optimizer needs."""
        setup, ledger, size = self.setup, self.ledger, cut.size
        compact = self.compact_held.pop(index, 0)
        if setup.offloads_optimizer or compact:
            self.update(size * steps, size * steps, host=setup.offloads_optimizer)
            ledger.free(COMPACT, compact)
            ledger.free(GRADIENTS, kept if setup.offloads_optimizer else 0)
            return
        flat = setup.grad_accum_itemsize * size
        copies = len(cut.parts) > 1 or sum(cut.parts.values()) < size
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


class Listed(Sharded):
    """What is sent is a copy in the model's type, for each who asks (`get_gradient_for_reduction`)."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        self.asked = self.large = 0
        """Bytes of the copies that `reduce_gradients` has, and a bucket whose only gradient is too large."""

    def reduce_ready(self, weight: Weight) -> None:
        """The copy goes into the bucket, or stays where it is larger."""
        setup, ledger, kind = self.setup, self.ledger, self.kind_of(weight)
        copy = setup.itemsize * weight.numel
        if setup.stage == 1 and not setup.overlap_comm:  # its caller has one too
            ledger.allocate(GRADIENTS, copy - self.asked)
            self.asked = copy
        ledger.allocate(GRADIENTS, copy)
        if self.filled[kind] + weight.numel > setup.reduce_bucket_size:
            self.reduce(kind)
        if weight.numel > setup.reduce_bucket_size:
            self.large = copy
        else:
            ledger.free(GRADIENTS, copy)
        self.buckets[kind].append(weight)
        self.filled[kind] += weight.numel

    def reduce(self, kind: int) -> None:
        """Of what is too large there is one more copy."""
        self.ledger.allocate(GRADIENTS, self.large)
        super().reduce(kind)
        self.ledger.free(GRADIENTS, 2 * self.large)
        self.large = 0

    def after(self) -> None:
        """The last copy goes with its loop."""
        super().after()
        self.ledger.free(GRADIENTS, self.asked)
        self.asked = 0


# Gradients of stages 1 and 2 that are sent in another type than their own, where DeepSpeed stops.

ZERO = "zero_optimization."
KEY = f"{ZERO}reduce_bucket_size"
_OUT = "make it larger, or upgrade DeepSpeed to 0.18.2 or later"


def refuse_mistyped(setup: Setup, tape: Tape) -> None:
    """Refuse what DeepSpeed itself stops with, in the first backward pass.

    Raises:
        NotModelledError: gradients are sent too early, or do not fit a bucket.
    """
    if setup.is_unsharded or setup.stage == 3 or setup.uses_bf16_optimizer:
        return
    _refuse_overlap(setup)
    retyped = setup.comm_itemsize != setup.itemsize or setup.comm_dtype_is_other_half
    if setup.autocast or retyped:
        trained = [weight for weight in tape.weights if weight.requires_grad]
        sent = [weight for weight in trained if weight.is_linear] if setup.autocast else trained
        _refuse_bucket(setup, sent, retyped)


def _refuse_overlap(setup: Setup) -> None:
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


def _refuse_bucket(setup: Setup, sent: Sequence[Weight], retyped: bool) -> None:
    """What is looked up by the type of the model is not found (DSC411).

    Sources: `runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.reduce_ipg_grads`, which looks for what is
    larger than a bucket; `runtime/base_optimizer.py:ZeROOptimizer.report_ipg_memory_usage`, as one is full.
    """
    total, stops = (
        sum(weight.numel for weight in sent),
        f"DeepSpeed stops with `{KEY}` {setup.reduce_bucket_size:,}",
    )
    if retyped and setup.quirks.reports_model_dtype_bucket and total > setup.reduce_bucket_size:
        raise NotModelledError(f"{stops}: the {total:,} gradients fill it more than once", _OUT)
    most = max(sent, key=lambda weight: weight.numel, default=None)
    if (
        setup.quirks.looks_up_model_dtype_bucket
        and setup.contiguous_gradients
        and most
        and most.numel > setup.reduce_bucket_size
    ):
        what = f"`{most.name}` has {most.numel:,} elements, and its gradient is sent in another format"
        raise NotModelledError(f"{stops}: {what}", _OUT)
