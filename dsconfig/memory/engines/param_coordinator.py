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
from dsconfig.memory.quantized_gather import padded_shard_numel, reject_uneven_gather
from dsconfig.memory.verdict import NotModelledError

# Stage 3's coordinator: which parameters are gathered when, and which are kept.
#
# DeepSpeed's `partitioned_param_coordinator.py`, as it goes from the second step on.

GATHERED, RECEIVE = "gathered parameters", "receive buffers"
SECONDARY = "secondary partition"
UPGRADE = "upgrade DeepSpeed to 0.17.5 or later"


class PartitionedParameterCoordinator:
    """The state of one pass, in a run whose order of modules is known from the passes before."""

    def __init__(
        self,
        setup: Setup,
        tape: Tape,
        ledger: Ledger,
        persistent: set[Weight],
        send: Callable[[str, int, int, int], None],
        ranks_of: Callable[[Weight], int],
    ) -> None:
        self.setup, self.ledger, self.persistent = setup, ledger, persistent
        self.settings = setup.stage3
        self.send, self.ranks_of = send, ranks_of
        self._build_trace(tape)
        self.available: dict[Weight, GatheredBlock] = {}
        """Gathered and ready."""
        self.view_blocks: dict[Weight, list[GatheredBlock]] = {}
        """What the graph keeps views of, the oldest first."""
        self.in_flight: dict[Weight, AllGatherHandle] = {}
        self.active: dict[Weight, set[int]] = {}
        self.recomputing_for: int | None = None
        self.recompute_params: dict[int, set[Weight]] = {}
        """Frozen weights that are gathered to compute again what a module on the way back needs."""
        self.secondary: dict[Weight, int] = {}
        """Parts of a copy among the ranks of a node, in bytes: made as a parameter is partitioned again."""
        self.nvme_params: frozenset[Weight] = frozenset()
        """What lies on a drive between its uses."""
        self.params_on_nvme: set[Weight] = set()
        """What lies there now."""
        self.nvme_buffers = self.n_available_params = 0
        self.always_gathered = persistent
        """What is whole as a pass begins, and is never gathered."""
        self.releases: dict[tuple[int, int], set[Weight]] = {}
        """What a module lets go of at each of its turns, once for all (`lru_cache`)."""
        self.is_rehearsal = False
        self.reset()
        if setup.quirks.resets_count_after_backward:  # and the step let go of these
            self.n_available_params = -sum(weight.numel for weight in persistent | self.unreleased_params())

    def _build_trace(self, tape: Tape) -> None:
        """Which modules come after one another, and what each of them needs."""
        setup = self.setup
        self.leaves, self.leaf_of_module = leaf_modules(tape, setup.leaf_classes)
        self.params_of_module = [
            self.leaves.get(module.number, module.params_to_fetch) for module in tape.modules
        ]
        twice = setup.quirks.miscounts_recomputed_modules and not setup.use_reentrant
        self.miscounted = frozenset(recomputed_modules(tape.steps) if twice else ())
        """Modules that count a pass that is computed again, and never come back to zero."""
        self.visits = module_visits(tape.steps, self.miscounted)
        entered = [visit.module for visit in self.visits if visit.is_entry]
        self.order = [module for module in entered if module.number not in self.leaf_of_module]
        self.trace = [
            (weight, number)
            for number, module in enumerate(self.order)
            if self.params_of_module[module.number]  # most have none
            for weight in sorted(self.params_of_module[module.number], key=lambda found: found.number)
        ]
        self.uses = UpcomingUses(module.params_to_fetch for module in self.order)
        inside = params_below(tape) if self.leaves else {}
        self.uses_in_leaves = UpcomingUses(inside[module.number] for module in self.order if inside)

    def unreleased_params(self) -> set[Weight]:
        """What no hook lets go of in a backward pass."""
        over = (self.params_of_module[module.number] for module in modules_never_left(self.visits))
        return {weight for own in over for weight in own}

    def rehearse(self) -> dict[tuple[int, int], set[Weight]]:
        """What the first pass that knows its order chooses to let go of: the second of the first step.

        The first has let go of all that hooks let go of, of what persists too.
        """
        first = copy(self)
        first.is_rehearsal = True
        first.ledger, first.send, first.always_gathered, first.releases = Ledger(), lambda *_: None, set(), {}
        first.available = (
            {weight: GatheredBlock(0) for weight in self.unreleased_params()}
            if self.setup.quirks.keeps_unreleased_params
            else {}
        )
        first.in_flight, first.active, first.recompute_params, first.secondary = {}, {}, {}, {}
        first.params_on_nvme = set(self.nvme_params)
        first.reset()
        if self.setup.quirks.counts_across_micro_batches:
            first.n_available_params = sum(weight.numel for weight in first.available)
        for visit in self.visits:
            first.recomputing_for = (
                visit.recomputed_for if self.setup.quirks.releases_recomputed_params else None
            )
            (first.fetch if visit.is_entry else first.release)(visit.module.number)
        return first.releases

    def set_nvme_params(self, home: frozenset[Weight], buffers: int) -> None:
        """These lie on a drive, and so many of them can be in memory at once."""
        self.nvme_params, self.params_on_nvme, self.nvme_buffers = home, set(home), buffers

    def reset(self) -> None:
        """A forward pass begins."""
        self.param_queue = deque(self.trace)
        self.most_recent_step: dict[Weight, int] = {}
        self.step_id = 0
        if not self.setup.quirks.counts_across_micro_batches:
            self.n_available_params = 0

    # ------------------------------------------------------------ fetch
    def fetch(self, module: int) -> None:
        """Gather what a module needs, then what the next ones will."""
        if module in self.leaf_of_module:
            return
        if own := self.params_of_module[module]:  # most modules have none
            if missing_params := list(filter(self._must_gather, own)):
                self._gather(missing_params)
            self._wait_for_module(module, own)
        if self.settings.prefetch_bucket_size > 0:
            self._prefetch()
        self.step_id += 1

    def _wait_for_module(self, module: int, own: Sequence[Weight]) -> None:
        """Wait for what a module needs, and go on in the order of what is known to come."""
        for weight in own:
            active = self.active.setdefault(weight, set())
            active.add(module)
            if self.recomputing_for is not None and not weight.requires_grad:
                owner = self.leaf_of_module.get(self.recomputing_for, self.recomputing_for)
                self.recompute_params.setdefault(owner, set()).add(weight)
                active.add(owner)
            if weight in self.in_flight:
                self._wait(weight)
        missing = {weight for weight in own if self.most_recent_step.get(weight, -1) < self.step_id}
        while self.param_queue and missing:
            weight, step = self.param_queue.popleft()
            self.most_recent_step[weight] = step
            missing.discard(weight)

    def _prefetch(self) -> None:
        most = min(
            self.settings.max_live_parameters - self.n_available_params, self.settings.prefetch_bucket_size
        )
        chosen: dict[Weight, None] = {}
        count = 0
        while self.param_queue and count < most and self.param_queue[0][0] not in self.params_on_nvme:
            weight, step = self.param_queue.popleft()
            self.most_recent_step[weight] = max(self.most_recent_step.get(weight, -1), step)
            if weight not in chosen and self._must_gather(weight):
                chosen[weight] = None
                count += weight.numel
        if chosen:
            self._gather(list(chosen))
        free = self.nvme_buffers - len(self.nvme_params) + len(self.params_on_nvme)
        if self.params_on_nvme and free > 0:
            flying = sum(weight.numel for weight in self.in_flight)
            self.params_on_nvme -= prefetch_from_nvme(
                (weight for weight, _ in self.param_queue), self.params_on_nvme, flying, free
            )

    def _must_gather(self, weight: Weight) -> bool:
        return not (weight in self.available or weight in self.in_flight or weight in self.always_gathered)

    def _gather(self, weights: list[Weight]) -> None:
        """`all_gather_coalesced`: of one parameter in place, of several into a buffer for each type."""
        places = list(dict.fromkeys(map(self.setup.gather_group, weights)))
        if len(places) > 1:  # a call for each group of ranks
            for place in places:
                self._gather([weight for weight in weights if self.setup.gather_group(weight) == place])
            siblings = list(dict.fromkeys(self.in_flight[weight] for weight in weights))
            for handle in siblings:
                handle.siblings = siblings
            return
        second = [weight for weight in weights if weight in self.secondary]
        if second and len(second) < len(weights):
            self._gather([weight for weight in weights if weight not in self.secondary])
            self._gather(second)
            return
        world = self.ranks_of(weights[0])
        if self.setup.quantized_weights and self.setup.hpz_size > 1 and not self.is_rehearsal:
            reject_uneven_gather(self.setup, weights, bool(second))
        self.params_on_nvme.difference_update(weights)
        self.n_available_params += sum(weight.numel for weight in weights)
        kinds: dict[int, list[Weight]] = {}
        for weight in sorted(weights, key=lambda found: found.number):
            kinds.setdefault(self._comm_itemsize(weight), []).append(weight)
        if len(kinds) > 1 and world > 1 and self.setup.quirks.gathers_each_dtype_twice:
            why = "parameters of two types that come together are gathered twice"
            raise NotModelledError(f"DeepSpeed stops with `torch_autocast` at stage 3: {why}", UPGRADE)
        siblings, alone = list[AllGatherHandle](), len(weights) == 1
        for itemsize, members in kinds.items():
            buffer = sum(-(-weight.numel // world) * world for weight in members) * itemsize
            if world == 1:
                buffer = 0
            if buffer:
                ranks = self.setup.hpz_size if second else world
                self.send("all_gather", buffer // itemsize, itemsize, ranks)
            self.ledger.allocate(GATHERED if alone else RECEIVE, buffer)
            siblings.append(AllGatherHandle(members, buffer, alone))
            siblings[-1].siblings = siblings
            self.in_flight.update(dict.fromkeys(members, siblings[-1]))

    def _comm_itemsize(self, weight: Weight) -> int:
        if self.setup.quantized_weights:
            return 1
        return 2 if self.setup.autocast and weight.is_linear else self._param_itemsize(weight)

    def _param_itemsize(self, weight: Weight) -> int:
        return 4 if weight.stays_fp32 else self.setup.itemsize

    def _wait(self, weight: Weight) -> None:
        """The first that is waited for cuts the buffer into copies; the last lets go of it."""
        handle = self.in_flight.pop(weight)
        if weight not in self.available:
            for sibling in handle.siblings:
                self._unpack(sibling)
        handle.waiting -= 1
        if not any(sibling.waiting for sibling in handle.siblings):
            self.ledger.free(
                RECEIVE, sum(sibling.buffer_bytes for sibling in handle.siblings if not sibling.is_single)
            )

    def _unpack(self, handle: AllGatherHandle) -> None:
        one = self.ranks_of(handle.weights[0]) == 1
        if self.setup.quantized_weights and not handle.is_single:  # all of them in fp16 (`dequantize`)
            self.ledger.allocate(RECEIVE, 2 * handle.buffer_bytes)
            handle.buffer_bytes *= 3
        for weight in handle.weights:
            itemsize = self._param_itemsize(weight)
            size = 0 if one else weight.numel * itemsize
            if not handle.is_single or self._comm_itemsize(weight) != itemsize:
                self.ledger.allocate(GATHERED, size)
                if not one and (self.setup.quantized_weights or not handle.is_single):
                    self.ledger.allocate_briefly(GATHERED, weight.numel * self._received_itemsize(weight))
                if handle.is_single:
                    self.ledger.free(GATHERED, handle.buffer_bytes)
            elif not one:
                size = handle.buffer_bytes
            self.available[weight] = GatheredBlock(size)

    def _received_itemsize(self, weight: Weight) -> int:
        """Bytes of an element as it arrives, where it is cast then; kernels give back fp16."""
        if self.setup.quantized_weights:
            return 0 if self.setup.half_dtype == "fp16" else 2
        sent = self._comm_itemsize(weight)
        return sent if sent != self._param_itemsize(weight) else 0

    # ------------------------------------------------------------ release
    def release(self, module: int) -> None:
        """Let go of what is not needed again soon, and of what was gathered for this module alone."""
        if module in self.leaf_of_module:
            return
        own, turn = self.params_of_module[module], (module, self.step_id)
        if own and turn not in self.releases:
            self.releases[turn] = self._params_to_release(module)
        going = self.releases[turn] if own else ()
        for weight in own:
            self.active.get(weight, set()).discard(module)
            if weight in going:
                self.drop(weight)
        for weight in () if self.recomputing_for is not None else self.recompute_params.pop(module, ()):
            self.active[weight].discard(module)
            if weight not in self.persistent:
                self.drop(weight)

    def _params_to_release(self, module: int) -> set[Weight]:
        """`__params_to_release`."""
        # it looks into what comes as deep as into what it lets go of
        ahead, number = self.uses_in_leaves if module in self.leaves else self.uses, self.step_id
        return {
            weight
            for weight in self.params_of_module[module]
            if weight not in self.persistent
            and self.most_recent_step.get(weight, -1) <= number
            and not ahead.is_needed_within(weight, number, self.settings.max_reuse_distance)
        }

    def drop(self, weight: Weight) -> None:
        """Partition a parameter again, unless a module is at work with it."""
        if weight in self.available and not self.active.get(weight):
            self.partition_secondary(weight)
            self._free_block(self.available.pop(weight))
            if weight in self.nvme_params:
                self.params_on_nvme.add(weight)
            self.n_available_params -= weight.numel

    def hold_view(self, weight: Weight) -> None:
        """A view of a gathered parameter is kept."""
        if weight in self.available:
            self.available[weight].owners += 1
            self.view_blocks.setdefault(weight, []).append(self.available[weight])

    def release_view(self, weight: Weight) -> None:
        """It is kept no longer."""
        if self.view_blocks.get(weight):
            self._free_block(self.view_blocks[weight].pop())

    def _free_block(self, block: GatheredBlock) -> None:
        block.owners -= 1
        if not block.owners:
            self.ledger.free(GATHERED, block.bytes)

    def partition_secondary(self, weight: Weight) -> None:
        """`_partition_param_sec`."""
        ranks, world = self.setup.hpz_size, self.setup.dp_world_size
        if ranks > 1 and world > 1 and weight not in self.secondary:
            self.secondary[weight] = padded_shard_numel(weight.numel, world, ranks) * self.setup.itemsize
            self.ledger.allocate(SECONDARY, self.secondary[weight], host=self.setup.offloads_params)

    def partition_all(self) -> None:
        """The step partitions what is whole (`_partition_all_parameters`)."""
        self.release_leftovers()
        if self.setup.quirks.counts_across_micro_batches:
            self.n_available_params = 0
        for weight in self.persistent:
            self.partition_secondary(weight)

    def invalidate_secondary(self) -> None:
        """The second copy is forgotten (`invalidate_secondary_tensor`)."""
        self.ledger.free(SECONDARY, sum(self.secondary.values()), host=self.setup.offloads_params)
        self.secondary.clear()

    def release_leftovers(self) -> None:
        """A backward pass is over: what was not released is (`release_backward_leftovers`, `reset_step`)."""
        for weight in list(self.in_flight):
            self._wait(weight)
        self.active.clear()
        self.recompute_params.clear()
        for weight in list(self.available):
            self.drop(weight)


# What stage 3 gathers: parameters by one call, and the memory of each.


class AllGatherHandle:
    """Parameters gathered by one call, and the buffer that they arrive in."""

    __slots__ = ("buffer_bytes", "is_single", "siblings", "waiting", "weights")

    def __init__(self, weights: Sequence[Weight], buffer: int, alone: bool) -> None:
        self.weights, self.waiting, self.buffer_bytes, self.is_single = (
            tuple(weights),
            len(weights),
            buffer,
            alone,
        )
        """`alone`: whether the call is for one parameter, which stays where it arrives."""
        self.siblings = [self]
        """Those of other types or groups of ranks, waited for with it (`MultipleAllGatherHandles`)."""


class GatheredBlock:
    """The memory of a gathered parameter, and how many have it: the parameter, and views in the graph."""

    __slots__ = ("bytes", "owners")

    def __init__(self, count: int) -> None:
        self.bytes, self.owners = count, 1


# Modules that stage 3 gathers whole, with all that is in them (`leaf_module`).


def leaf_modules(tape: Tape, kinds: Sequence[str]) -> tuple[dict[int, tuple[Weight, ...]], dict[int, int]]:
    """Leaves fetch all that is in them, and modules in them nothing: these, with the leaf that each is in."""
    leaves = {
        module.name: module.number
        for module in tape.modules
        if module.class_name and module.class_name in kinds
    }
    if not leaves:
        return {}, {}
    weights, inner = params_below(tape), dict[int, int]()
    for module in tape.modules:
        for name in _enclosing_modules(module):
            if name and name in leaves:
                inner[module.number] = leaves[name]
    return {number: weights[number] for number in leaves.values()}, inner


class UpcomingUses:
    """When modules that are entered one after the other need a parameter."""

    def __init__(self, parameters: Iterable[tuple[Weight, ...]]) -> None:
        self.turns: dict[Weight, list[int]] = {}
        """Of each parameter, the turns at which it is needed."""
        self.numel_before = [0]
        """Elements of all that is needed before each turn."""
        for turn, weights in enumerate(parameters):
            for weight in weights:
                self.turns.setdefault(weight, []).append(turn)
            self.numel_before.append(self.numel_before[-1] + sum(weight.numel for weight in weights))

    def is_needed_within(self, weight: Weight, turn: int, reach: int) -> bool:
        """Whether it is needed from this turn on, before so many elements are."""
        places = self.turns.get(weight, [])
        place = bisect_left(places, turn)
        return place < len(places) and self.numel_before[places[place]] - self.numel_before[turn] < reach


def params_below(tape: Tape) -> dict[int, tuple[Weight, ...]]:
    """The parameters of each module, by its number, and of all that are in it."""
    numbers = {module.name: module.number for module in tape.modules}
    found = {module.number: list[Weight]() for module in tape.modules}
    for module in tape.modules:
        if module.weights:
            for number in (
                module.number,
                *(numbers[name] for name in _enclosing_modules(module) if name in numbers),
            ):
                found[number] += module.weights
    return {number: tuple(weights) for number, weights in found.items()}


def _enclosing_modules(module: Module) -> Iterator[str]:
    """The names of the modules that it is in, from the whole model on."""
    if module.name:
        yield ""
        yield from list(accumulate(module.name.split("."), "{}.{}".format))[:-1]


# What stage 3 reads from NVMe before it is gathered (`partitioned_param_coordinator.py`).


def prefetch_from_nvme(
    queue: Iterable[Weight], away: Collection[Weight], flying: int, free: int
) -> set[Weight]:
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
