"""Stage 3: a shard of every parameter, and of everything else (`stage3.py`)."""

from __future__ import annotations

from dsconfig.sizing.engines.base import (
    BUCKET,
    BUILT,
    CONSOLIDATED,
    FLATTENED,
    GRADIENTS,
    MASTER,
    SAVE,
    STATES,
    TEMPORARY,
    WEIGHTS,
)
from dsconfig.sizing.engines.quantised import Quantised
from dsconfig.sizing.engines.setup import Setup
from dsconfig.sizing.engines.shards import persistent, sub_groups
from dsconfig.sizing.engines.trace import GATHERED, SECONDARY, Coordinator
from dsconfig.sizing.ledger import Ledger
from dsconfig.sizing.refused import NotModelledError
from dsconfig.sizing.tape import Tape, Weight

PERSISTENT, OFFLOADED = "persistent parameters", "gradients of the partition, offloaded"
NORMED = 250_000_000
"""Elements of a gradient whose norm is taken at once."""


class Partitioned(Quantised):
    """`DeepSpeedZeroOptimizer_Stage3` with its parameter coordinator."""

    gathers = True

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        leaf = any(module.kind in setup.leaves for module in tape.modules if module.kind)
        if setup.secondary > 1 and (leaf or len(self.trained) < len(tape.weights)):
            told = "with frozen weights or experts as leaf modules"
            raise NotModelledError(f"`zero_optimization.zero_hpz_partition_size` {told} is not modelled")
        self.kept = persistent(setup.third, tape.weights)
        self.coordinator = Coordinator(setup, tape, ledger, self.kept, self.send)
        self.groups = sub_groups(setup.third, [self.shard(weight) for weight in self.trained])
        self.bytes = sum(map(self.bytes_of, tape.weights))
        self.shards_trained = sum(map(sum, self.groups))
        sent = setup.sent if setup.ways.typed_buckets else setup.width
        kinds = {2 if weight.linear else 4 for weight in self.trained} if setup.autocast else {sent}
        self.buckets = {kind: [] for kind in kinds}
        self.filled = dict.fromkeys(kinds, 0)
        self.there = {}

    def width_of(self, weight: Weight) -> int:
        """Bytes of an element: adapters may be in fp32."""
        return 4 if weight.full else self.setup.width

    def bytes_of(self, weight: Weight) -> int:
        """Bytes of a rank's part."""
        return self.width_of(weight) * self.shard(weight)

    def on_host(self, index: int) -> bool:
        """Whether a sub-group is offloaded (`subgroup_to_device`)."""
        return self.setup.offloads and index >= int((1 - self.setup.ratio) * len(self.groups))

    # ------------------------------------------------------------ what lies on NVMe: nothing, here
    def swapped(self, index: int) -> bool:  # noqa: ARG002
        """Whether masters and states of a sub-group lie there."""
        return False

    def make_parameter_buffers(self) -> None:
        """What parameters are read into, while it is made."""

    def take_parameter_buffers(self) -> None:
        """And from then on."""

    def take_optimizer_buffers(self) -> None:
        """What masters, states and gradients are read into."""

    def update_group(self, index: int, count: int, *, host: bool) -> None:  # noqa: ARG002
        """The update of a sub-group of so many elements."""
        self.update(count, count, host=host)

    def write_masters(self, index: int, count: int) -> None:
        """Masters of so many bytes go to the drive."""

    # ------------------------------------------------------------ load
    def load(self) -> None:
        """Shards, then masters group by group, each for a moment twice; each parameter gathered once."""
        setup, ledger = self.setup, self.ledger
        if setup.zero_init:
            self.make_parameter_buffers()
            self._build_in_shards()
        else:
            self.build()
            self.make_parameter_buffers()
            self._cut()
        self._move_shards()
        self.take_optimizer_buffers()
        for index, group in enumerate(self.groups):
            host, count = self.on_host(index), setup.master * sum(group)
            if self.swapped(index):
                self.write_masters(index, count)
                continue
            ledger.touch(MASTER, 2 * count, host=host)
            ledger.take(MASTER, count, host=host)
            if setup.optimizer.doubled:
                ledger.take(STATES, setup.optimizer.states * sum(group), host=host)
        largest = max(map(sum, self.groups), default=0)
        ledger.take(TEMPORARY, setup.master * largest, host=setup.offloads)
        if setup.offloads:  # beside the gradient that is large enough for each
            for index, group in enumerate(self.groups):
                if not self.swapped(index):
                    ledger.take(OFFLOADED, setup.master * sum(group), host=self.on_host(index))
        ledger.give(TEMPORARY, setup.master * largest, host=setup.offloads)
        ledger.take(GRADIENTS, setup.gradient * self.shards_trained, host=setup.offloads)
        if setup.contiguous:
            for kind in self.buckets:
                ledger.take(BUCKET, kind * setup.bucket)
        biggest = max((self.shard(weight) * setup.world for weight in self.trained), default=0)
        ledger.touch(GATHERED, setup.width * biggest * (2 if setup.ways.early_buckets else 1))

    def _cut(self) -> None:
        """Each parameter becomes a shard, one after the other (`_convert_to_zero_parameters`)."""
        ledger, width = self.ledger, self.setup.width
        for weight in self.tape.weights:
            ledger.take(WEIGHTS, width * self.shard(weight))
            ledger.give(WEIGHTS, width * weight.elements)

    def _move_shards(self) -> None:
        """All shards go through one buffer (`defragment`), and to the host where they are offloaded."""
        setup, ledger = self.setup, self.ledger
        if setup.secondary > 1:
            aligned = sum(self.shard(weight) * setup.world for weight in self.tape.weights)
            ledger.take(SECONDARY, setup.width * aligned // setup.secondary, host=setup.offloads_parameters)
        moved = sum(map(self.bytes_of, self.trained))
        ledger.touch(WEIGHTS, moved, host=not setup.offloads_parameters)
        if setup.offloads_parameters:
            ledger.give(WEIGHTS, self.bytes)
        self.take_shards()

    def take_shards(self) -> None:
        """Where the shards are from then on."""
        if self.setup.offloads_parameters:
            self.ledger.take(WEIGHTS, self.bytes, host=True)

    def _build_in_shards(self) -> None:
        """`zero.Init`: each module whole for a moment, as it is built and cast."""
        width, built = self.setup.width, self.setup.built
        most = max(
            (sum(weight.elements for weight in module.weights) for module in self.tape.modules), default=0
        )
        most = max(most, self.tape.untied)
        self.ledger.take(WEIGHTS, self.bytes)
        self.ledger.touch(BUILT, (built + (width if width != built else 0)) * most)

    # ------------------------------------------------------------ at rest
    def rest(self) -> None:
        """Shards of weights, masters, states and gradients; the bucket and what persists."""
        setup, ledger = self.setup, self.ledger
        self.take_parameter_buffers()
        if setup.offloads_parameters:
            self.take_shards()
        else:
            ledger.take(WEIGHTS, self.bytes)
        self.take_optimizer_buffers()
        for index, group in enumerate(self.groups):
            host, count = self.on_host(index), sum(group)
            if self.swapped(index):
                continue
            ledger.take(MASTER, setup.master * count, host=host)
            ledger.take(STATES, setup.optimizer.kept(count) * setup.master // 4, host=host)
            if setup.offloads:
                ledger.take(OFFLOADED, setup.master * count, host=host)
        if setup.optimizer.doubled and not setup.zero_init:
            ledger.take(STATES, setup.optimizer.states * self.elements)
        ledger.take(GRADIENTS, setup.gradient * self.shards_trained, host=setup.offloads)
        if setup.contiguous:
            for kind in self.buckets:
                ledger.take(BUCKET, kind * setup.bucket)
        self._gather_persistent()

    def _gather_persistent(self) -> None:
        self.persisting = 0
        if self.setup.world > 1:
            self.persisting = sum(map(self.bytes_of, self.kept)) * self.setup.world
        self.ledger.take(PERSISTENT, self.persisting)

    def save(self) -> None:
        """Gather each module, and let rank 0 copy it (`_zero3_consolidated_16bit_state_dict`)."""
        setup, ledger = self.setup, self.ledger
        if not setup.saves:
            return
        ledger.enter(SAVE)
        ledger.give(PERSISTENT, self.persisting)
        whole = 0
        for module in self.tape.modules:
            own = [weight for weight in module.weights if weight.module == module.number]  # none that is tied
            count = sum(map(self.bytes_of, module.weights)) * setup.world if setup.world > 1 else 0
            ledger.take(GATHERED, count)
            if not setup.rank:
                ledger.take(CONSOLIDATED, setup.width * sum(weight.elements for weight in own), host=True)
                whole += setup.width * sum(weight.elements for weight in own)
            ledger.give(GATHERED, count)
            for weight in own:
                self.coordinator.keep_second(weight)
        if setup.ways.forgets_second:
            self.coordinator.expire()
        ledger.give(CONSOLIDATED, whole, host=True)
        self._gather_persistent()

    # ------------------------------------------------------------ passes
    def before(self) -> None:
        """`reset_step`."""
        self.coordinator.reset()

    def enter(self, number: int, forward: bool) -> None:  # noqa: ARG002
        """Fetch."""
        self.coordinator.fetch(number)

    def leave(self, number: int, forward: bool) -> None:  # noqa: ARG002
        """Release."""
        self.coordinator.release(number)

    def again(self, number: int | None) -> None:
        """What is gathered now goes with this module."""
        self.coordinator.owner = number if self.setup.ways.frees_recomputed else None

    def hold(self, weight: Weight) -> None:
        """What is gathered now stays, though it is released."""
        self.coordinator.hold(weight)

    def unhold(self, weight: Weight) -> None:
        """It stays no longer."""
        self.coordinator.unhold(weight)

    def gradient(self, weight: Weight, count: int) -> None:
        """`reduce_independent_p_g_buckets_and_remove_grads`."""
        setup = self.setup
        kind = (2 if weight.linear else 4) if setup.autocast else next(iter(self.buckets))
        if self.filled[kind] + weight.elements > setup.bucket and self.filled[kind]:
            self._reduce(kind)
        if setup.contiguous and self.filled[kind] + weight.elements <= setup.bucket:
            self.ledger.give(GRADIENTS, count)
        else:
            self.there[weight] = count
        self.buckets[kind].append(weight)
        self.filled[kind] += weight.elements

    def _reduce(self, kind: int) -> None:
        """`__reduce_and_partition_ipg_grads`."""
        setup, ledger, weights = self.setup, self.ledger, self.buckets[kind]
        if not weights:
            return
        total, world = self.filled[kind], setup.world
        shards = sum(self.shard(weight) for weight in weights)
        if setup.quantised_gradients and world > setup.node > 0:
            self.reduce_quantised(kind)
            return
        whole = setup.contiguous and total <= setup.bucket and not setup.reduce_scatter
        sent = kind if setup.ways.typed_buckets else setup.sent
        self.send("all_reduce" if whole else "reduce_scatter", total if whole else shards * world, sent)
        copy = flat = 0
        if whole:
            copy = setup.gradient * total if setup.gradient != kind else 0
        else:
            if sent != kind:
                copy += sent * total
            elif kind != setup.width:  # what lies in the bucket has its type
                copy += kind * sum(weight.elements for weight in weights if weight in self.there)
            if len(weights) > 1 or total % world:
                flat = sent * shards * world
                copy += flat
            if setup.gradient != sent:
                flat = setup.gradient * shards  # and not views of it
                copy += flat
        ledger.touch(FLATTENED, copy)
        ledger.take(FLATTENED, flat)  # the shards are views of it
        self.hand_over(weights)
        ledger.give(FLATTENED, flat)
        self.buckets[kind], self.filled[kind] = [], 0

    def hand_over(self, weights: list[Weight]) -> None:
        """The shards of a bucket go to where the optimizer wants them (`partition_grads`)."""
        for weight in weights:
            if self.setup.offloads and self.boundary:  # its norm, in fp64 (`_constant_buffered_norm2`)
                self.ledger.touch(TEMPORARY, 8 * min(self.shard(weight), NORMED))
            if weight in self.there:
                self.ledger.give(GRADIENTS, self.there.pop(weight))

    def after(self) -> None:
        """The epilogue of a backward pass."""
        for kind in sorted(self.buckets):
            self._reduce(kind)
        if not self.setup.ways.stays_gathered:
            self.coordinator.finish()

    # ------------------------------------------------------------ step
    def step(self) -> None:
        """One sub-group at a time, with nothing gathered."""
        setup, ledger = self.setup, self.ledger
        self.coordinator.partition()
        ledger.give(PERSISTENT, self.persisting)
        if setup.overflows:
            ledger.touch(TEMPORARY, (setup.gradient + 1) * self.shards_trained, host=setup.offloads)
        for group in self.groups:
            if not setup.offloads:
                for shard in group:
                    ledger.touch(TEMPORARY, 8 * shard)
        for index, group in enumerate(self.groups):
            count, host = sum(group), self.on_host(index)
            held = 0
            if not setup.offloads:
                held = setup.master * count
                flat = setup.gradient * count if len(group) > 1 and setup.gradient != setup.master else 0
                if len(group) == 1 and setup.gradient == setup.master:
                    held = 0
                ledger.take(TEMPORARY, flat + held)
                ledger.give(TEMPORARY, flat)
            self.update_group(index, count, host=host)
            ledger.give(TEMPORARY, held)
        self.coordinator.expire()
        self._gather_persistent()
        if setup.world > 1:
            for weight in self.kept:
                self.send("all_gather", self.shard(weight) * setup.world, self.width_of(weight))
