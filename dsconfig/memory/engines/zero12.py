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
        found = halves(setup, self.trained) if setup.optimizer.muon else groups(self.trained)
        self.groups = [(members, *self._piece(members)) for members in found]
        self.cut = joined([cut for _, cut, _ in self.groups])
        self.piece_of = {weight: (cut, rank) for members, cut, rank in self.groups for weight in members}
        self.mine = set(self.cut.own)
        self.largest = max((weight.elements for weight in self.trained), default=0)
        raised = setup.raises_gradients
        self.compact, self.lists = raised and setup.ways.compact, raised and not setup.ways.compact
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
        rank = self.setup.rank // (self.setup.world // ranks)
        return partition(members, ranks, rank, self.setup.round_robin), rank

    # ------------------------------------------------------------ load
    def load(self) -> None:
        """The weights are flattened beside themselves; the piece is cloned and cast."""
        self.build()
        setup, ledger, size, host = self.setup, self.ledger, self.cut.size, self.setup.offloads
        if setup.ways.flattens_on_host:
            self._flatten_on_host(self.trained, self.cut.padded)
        else:
            for members, cut, _ in self.groups:
                if self._has_room(cut.padded, self.copied(members)):
                    ledger.touch(FLATTENED, setup.width * cut.padded + self.copied(members))
                    ledger.take(FLATTENED, setup.width * cut.padded)
                    ledger.give(WEIGHTS, setup.width * sum(weight.elements for weight in members))
                else:
                    self._flatten_on_host(members, cut.padded)
                self._clone(cut.size)
        for _, cut, _ in self.groups if setup.ways.flattens_on_host else ():
            self._clone(cut.size)
        if host:
            ledger.take(STAGING, self._staged(), host=True)
            ledger.take(STAGING, setup.width * self.largest)
        if setup.optimizer.doubled:
            ledger.take(STATES, setup.optimizer.states * size, host=host)
        ledger.touch(TEMPORARY, setup.master * size, host=host)

    def _has_room(self, padded: int, copied: int) -> bool:
        """Whether the GPU holds a flat copy beside the weights (`flatten_on_accelerator`, from 0.19.0 on).

        DeepSpeed asks the device for its `available_memory`; so does this, less the bound's slack.
        """
        needed = self.ledger.rank.total + self.setup.width * padded + copied
        if self.setup.room is None or with_slack(needed) <= self.setup.room:
            return True
        self.on_host = True
        return False

    def _flatten_on_host(self, weights: list[Weight], padded: int) -> None:
        """Weights move to the host, are put together there, and come back as one tensor (`cpu_data`)."""
        width, ledger = self.setup.width, self.ledger
        own = width * sum(weight.elements for weight in weights)
        ledger.take(FLATTENED, own, host=True)
        ledger.give(WEIGHTS, own)
        ledger.touch(FLATTENED, width * padded + self.copied(weights), host=True)
        ledger.give(FLATTENED, own, host=True)
        ledger.touch(FLATTENED, width * padded, host=True)
        ledger.take(FLATTENED, width * padded)

    def copied(self, weights: list[Weight]) -> int:  # noqa: ARG002
        """Bytes of copies that are made of these to flatten them."""
        return 0

    def _clone(self, size: int) -> None:
        """The masters of a piece, beside it in the model's type."""
        setup, ledger, host = self.setup, self.ledger, self.setup.offloads
        cast = host or setup.width != setup.master
        ledger.take(TEMPORARY, setup.width * size)
        ledger.take(MASTER, setup.master * size if cast else 0, host=host)
        ledger.give(TEMPORARY, setup.width * size)
        ledger.take(MASTER, 0 if cast else setup.master * size)

    def _staged(self) -> int:
        """Bytes on the host beside masters and states: the piece in half precision came with 0.17."""
        return self.setup.width * (self.largest + (self.cut.size if self.setup.ways.stages_half else 0))

    # ------------------------------------------------------------ at rest
    def rest(self) -> None:
        """Flat weights, masters and states; with offload all but the weights is on the host."""
        setup, ledger, size = self.setup, self.ledger, self.cut.size
        host = setup.offloads
        frozen = self.everything - self.elements
        ledger.take(WEIGHTS, setup.width * (self.cut.padded + frozen))
        ledger.take(MASTER, setup.master * size, host=host)
        ledger.take(STATES, self.states(), host=host)
        if host:
            ledger.take(OFFLOADED, setup.master * size, host=True)
            ledger.take(STAGING, self._staged(), host=True)
            ledger.take(STAGING, setup.width * self.largest)
            if self._accumulates_on_host:
                ledger.take(OFFLOADED, setup.width * sum(self._accumulated), host=True)

    def states(self) -> int:
        """Bytes of the optimizer's states."""
        rule = self.setup.optimizer
        return rule.kept(self.cut.size) * self.setup.master // 4 + self.begun

    def rounding(self) -> int:
        """Masters, their gradients, and what stages them."""
        setup, sizes = self.setup, [cut.size for _, cut, _ in self.groups]
        if not setup.offloads:
            return 0
        blocks = [setup.master * size for size in sizes] * (setup.pins_optimizer or setup.ways.pins_masters)
        if setup.pins_optimizer:
            blocks += [*(setup.master * size for size in sizes), setup.width * self.largest]
            blocks += [setup.width * size for size in sizes] * setup.ways.stages_half
        if setup.pins_optimizer and self._accumulates_on_host:
            blocks += [setup.width * count for count in self._accumulated]
        return rounding(blocks)

    @property
    def _accumulates_on_host(self) -> bool:
        setup = self.setup
        sends = setup.stage == 2 or setup.selection or setup.ways.accumulates_on_host
        return bool(sends) and setup.accumulation > 1

    @property
    def _accumulated(self) -> list[int]:
        """Elements of each gradient that is accumulated there."""
        own = self.matrices.intersection(self.cut.own) if self.compact else self.cut.own
        return [weight.elements for weight in own]


# Stages 1 and 2: flat weights, a piece of masters and states for each rank (`stage_1_and_2.py`).


class Sharded(Flattened):
    """`DeepSpeedZeroOptimizer` of stages 1 and 2."""

    # ------------------------------------------------------------ backward
    def begin(self) -> None:
        """`backward_prologue`."""
        if self.setup.ways.early_buckets:
            self._set_up()

    def gradient(self, weight: Weight, count: int) -> None:
        """`process_gradients`: a bucket is filled, and reduced when the next does not fit."""
        self._set_up()
        setup = self.setup
        if self.casts or self.lists:
            self.ledger.take(GRADIENTS, setup.gradient * weight.elements)
            self.ledger.give(GRADIENTS, count)
            count = setup.gradient * weight.elements
        if weight in self.there:
            self.ledger.give(GRADIENTS, count)
        else:
            self.there[weight] = count
        if setup.stage == 2 or (setup.overlap and self.sends):
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
        kinds = {2 if weight.linear else 4 for weight in self.trained} if setup.autocast else {setup.sent}
        self.buckets = {kind: [] for kind in kinds}
        self.filled = dict.fromkeys(kinds, 0)
        if setup.contiguous:
            self.bucket_bytes = self.buffer_width * setup.bucket * (2 if setup.overlap else 1) * len(kinds)
            self.ledger.take(BUCKET, self.bucket_bytes)

    @property
    def buffer_width(self) -> int:
        """Bytes of an element of the bucket (`_gradient_reduction_buffer_dtype`)."""
        setup = self.setup
        return setup.gradient if self.casts else setup.width

    def kind_of(self, weight: Weight) -> int:
        """Which bucket it goes to, by the width of its type."""
        if self.setup.autocast:
            return 2 if weight.linear else 4
        return self.setup.sent

    def reduce_ready(self, weight: Weight) -> None:
        """`reduce_independent_p_g_buckets_and_remove_grads`."""
        setup, kind = self.setup, self.kind_of(weight)
        if self.filled[kind] + weight.elements > setup.bucket:
            for each in sorted(self.buckets) if setup.ways.flushes_all else (kind,):
                self.reduce(each)
        if setup.contiguous and weight.elements <= setup.bucket:
            self.ledger.give(GRADIENTS, self.there.pop(weight))
        elif setup.offloads and not setup.selection:  # cloned, so that nothing else writes there
            self.ledger.touch(GRADIENTS, self.there[weight])
        self.buckets[kind].append(weight)
        self.filled[kind] += weight.elements

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
                self.ledger.give(GRADIENTS, self.there.pop(weight))
        self.buckets[kind], self.filled[kind] = [], 0

    def _average(self, weights: list[Weight], kind: int) -> None:
        """`average_tensor`: stretches for several ranks are flattened into one tensor first."""
        setup, ledger = self.setup, self.ledger
        width, total = self.buffer_width, sum(weight.elements for weight in weights)
        for index, (members, cut, _) in enumerate(self.groups if self.compact else ()):
            if index not in self.compact_held and self.mine & set(weights) & set(members) - self.matrices:
                self.compact_held[index] = 4 * cut.size
                ledger.take(COMPACT, 4 * cut.size)
        if setup.sequence > 1 and (setup.reduce_scatter or not setup.contiguous):
            kind = 4  # `allreduce_bucket`
        if not setup.reduce_scatter or not setup.contiguous:
            self.send("all_reduce", total, kind)
            if not setup.contiguous and len(weights) > 1:
                ledger.take(FLATTENED, width * total)
            if kind != width or setup.retyped:
                ledger.touch(FLATTENED, kind * total)
            if not setup.contiguous and len(weights) > 1:
                ledger.give(FLATTENED, width * total)
            return
        found = slices(self.piece_of.__getitem__, weights, not self.compact, self.matrices)
        for experts in dict.fromkeys(expert for _, _, expert in found):
            goals: dict[int, list[tuple[int, int]]] = {}
            for to, count, expert in found:
                if expert is experts:
                    goals.setdefault(0 if setup.together else to, []).append((to, count))
            for stretches in goals.values():
                self._in_chunks(stretches, kind, width, experts)

    def _in_chunks(self, stretches: list[tuple[int, int]], kind: int, width: int, experts: bool) -> None:
        """As many at once as fill a bucket (`allreduce_and_scatter`, `allreduce_no_retain`)."""
        chunk: list[tuple[int, int]] = []
        filled = 0
        for index, stretch in enumerate(stretches):
            chunk.append(stretch)
            filled += stretch[1]
            if filled > self.setup.bucket or index == len(stretches) - 1:
                self._all_reduce(chunk, kind, width, experts)
                chunk, filled = [], 0

    def _all_reduce(self, chunk: list[tuple[int, int]], kind: int, width: int, experts: bool) -> None:
        total, flat = sum(count for _, count in chunk), len(chunk) > 1
        name = "all_reduce" if self.setup.together else "reduce"
        self.send(name, total, kind, self.setup.world // (self.tape.experts if experts else 1))
        held = (width * total if flat else 0) + (kind * total if kind != width or self.setup.retyped else 0)
        self.ledger.take(FLATTENED, held)
        if self.compact:  # this rank's are cast, one by one (`_add_to_grad_partition_buffer`)
            ranks = {rank for members, _, rank in self.groups if members[0].expert is experts}
            own = (count for to, count in chunk if to in ranks)
            self.ledger.touch(FLATTENED, 4 * max(own, default=0))
        self.ledger.give(FLATTENED, held)

    def _keep(self, weight: Weight) -> None:
        """`copy_grads_in_partition`."""
        setup, ledger = self.setup, self.ledger
        if setup.offloads:
            part = self.cut.parts[weight]
            if self.boundary:
                ledger.touch(TEMPORARY, 8 * part)
                if setup.ways.searches:
                    ledger.touch(TEMPORARY, (7 if setup.width == 4 or self.lists else 11) * weight.elements)
                if setup.width != setup.master:
                    ledger.touch(TEMPORARY, setup.master * part)
                if weight in self.there and not self.lists:
                    ledger.give(GRADIENTS, self.there.pop(weight))
            return
        if (self.compact and weight not in self.matrices) or not setup.contiguous:
            return
        if not self.partial:
            self.partial = setup.width * self.cut.whole
            ledger.take(GRADIENTS, self.partial)
        if weight in self.there and not self.lists:
            ledger.give(GRADIENTS, self.there.pop(weight))

    def after(self) -> None:
        """`reduce_gradients` and `independent_gradient_partition_epilogue`."""
        setup, ledger = self.setup, self.ledger
        if not self.sends:
            return
        if setup.stage == 1 and not setup.overlap:
            for weight in (weight for members, _, _ in self.groups for weight in members):
                self._set_up()
                self.reduce_ready(weight)
        for kind in sorted(self.buckets):
            self.reduce(kind)
        if setup.contiguous and self.ready:
            # What is cast to fp32 stays, as views of the buffers that were filled: of two, one may be empty.
            empty = 2 if setup.overlap and self.reductions < 2 else 1
            self.viewed = self.bucket_bytes // empty if self.casts else 0
            ledger.give(BUCKET, self.bucket_bytes - self.viewed)
        self.ready = False
        self._epilogue()

    def _epilogue(self) -> None:
        """What is left of the gradients is what lies in the partition."""
        ledger = self.ledger
        if self.partial and self.lists:  # nobody reads it
            ledger.give(GRADIENTS, self.partial)
            self.partial = 0
        if self.partial:  # added to those of the micro batches before, if there are any
            if self.kept:
                ledger.give(GRADIENTS, self.partial)
            else:
                self.kept = self.partial
            self.partial = 0
        for weight in list(self.there):
            if weight not in self.mine and self.keeps_others:
                continue
            count = self.there[weight]
            if self.compact or weight not in self.mine or self.setup.offloads:
                ledger.give(GRADIENTS, self.there.pop(weight))
            elif not self.setup.contiguous or self.lists:
                self.there.pop(weight)
                if self.micro and self.setup.stage == 2:  # added to those of the micro batches before
                    ledger.give(GRADIENTS, count)
                else:
                    self.kept += count

    @property
    def keeps_others(self) -> bool:
        """Whether gradients for other ranks stay until the step: nobody clears them.

        Of those that are cast one by one, what is larger than a bucket, where it is cloned for the host.
        """
        listed = self.lists and self.setup.stage == 1 and self.setup.ways.keeps_others
        return listed or (self.casts and self.setup.offloads)

    # ------------------------------------------------------------ step
    def step(self) -> None:
        """The norm, one flat gradient in the masters' type, the update."""
        setup, ledger = self.setup, self.ledger
        if setup.norms and not setup.offloads:
            searched = setup.overflows and setup.ways.searches
            for count in self.cut.parts.values():
                ledger.touch(TEMPORARY, (11 if searched else 8) * count)
        last = len(self.groups) - 1  # gradients of all groups are one tensor
        for index, (_, cut, _) in enumerate(self.groups):
            self.update_group(cut, index, self.kept if index == last else 0)
        self.kept = 0
        for members, cut, _ in self.groups:
            if self.ranks_of(members[0]) > 1:
                self.send("all_gather", cut.padded, setup.width, self.ranks_of(members[0]))
        if self.casts and setup.contiguous:
            ledger.give(BUCKET, self.viewed)
        if self.keeps_others or (self.casts and setup.contiguous):
            ledger.give(GRADIENTS, sum(self.there.values()))  # `zero_grad`
            self.there.clear()

    def update_group(self, cut: Partition, index: int, kept: int, *, steps: bool = True) -> None:
        """Of one group; `kept`: bytes of its gradients; `steps`: with what the optimizer needs."""
        setup, ledger, size = self.setup, self.ledger, cut.size
        compact = self.compact_held.pop(index, 0)
        if setup.offloads or compact:
            self.update(size * steps, size * steps, host=setup.offloads)
            ledger.give(COMPACT, compact)
            ledger.give(GRADIENTS, kept if setup.offloads else 0)
            return
        flat = setup.gradient * size
        copies = len(cut.parts) > 1 or sum(cut.parts.values()) < size
        full = setup.master * size if setup.gradient != setup.master else 0
        held = (full or flat) if copies or full else 0
        ledger.take(TEMPORARY, flat if copies else 0)
        if full:
            ledger.take(TEMPORARY, full)
            ledger.give(TEMPORARY, flat if copies else 0)
        if held:
            ledger.give(GRADIENTS, kept)
        self.update(size * steps, size * steps)
        ledger.give(TEMPORARY, held)
        if not held:
            ledger.give(GRADIENTS, kept)


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
        copy = setup.width * weight.elements
        if setup.stage == 1 and not setup.overlap:  # its caller has one too
            ledger.take(GRADIENTS, copy - self.asked)
            self.asked = copy
        ledger.take(GRADIENTS, copy)
        if self.filled[kind] + weight.elements > setup.bucket:
            self.reduce(kind)
        if weight.elements > setup.bucket:
            self.large = copy
        else:
            ledger.give(GRADIENTS, copy)
        self.buckets[kind].append(weight)
        self.filled[kind] += weight.elements

    def reduce(self, kind: int) -> None:
        """Of what is too large there is one more copy."""
        self.ledger.take(GRADIENTS, self.large)
        super().reduce(kind)
        self.ledger.give(GRADIENTS, 2 * self.large)
        self.large = 0

    def after(self) -> None:
        """The last copy goes with its loop."""
        super().after()
        self.ledger.give(GRADIENTS, self.asked)
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
    if setup.is_whole or setup.stage == 3 or setup.accumulates:
        return
    _refuse_overlap(setup)
    retyped = setup.sent != setup.width or setup.retyped
    if setup.autocast or retyped:
        trained = [weight for weight in tape.weights if weight.trains]
        sent = [weight for weight in trained if weight.linear] if setup.autocast else trained
        _refuse_bucket(setup, sent, retyped)


def _refuse_overlap(setup: Setup) -> None:
    """Gradients in another type come after the pass in which `overlap_comm` sends them (DSC418)."""
    late = setup.stage == 1 and setup.gradient != setup.width and setup.ways.raises_late
    if late and setup.overlap and setup.accumulation == 1:
        what = "gradients are sent before they are there in the type that they accumulate in"
        told = "remove it, or upgrade DeepSpeed to 0.16.5 or later"
        raise NotModelledError(f"DeepSpeed stops with `{ZERO}overlap_comm`: {what}", told)


def _refuse_bucket(setup: Setup, sent: Sequence[Weight], retyped: bool) -> None:
    """What is looked up by the type of the model is not found (DSC411).

    Sources: `runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.reduce_ipg_grads`, which looks for what is
    larger than a bucket; `runtime/base_optimizer.py:ZeROOptimizer.report_ipg_memory_usage`, as one is full.
    """
    total, stops = sum(weight.elements for weight in sent), f"DeepSpeed stops with `{KEY}` {setup.bucket:,}"
    if retyped and setup.ways.reports_own_type and total > setup.bucket:
        raise NotModelledError(f"{stops}: the {total:,} gradients fill it more than once", _OUT)
    most = max(sent, key=lambda weight: weight.elements, default=None)
    if setup.ways.seeks_own_type and setup.contiguous and most and most.elements > setup.bucket:
        what = f"`{most.name}` has {most.elements:,} elements, and its gradient is sent in another format"
        raise NotModelledError(f"{stops}: {what}", _OUT)
