"""Stages 1 and 2: flat weights, a piece of masters and states for each rank (`stage_1_and_2.py`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import BUCKET, FLATTENED, GRADIENTS, TEMPORARY
from dsconfig.memory.engines.flat_partition import Partition, slices
from dsconfig.memory.engines.zero12_state import COMPACT, Flattened
from dsconfig.memory.graph import Weight


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
