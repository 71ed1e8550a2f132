"""`PartitionedParameterCoordinator` of stage 3: fetch, prefetch and release of gathered parameters."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from itertools import accumulate

from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Module, Tape, Weight, module_visits, modules_never_left, recomputed_modules
from dsconfig.memory.memory_ledger import Ledger
from dsconfig.memory.quantized_gather import part, refuse_uneven
from dsconfig.memory.verdict import NotModelledError

# Stage 3's coordinator: which parameters are gathered when, and which are kept.
#
# DeepSpeed's `partitioned_param_coordinator.py`, as it goes from the second step on.

GATHERED, RECEIVE = "gathered parameters", "receive buffers"
SECONDARY = "secondary partition"
UPGRADE = "upgrade DeepSpeed to 0.17.5 or later"


class Coordinator:
    """The state of one pass, in a run whose order of modules is known from the passes before."""

    def __init__(
        self,
        setup: Setup,
        tape: Tape,
        ledger: Ledger,
        kept: set[Weight],
        send: Callable[[str, int, int, int], None],
        ranks_of: Callable[[Weight], int],
    ) -> None:
        self.setup, self.ledger, self.kept = setup, ledger, kept
        self.third = setup.stage3
        self.send, self.ranks_of = send, ranks_of
        self._order(tape)
        self.there: dict[Weight, Block] = {}
        """Gathered and ready."""
        self.held: dict[Weight, list[Block]] = {}
        """What the graph keeps views of, the oldest first."""
        self.flying: dict[Weight, Batch] = {}
        self.active: dict[Weight, set[int]] = {}
        self.owner: int | None = None
        self.owned: dict[int, set[Weight]] = {}
        """Frozen weights that are gathered to compute again what a module on the way back needs."""
        self.secondary: dict[Weight, int] = {}
        """Parts of a copy among the ranks of a node, in bytes: made as a parameter is partitioned again."""
        self.home: frozenset[Weight] = frozenset()
        """What lies on a drive between its uses."""
        self.away: set[Weight] = set()
        """What lies there now."""
        self.buffers = self.available = 0
        self.whole = kept
        """What is whole as a pass begins, and is never gathered."""
        self.chosen: dict[tuple[int, int], set[Weight]] = {}
        """What a module lets go of at each of its turns, once for all (`lru_cache`)."""
        self.rehearses = False
        self.reset()
        if setup.quirks.resets_count_after_backward:  # and the step let go of these
            self.available = -sum(weight.numel for weight in kept | self.left())

    def _order(self, tape: Tape) -> None:
        """Which modules come after one another, and what each of them needs."""
        setup = self.setup
        self.leaves, self.inner = leaves_of(tape, setup.leaf_classes)
        self.weights_of = [self.leaves.get(module.number, module.params_to_fetch) for module in tape.modules]
        twice = setup.quirks.miscounts_recomputed_modules and not setup.use_reentrant
        self.counted = frozenset(recomputed_modules(tape.steps) if twice else ())
        """Modules that count a pass that is computed again, and never come back to zero."""
        self.visits = module_visits(tape.steps, self.counted)
        entered = [visit.module for visit in self.visits if visit.is_entry]
        self.order = [module for module in entered if module.number not in self.inner]
        self.trace = [
            (weight, number)
            for number, module in enumerate(self.order)
            if self.weights_of[module.number]  # most have none
            for weight in sorted(self.weights_of[module.number], key=lambda found: found.number)
        ]
        self.shallow = Coming(module.params_to_fetch for module in self.order)
        inside = below(tape) if self.leaves else {}
        self.deep = Coming(inside[module.number] for module in self.order if inside)

    def left(self) -> set[Weight]:
        """What no hook lets go of in a backward pass."""
        over = (self.weights_of[module.number] for module in modules_never_left(self.visits))
        return {weight for own in over for weight in own}

    def rehearsed(self) -> dict[tuple[int, int], set[Weight]]:
        """What the first pass that knows its order chooses to let go of: the second of the first step.

        The first has let go of all that hooks let go of, of what persists too.
        """
        first = copy(self)
        first.rehearses = True
        first.ledger, first.send, first.whole, first.chosen = Ledger(), lambda *_: None, set(), {}
        first.there = (
            {weight: Block(0) for weight in self.left()} if self.setup.quirks.keeps_unreleased_params else {}
        )
        first.flying, first.active, first.owned, first.secondary = {}, {}, {}, {}
        first.away = set(self.home)
        first.reset()
        if self.setup.quirks.counts_across_micro_batches:
            first.available = sum(weight.numel for weight in first.there)
        for visit in self.visits:
            first.owner = visit.recomputed_for if self.setup.quirks.releases_recomputed_params else None
            (first.fetch if visit.is_entry else first.release)(visit.module.number)
        return first.chosen

    def drive(self, home: frozenset[Weight], buffers: int) -> None:
        """These lie on a drive, and so many of them can be in memory at once."""
        self.home, self.away, self.buffers = home, set(home), buffers

    def reset(self) -> None:
        """A forward pass begins."""
        self.queue = deque(self.trace)
        self.recent: dict[Weight, int] = {}
        self.number = 0
        if not self.setup.quirks.counts_across_micro_batches:
            self.available = 0

    # ------------------------------------------------------------ fetch
    def fetch(self, module: int) -> None:
        """Gather what a module needs, then what the next ones will."""
        if module in self.inner:
            return
        if own := self.weights_of[module]:  # most modules have none
            if absent := list(filter(self._absent, own)):
                self._gather(absent)
            self._arrive(module, own)
        if self.third.prefetch_bucket_size > 0:
            self._prefetch()
        self.number += 1

    def _arrive(self, module: int, own: Sequence[Weight]) -> None:
        """Wait for what a module needs, and go on in the order of what is known to come."""
        for weight in own:
            active = self.active.setdefault(weight, set())
            active.add(module)
            if self.owner is not None and not weight.requires_grad:
                owner = self.inner.get(self.owner, self.owner)
                self.owned.setdefault(owner, set()).add(weight)
                active.add(owner)
            if weight in self.flying:
                self._wait(weight)
        missing = {weight for weight in own if self.recent.get(weight, -1) < self.number}
        while self.queue and missing:
            weight, step = self.queue.popleft()
            self.recent[weight] = step
            missing.discard(weight)

    def _prefetch(self) -> None:
        most = min(self.third.max_live_parameters - self.available, self.third.prefetch_bucket_size)
        chosen: dict[Weight, None] = {}
        count = 0
        while self.queue and count < most and self.queue[0][0] not in self.away:
            weight, step = self.queue.popleft()
            self.recent[weight] = max(self.recent.get(weight, -1), step)
            if weight not in chosen and self._absent(weight):
                chosen[weight] = None
                count += weight.numel
        if chosen:
            self._gather(list(chosen))
        free = self.buffers - len(self.home) + len(self.away)
        if self.away and free > 0:
            flying = sum(weight.numel for weight in self.flying)
            self.away -= read_ahead((weight for weight, _ in self.queue), self.away, flying, free)

    def _absent(self, weight: Weight) -> bool:
        return not (weight in self.there or weight in self.flying or weight in self.whole)

    def _gather(self, weights: list[Weight]) -> None:
        """`all_gather_coalesced`: of one parameter in place, of several into a buffer for each type."""
        places = list(dict.fromkeys(map(self.setup.gather_group, weights)))
        if len(places) > 1:  # a call for each group of ranks
            for place in places:
                self._gather([weight for weight in weights if self.setup.gather_group(weight) == place])
            mates = list(dict.fromkeys(self.flying[weight] for weight in weights))
            for batch in mates:
                batch.mates = mates
            return
        second = [weight for weight in weights if weight in self.secondary]
        if second and len(second) < len(weights):
            self._gather([weight for weight in weights if weight not in self.secondary])
            self._gather(second)
            return
        world = self.ranks_of(weights[0])
        if self.setup.quantized_weights and self.setup.hpz_size > 1 and not self.rehearses:
            refuse_uneven(self.setup, weights, bool(second))
        self.away.difference_update(weights)
        self.available += sum(weight.numel for weight in weights)
        kinds: dict[int, list[Weight]] = {}
        for weight in sorted(weights, key=lambda found: found.number):
            kinds.setdefault(self._width_sent(weight), []).append(weight)
        if len(kinds) > 1 and world > 1 and self.setup.quirks.gathers_each_dtype_twice:
            why = "parameters of two types that come together are gathered twice"
            raise NotModelledError(f"DeepSpeed stops with `torch_autocast` at stage 3: {why}", UPGRADE)
        mates, alone = list[Batch](), len(weights) == 1
        for itemsize, members in kinds.items():
            buffer = sum(-(-weight.numel // world) * world for weight in members) * itemsize
            if world == 1:
                buffer = 0
            if buffer:
                ranks = self.setup.hpz_size if second else world
                self.send("all_gather", buffer // itemsize, itemsize, ranks)
            self.ledger.allocate(GATHERED if alone else RECEIVE, buffer)
            mates.append(Batch(members, buffer, alone))
            mates[-1].mates = mates
            self.flying.update(dict.fromkeys(members, mates[-1]))

    def _width_sent(self, weight: Weight) -> int:
        if self.setup.quantized_weights:
            return 1
        return 2 if self.setup.autocast and weight.is_linear else self._width(weight)

    def _width(self, weight: Weight) -> int:
        return 4 if weight.stays_fp32 else self.setup.itemsize

    def _wait(self, weight: Weight) -> None:
        """The first that is waited for cuts the buffer into copies; the last lets go of it."""
        batch = self.flying.pop(weight)
        if weight not in self.there:
            for mate in batch.mates:
                self._cut(mate)
        batch.left -= 1
        if not any(mate.left for mate in batch.mates):
            self.ledger.free(RECEIVE, sum(mate.buffer for mate in batch.mates if not mate.alone))

    def _cut(self, batch: Batch) -> None:
        one = self.ranks_of(batch.weights[0]) == 1
        if self.setup.quantized_weights and not batch.alone:  # all of them in fp16 (`dequantize`)
            self.ledger.allocate(RECEIVE, 2 * batch.buffer)
            batch.buffer *= 3
        for weight in batch.weights:
            itemsize = self._width(weight)
            size = 0 if one else weight.numel * itemsize
            if not batch.alone or self._width_sent(weight) != itemsize:
                self.ledger.allocate(GATHERED, size)
                if not one and (self.setup.quantized_weights or not batch.alone):
                    self.ledger.allocate_briefly(GATHERED, weight.numel * self._before_its_type(weight))
                if batch.alone:
                    self.ledger.free(GATHERED, batch.buffer)
            elif not one:
                size = batch.buffer
            self.there[weight] = Block(size)

    def _before_its_type(self, weight: Weight) -> int:
        """Bytes of an element as it arrives, where it is cast then; kernels give back fp16."""
        if self.setup.quantized_weights:
            return 0 if self.setup.half_dtype == "fp16" else 2
        sent = self._width_sent(weight)
        return sent if sent != self._width(weight) else 0

    # ------------------------------------------------------------ release
    def release(self, module: int) -> None:
        """Let go of what is not needed again soon, and of what was gathered for this module alone."""
        if module in self.inner:
            return
        own, turn = self.weights_of[module], (module, self.number)
        if own and turn not in self.chosen:
            self.chosen[turn] = self._going(module)
        going = self.chosen[turn] if own else ()
        for weight in own:
            self.active.get(weight, set()).discard(module)
            if weight in going:
                self.drop(weight)
        for weight in () if self.owner is not None else self.owned.pop(module, ()):
            self.active[weight].discard(module)
            if weight not in self.kept:
                self.drop(weight)

    def _going(self, module: int) -> set[Weight]:
        """`__params_to_release`."""
        # it looks into what comes as deep as into what it lets go of
        ahead, number = self.deep if module in self.leaves else self.shallow, self.number
        return {
            weight
            for weight in self.weights_of[module]
            if weight not in self.kept
            and self.recent.get(weight, -1) <= number
            and not ahead.soon(weight, number, self.third.max_reuse_distance)
        }

    def drop(self, weight: Weight) -> None:
        """Partition a parameter again, unless a module is at work with it."""
        if weight in self.there and not self.active.get(weight):
            self.keep_second(weight)
            self._let_go(self.there.pop(weight))
            if weight in self.home:
                self.away.add(weight)
            self.available -= weight.numel

    def hold(self, weight: Weight) -> None:
        """A view of a gathered parameter is kept."""
        if weight in self.there:
            self.there[weight].owners += 1
            self.held.setdefault(weight, []).append(self.there[weight])

    def unhold(self, weight: Weight) -> None:
        """It is kept no longer."""
        if self.held.get(weight):
            self._let_go(self.held[weight].pop())

    def _let_go(self, block: Block) -> None:
        block.owners -= 1
        if not block.owners:
            self.ledger.free(GATHERED, block.bytes)

    def keep_second(self, weight: Weight) -> None:
        """`_partition_param_sec`."""
        ranks, world = self.setup.hpz_size, self.setup.dp_world_size
        if ranks > 1 and world > 1 and weight not in self.secondary:
            self.secondary[weight] = part(weight.numel, world, ranks) * self.setup.itemsize
            self.ledger.allocate(SECONDARY, self.secondary[weight], host=self.setup.offloads_params)

    def partition(self) -> None:
        """The step partitions what is whole (`_partition_all_parameters`)."""
        self.finish()
        if self.setup.quirks.counts_across_micro_batches:
            self.available = 0
        for weight in self.kept:
            self.keep_second(weight)

    def expire(self) -> None:
        """The second copy is forgotten (`invalidate_secondary_tensor`)."""
        self.ledger.free(SECONDARY, sum(self.secondary.values()), host=self.setup.offloads_params)
        self.secondary.clear()

    def finish(self) -> None:
        """A backward pass is over: what was not released is (`release_backward_leftovers`, `reset_step`)."""
        for weight in list(self.flying):
            self._wait(weight)
        self.active.clear()
        self.owned.clear()
        for weight in list(self.there):
            self.drop(weight)


# What stage 3 gathers: parameters by one call, and the memory of each.


class Batch:
    """Parameters gathered by one call, and the buffer that they arrive in."""

    __slots__ = ("alone", "buffer", "left", "mates", "weights")

    def __init__(self, weights: Sequence[Weight], buffer: int, alone: bool) -> None:
        self.weights, self.left, self.buffer, self.alone = tuple(weights), len(weights), buffer, alone
        """`alone`: whether the call is for one parameter, which stays where it arrives."""
        self.mates = [self]
        """Those of other types or groups of ranks, waited for with it (`MultipleAllGatherHandles`)."""


class Block:
    """The memory of a gathered parameter, and how many have it: the parameter, and views in the graph."""

    __slots__ = ("bytes", "owners")

    def __init__(self, count: int) -> None:
        self.bytes, self.owners = count, 1


# Modules that stage 3 gathers whole, with all that is in them (`leaf_module`).


def leaves_of(tape: Tape, kinds: Sequence[str]) -> tuple[dict[int, tuple[Weight, ...]], dict[int, int]]:
    """Leaves fetch all that is in them, and modules in them nothing: these, with the leaf that each is in."""
    leaves = {
        module.name: module.number
        for module in tape.modules
        if module.class_name and module.class_name in kinds
    }
    if not leaves:
        return {}, {}
    weights, inner = below(tape), dict[int, int]()
    for module in tape.modules:
        for name in _around(module):
            if name and name in leaves:
                inner[module.number] = leaves[name]
    return {number: weights[number] for number in leaves.values()}, inner


class Coming:
    """When modules that are entered one after the other need a parameter."""

    def __init__(self, parameters: Iterable[tuple[Weight, ...]]) -> None:
        self.places: dict[Weight, list[int]] = {}
        """Of each parameter, the turns at which it is needed."""
        self.before = [0]
        """Elements of all that is needed before each turn."""
        for turn, weights in enumerate(parameters):
            for weight in weights:
                self.places.setdefault(weight, []).append(turn)
            self.before.append(self.before[-1] + sum(weight.numel for weight in weights))

    def soon(self, weight: Weight, turn: int, reach: int) -> bool:
        """Whether it is needed from this turn on, before so many elements are."""
        places = self.places.get(weight, [])
        place = bisect_left(places, turn)
        return place < len(places) and self.before[places[place]] - self.before[turn] < reach


def below(tape: Tape) -> dict[int, tuple[Weight, ...]]:
    """The parameters of each module, by its number, and of all that are in it."""
    numbers = {module.name: module.number for module in tape.modules}
    found = {module.number: list[Weight]() for module in tape.modules}
    for module in tape.modules:
        if module.weights:
            for number in (module.number, *(numbers[name] for name in _around(module) if name in numbers)):
                found[number] += module.weights
    return {number: tuple(weights) for number, weights in found.items()}


def _around(module: Module) -> Iterator[str]:
    """The names of the modules that it is in, from the whole model on."""
    if module.name:
        yield ""
        yield from list(accumulate(module.name.split("."), "{}.{}".format))[:-1]


# What stage 3 reads from NVMe before it is gathered (`partitioned_param_coordinator.py`).


def read_ahead(queue: Iterable[Weight], away: Collection[Weight], flying: int, free: int) -> set[Weight]:
    """Shards of what comes next, up to twice what is being gathered (`__prefetch_nvme_param_partitions`).

    `queue` are weights in the order in which modules want them, `away` those on the drive, `flying` the
    elements that are being gathered, and `free` the buffers that are left.

    Raises:
        NotModelledError: a weight comes twice, which DeepSpeed does not look for
            (`AsyncPartitionedParameterSwapper._allocate_and_return_buffers_for_swap_in`).
    """
    chosen, considered = set[Weight](), 0
    for weight in queue:
        if considered > 2 * flying or len(chosen) >= free:
            break
        if weight in chosen:
            raise NotModelledError(
                f"DeepSpeed stops in the second step: `{weight.name}` is read from NVMe twice, as forward and"
                " backward want it",
                "give a lower `zero_optimization.stage3_prefetch_bucket_size`",
            )
        if weight in away:
            chosen.add(weight)
        considered += weight.numel
    return chosen
