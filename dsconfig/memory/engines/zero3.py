"""The memory of a step of ZeRO stage 3: each rank has a shard of every parameter, gradient and optimizer state.

`zero3_state` says what lies where between two steps. Source: deepspeed runtime/zero/stage3.py.
"""

from __future__ import annotations

from dsconfig.memory.engines.base import CONSOLIDATED, FLATTENED, GRADIENTS, SAVE, TEMPORARY
from dsconfig.memory.engines.param_coordinator import GATHERED
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero3_state import PERSISTENT, Placed
from dsconfig.memory.graph import SUMMED, Module, Tape, Weight
from dsconfig.memory.memory_ledger import Ledger

NORMED = 250_000_000
"""Elements of a gradient whose norm is taken at once."""


class Partitioned(Placed):
    """`DeepSpeedZeroOptimizer_Stage3` with its parameter coordinator."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        leaves = self.coordinator.leaves.items()
        self.leaf_of = {weight: number for number, weights in leaves for weight in weights}
        self.delayed: dict[int, dict[Weight, int]] = {}
        """Gradients of leaf modules whose backward pass is going on, in bytes."""

    def save(self) -> None:
        """Gather each module, and let rank 0 copy it (`_zero3_consolidated_16bit_state_dict`)."""
        setup, ledger = self.setup, self.ledger
        if not setup.saves or setup.experts:  # DeepSpeed raises for those that share experts
            return
        ledger.enter(SAVE)
        ledger.give(PERSISTENT, self.persisting)
        whole = 0
        for module in self.tape.modules:
            own = [weight for weight in module.weights if weight.module == module.number]  # none that is tied
            count = self.gathered(module.weights)
            ledger.take(GATHERED, count)
            alone = len(module.weights) == 1  # several arrive in place (`_allgather_params_coalesced`)
            ledger.touch(GATHERED, count if setup.ways.gathers_beside and alone else 0)
            count += self._put_together(module)
            made = setup.width * sum(weight.elements * weight.parts for weight in own)
            saved = 0 if setup.rank else made
            whole += saved
            if not setup.apart:  # it is no copy
                ledger.give(GATHERED, count)
            ledger.take(CONSOLIDATED, saved, host=True)
            if setup.apart:
                ledger.give(GATHERED, count)
            for weight in own:
                self.coordinator.keep_second(weight)
        if setup.ways.forgets_second:
            self.coordinator.expire()
        self.gather_persistent()
        ledger.give(CONSOLIDATED, whole, host=True)

    def _put_together(self, module: Module) -> int:
        """Bytes of a layer that ranks share (`GatherReplacedLayerParams`); columns are copied once more."""
        cut = [weight for weight in module.weights if weight.parts > 1]
        count = sum(self.width_of(weight) * weight.elements * weight.parts for weight in cut)
        self.ledger.take(GATHERED, count)
        if module.name.endswith(SUMMED):
            self.ledger.touch(GATHERED, count)
        return count

    # ------------------------------------------------------------ passes
    def before(self) -> None:
        """`reset_step`, which releases before 0.15.4 call as the backward pass ends."""
        coordinator = self.coordinator
        if self.setup.accumulation > 1 and not coordinator.chosen:
            coordinator.chosen = coordinator.rehearsed()
        if not self.setup.ways.counts_on:
            coordinator.reset()

    def enter(self, number: int, forward: bool) -> None:  # noqa: ARG002
        """Fetch."""
        self.coordinator.fetch(number)

    def leave(self, number: int, forward: bool) -> None:
        """Release; the gradients of a leaf module come when its backward pass is over, in their order."""
        if number in self.delayed and not forward:
            waiting = self.delayed.pop(number)
            for weight in sorted(waiting, key=lambda found: found.number):
                self._bucket(weight, waiting[weight])
        if forward or number not in self.coordinator.counted:
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
        """`reduce_partition_and_remove_grads`, or later `reduce_leaf_module_grads`."""
        leaf = self.leaf_of.get(weight)
        if leaf is None:
            self._bucket(weight, count)
        else:
            self.delayed.setdefault(leaf, {})[weight] = count

    def _bucket(self, weight: Weight, count: int) -> None:
        """`reduce_independent_p_g_buckets_and_remove_grads`."""
        setup = self.setup
        kind = (2 if weight.linear else 4) if setup.autocast else next(iter(self.buckets))
        filled = self.filled[kind] + weight.elements > setup.bucket
        if self.buckets[kind] and (filled or setup.place(self.buckets[kind][-1]) != setup.place(weight)):
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
        total, world = sum(weight.elements for weight in weights), self.ranks_of(weights[0])
        shards = sum(self.shard(weight) for weight in weights)
        if setup.quantised_gradients and world > setup.node > 0:
            self.reduce_quantised(kind)
            return
        whole = setup.contiguous and total <= setup.bucket and not setup.reduce_scatter
        sent = kind if setup.ways.typed_buckets else setup.sent
        casts = sent != kind or (setup.retyped and not setup.ways.typed_buckets)
        raises = setup.gradient != sent or setup.retyped
        name = "all_reduce" if whole else "reduce_scatter"
        self.send(name, total if whole else shards * world, sent, world)
        copy = flat = 0
        if whole:
            cast = sent * total if casts else 0
            scaled = 0 if setup.postscale in (None, world) else sent * total  # `mul`, by 1 mostly
            raised = setup.gradient * total if raises else 0
            copy, flat = max(cast + scaled, (scaled or cast) + raised), raised or scaled or cast
        else:
            if casts:
                copy += sent * total
            elif kind != setup.width or setup.retyped:  # what lies in the bucket has its type
                copy += kind * sum(weight.elements for weight in weights if weight in self.there)
            if len(weights) > 1 or total % world:
                flat = sent * shards * world
                copy += flat
            if raises:
                flat = setup.gradient * shards  # and not views of it
                copy += flat
            if weights[0].expert and self.tape.experts > 1:  # they are divided by the number of all ranks
                copy += sent * shards
        ledger.touch(FLATTENED, copy)
        ledger.take(FLATTENED, flat)  # the shards are views of it
        self.hand_over(weights)
        ledger.give(FLATTENED, flat)
        self.buckets[kind] = []
        if not setup.ways.never_empties:
            self.filled[kind] = 0

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
        if self.setup.ways.counts_on:
            self.coordinator.reset()

    # ------------------------------------------------------------ step
    def orthogonalise(self) -> None:
        """What Muon does with gradients before their norm is taken (`orthogonal_shards`)."""

    def step(self) -> None:
        """One sub-group at a time, with nothing gathered."""
        setup, ledger = self.setup, self.ledger
        self.coordinator.partition()
        ledger.give(PERSISTENT, self.persisting)
        if setup.overflows:
            ledger.touch(TEMPORARY, (setup.gradient + 1) * self.shards_trained, host=setup.offloads)
        self.orthogonalise()
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
        self.gather_persistent()
        for weight in sorted(self.kept, key=lambda found: found.number):
            if (ranks := self.ranks_of(weight)) > 1:
                self.send("all_gather", self.aligned(weight), self.width_of(weight), ranks)
