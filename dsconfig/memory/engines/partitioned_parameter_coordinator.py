"""Simulate stage 3's `PartitionedParameterCoordinator`, which fetches, prefetches and releases parameters."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from itertools import accumulate

from dsconfig.memory.autograd_graph import ForwardTape, ModelParameter, Module
from dsconfig.memory.engines.base_engine import GATHERED
from dsconfig.memory.engines.engine_setup import EngineSetup
from dsconfig.memory.engines.forward_backward import module_hook_calls, modules_never_left, recomputed_modules
from dsconfig.memory.memory_ledger import MemoryLedger
from dsconfig.memory.unsupported_settings import reject_uneven_gather, stop_error
from dsconfig.memory.zeropp_unsupported_shapes import padded_shard_numel

RECEIVE = "receive buffers"
SECONDARY = "secondary partition"
UPGRADE = "upgrade DeepSpeed to 0.17.5 or later"


class PartitionedParameterCoordinator:
    """Fetches and releases parameters during a pass, once the order of modules has been traced.

    The class follows runtime/zero/partitioned_param_coordinator.py from the second step on. The first step records the
    trace without prefetching, and does not determine the peak.
    """

    def __init__(
        self,
        setup: EngineSetup,
        tape: ForwardTape,
        ledger: MemoryLedger,
        persistent: set[ModelParameter],
        send: Callable[[str, int, int, int], None],
        ranks_of: Callable[[ModelParameter], int],
    ) -> None:
        self.setup, self.ledger, self.persistent = setup, ledger, persistent
        self.settings = setup.stage3
        self.send, self.ranks_of = send, ranks_of
        self._build_trace(tape)
        self.available: dict[ModelParameter, GatheredBlock] = {}
        """Gathered parameters that are ready for use."""
        self.view_blocks: dict[ModelParameter, list[GatheredBlock]] = {}
        """Blocks of which the graph saves views, oldest first."""
        self.in_flight: dict[ModelParameter, AllGatherHandle] = {}
        self.active: dict[ModelParameter, set[int]] = {}
        self.recomputing_for: int | None = None
        self.recompute_params: dict[int, set[ModelParameter]] = {}
        """Frozen parameters gathered for a recomputation, by the module that triggered the recomputation."""
        self.secondary: dict[ModelParameter, int] = {}
        """Bytes of secondary partitions (hpZ), created when a parameter is partitioned again."""
        self.nvme_params: frozenset[ModelParameter] = frozenset()
        """Parameters whose shards are on NVMe between uses."""
        self.params_on_nvme: set[ModelParameter] = set()
        """Parameters whose shards are on NVMe now."""
        self.nvme_buffers = self.n_available_params = 0
        self.always_gathered = persistent
        """Parameters that are gathered when a pass starts and stay gathered."""
        self.releases: dict[tuple[int, int], set[ModelParameter]] = {}
        """Parameters that a module releases at each step of the trace; DeepSpeed caches them (`lru_cache`)."""
        self.is_rehearsal = False
        self.reset()
        if setup.quirks.live_parameter_counter_is_reset_before_step:  # the step has already subtracted these
            # Before 0.15.4 the counter is reset before the step partitions these parameters, so it starts
            # below 0.
            self.n_available_params = -sum(weight.numel for weight in persistent | self.unreleased_params())

    def _build_trace(self, tape: ForwardTape) -> None:
        """Record the order of modules and each module's parameters."""
        setup = self.setup
        self.leaves, self.leaf_of_module = leaf_modules(tape, setup.leaf_classes)
        self.params_of_module = [
            self.leaves.get(module.number, module.params_to_fetch) for module in tape.modules
        ]
        miscounts = setup.quirks.recomputed_modules_are_counted_twice and not setup.use_reentrant
        self.miscounted = frozenset(recomputed_modules(tape.steps) if miscounts else ())
        """Modules that count a recomputed pass, so that their use counter never returns to 0."""
        self.visits = module_hook_calls(tape.steps, self.miscounted)
        entered = [visit.module for visit in self.visits if visit.is_entry]
        self.order = [module for module in entered if module.number not in self.leaf_of_module]
        self.trace = [
            (weight, number)
            for number, module in enumerate(self.order)
            if self.params_of_module[module.number]  # most have none
            for weight in sorted(self.params_of_module[module.number], key=lambda weight: weight.number)
        ]
        self.uses = UpcomingParameterUses(module.params_to_fetch for module in self.order)
        below = parameters_by_module(tape) if self.leaves else {}
        self.uses_in_leaves = UpcomingParameterUses(below[module.number] for module in self.order if below)

    def unreleased_params(self) -> set[ModelParameter]:
        """Return the parameters that no post-backward hook releases."""
        weight_lists = (self.params_of_module[module.number] for module in modules_never_left(self.visits))
        return {weight for weights in weight_lists for weight in weights}

    def compute_cached_releases(self) -> dict[tuple[int, int], set[ModelParameter]]:
        """Compute the releases that DeepSpeed caches, which are those of the second micro batch of the first step.

        The first micro batch has released every parameter with a hook, including persistent ones.
        """
        first = copy(self)
        first.is_rehearsal = True
        first.ledger, first.send, first.always_gathered, first.releases = (
            MemoryLedger(),
            lambda *_: None,
            set(),
            {},
        )
        first.available = (
            {weight: GatheredBlock(0) for weight in self.unreleased_params()}
            if self.setup.quirks.unreleased_params_stay_until_step
            else {}
        )
        first.in_flight, first.active, first.recompute_params, first.secondary = {}, {}, {}, {}
        first.params_on_nvme = set(self.nvme_params)
        first.reset()
        if self.setup.quirks.live_parameter_counter_survives_backward:
            first.n_available_params = sum(weight.numel for weight in first.available)
        for visit in self.visits:
            first.recomputing_for = (
                visit.recomputed_for if self.setup.quirks.recomputed_params_are_released_with_module else None
            )
            (first.fetch if visit.is_entry else first.release)(visit.module.number)
        return first.releases

    def set_nvme_params(self, params: frozenset[ModelParameter], buffers: int) -> None:
        """Place these parameters on NVMe, and provide `buffers` buffers for reading them."""
        self.nvme_params, self.params_on_nvme, self.nvme_buffers = params, set(params), buffers

    def reset(self) -> None:
        """Reset the coordinator before a forward pass (`reset_step`)."""
        self.param_queue = deque(self.trace)
        self.most_recent_step: dict[ModelParameter, int] = {}
        self.step_id = 0
        if not self.setup.quirks.live_parameter_counter_survives_backward:
            self.n_available_params = 0

    # ------------------------------------------------------------ fetch
    def fetch(self, module: int) -> None:
        """Gather a module's parameters, then prefetch those of the following modules (`fetch_sub_module`)."""
        if module in self.leaf_of_module:
            return
        if params := self.params_of_module[module]:  # most modules have none
            if missing_params := list(filter(self._must_gather, params)):
                self._gather(missing_params)
            self._wait_for_module(module, params)
        # Every module triggers a prefetch, including modules without parameters.
        if self.settings.prefetch_bucket_size > 0:
            self._prefetch()
        self.step_id += 1

    def _wait_for_module(self, module: int, params: Sequence[ModelParameter]) -> None:
        """Wait until a module's parameters are gathered, and advance in the trace."""
        for weight in params:
            active = self.active.setdefault(weight, set())
            active.add(module)
            if self.recomputing_for is not None and not weight.requires_grad:
                owner = self.leaf_of_module.get(self.recomputing_for, self.recomputing_for)
                self.recompute_params.setdefault(owner, set()).add(weight)
                active.add(owner)
            if weight in self.in_flight:
                self._wait(weight)
        missing = {weight for weight in params if self.most_recent_step.get(weight, -1) < self.step_id}
        # DeepSpeed pops the trace until every parameter of the module was seen.
        while self.param_queue and missing:
            weight, step = self.param_queue.popleft()
            self.most_recent_step[weight] = step
            missing.discard(weight)

    def _prefetch(self) -> None:
        max_numel = min(
            self.settings.max_live_parameters - self.n_available_params, self.settings.prefetch_bucket_size
        )
        chosen: dict[ModelParameter, None] = {}
        count = 0
        while self.param_queue and count < max_numel and self.param_queue[0][0] not in self.params_on_nvme:
            weight, step = self.param_queue.popleft()
            self.most_recent_step[weight] = max(self.most_recent_step.get(weight, -1), step)
            if weight not in chosen and self._must_gather(weight):
                chosen[weight] = None
                count += weight.numel
        if chosen:
            self._gather(list(chosen))
        free_buffers = self.nvme_buffers - len(self.nvme_params) + len(self.params_on_nvme)
        if self.params_on_nvme and free_buffers > 0:
            in_flight_numel = sum(weight.numel for weight in self.in_flight)
            self.params_on_nvme -= prefetch_from_nvme(
                (weight for weight, _ in self.param_queue), self.params_on_nvme, in_flight_numel, free_buffers
            )

    def _must_gather(self, weight: ModelParameter) -> bool:
        return not (weight in self.available or weight in self.in_flight or weight in self.always_gathered)

    def _gather(self, weights: list[ModelParameter]) -> None:
        """Gather a single parameter in place, or several into one buffer per dtype (`all_gather_coalesced`)."""
        gather_groups = list(dict.fromkeys(map(self.setup.gather_group, weights)))
        if len(gather_groups) > 1:  # one call per process group
            for group in gather_groups:
                self._gather([weight for weight in weights if self.setup.gather_group(weight) == group])
            siblings = list(dict.fromkeys(self.in_flight[weight] for weight in weights))
            for handle in siblings:
                handle.siblings = siblings
            return
        secondary = [weight for weight in weights if weight in self.secondary]
        if secondary and len(secondary) < len(weights):
            self._gather([weight for weight in weights if weight not in self.secondary])
            self._gather(secondary)
            return
        world = self.ranks_of(weights[0])
        if self.setup.quantized_weights and self.setup.hpz_size > 1 and not self.is_rehearsal:
            reject_uneven_gather(self.setup, weights, bool(secondary))
        self.params_on_nvme.difference_update(weights)
        self.n_available_params += sum(weight.numel for weight in weights)
        by_itemsize: dict[int, list[ModelParameter]] = {}
        for weight in sorted(weights, key=lambda weight: weight.number):
            by_itemsize.setdefault(self._comm_itemsize(weight), []).append(weight)
        if len(by_itemsize) > 1 and world > 1 and self.setup.quirks.params_of_two_dtypes_are_gathered_twice:
            why = "parameters of two dtypes in one gather are gathered twice"
            raise stop_error("with `torch_autocast` at stage 3", why, UPGRADE)
        siblings, is_single = list[AllGatherHandle](), len(weights) == 1
        for itemsize, members in by_itemsize.items():
            # Shards are padded, so the receive buffer is larger than the parameters.
            buffer = sum(-(-weight.numel // world) * world for weight in members) * itemsize
            if world == 1:
                buffer = 0
            if buffer:
                ranks = self.setup.hpz_size if secondary else world
                self.send("all_gather", buffer // itemsize, itemsize, ranks)
            self.ledger.allocate(GATHERED if is_single else RECEIVE, buffer)
            siblings.append(AllGatherHandle(members, buffer, is_single))
            siblings[-1].siblings = siblings
            self.in_flight.update(dict.fromkeys(members, siblings[-1]))

    def _comm_itemsize(self, weight: ModelParameter) -> int:
        if self.setup.quantized_weights:
            return 1
        return 2 if self.setup.autocast and weight.is_linear else self._param_itemsize(weight)

    def _param_itemsize(self, weight: ModelParameter) -> int:
        return 4 if weight.stays_fp32 else self.setup.itemsize

    def _wait(self, weight: ModelParameter) -> None:
        """Unpack an all-gather when a parameter is first waited for, and free its buffer after the last wait."""
        handle = self.in_flight.pop(weight)
        if weight not in self.available:
            # `AllGatherCoalescedHandle.wait` concatenates the partitions of each parameter into a new tensor.
            for sibling in handle.siblings:
                self._unpack_handle(sibling)
        handle.waiting -= 1
        if not any(sibling.waiting for sibling in handle.siblings):
            self.ledger.free(
                RECEIVE, sum(sibling.buffer_bytes for sibling in handle.siblings if not sibling.is_single)
            )

    def _unpack_handle(self, handle: AllGatherHandle) -> None:
        is_alone = self.ranks_of(handle.weights[0]) == 1
        if self.setup.quantized_weights and not handle.is_single:  # `dequantize` returns all of them in fp16
            self.ledger.allocate(RECEIVE, 2 * handle.buffer_bytes)
            handle.buffer_bytes *= 3
        for weight in handle.weights:
            itemsize = self._param_itemsize(weight)
            size = 0 if is_alone else weight.numel * itemsize
            if not handle.is_single or self._comm_itemsize(weight) != itemsize:
                self.ledger.allocate(GATHERED, size)
                if not is_alone and (self.setup.quantized_weights or not handle.is_single):
                    self.ledger.allocate_briefly(GATHERED, weight.numel * self._received_itemsize(weight))
                if handle.is_single:
                    self.ledger.free(GATHERED, handle.buffer_bytes)
            elif not is_alone:
                size = handle.buffer_bytes
            self.available[weight] = GatheredBlock(size)

    def _received_itemsize(self, weight: ModelParameter) -> int:
        """Return the itemsize of a parameter on arrival, or 0 if it needs no cast; quantization kernels return fp16."""
        if self.setup.quantized_weights:
            return 0 if self.setup.half_dtype == "fp16" else 2
        sent = self._comm_itemsize(weight)
        return sent if sent != self._param_itemsize(weight) else 0

    # ------------------------------------------------------------ release
    def release(self, module: int) -> None:
        """Release the parameters of a module that are not used again soon, or that were gathered to recompute it."""
        if module in self.leaf_of_module:
            return
        params, turn = self.params_of_module[module], (module, self.step_id)
        if params and turn not in self.releases:
            self.releases[turn] = self._params_to_release(module)
        released = self.releases[turn] if params else ()
        for weight in params:
            self.active.get(weight, set()).discard(module)
            if weight in released:
                self.partition_again(weight)
        for weight in () if self.recomputing_for is not None else self.recompute_params.pop(module, ()):
            self.active[weight].discard(module)
            if weight not in self.persistent:
                self.partition_again(weight)

    def _params_to_release(self, module: int) -> set[ModelParameter]:
        """Return the parameters of a module that are not used within `max_reuse_distance` (`__params_to_release`)."""
        # A leaf module compares with uses of its submodules' parameters too.
        upcoming, step_id = self.uses_in_leaves if module in self.leaves else self.uses, self.step_id
        return {
            weight
            for weight in self.params_of_module[module]
            if weight not in self.persistent
            and self.most_recent_step.get(weight, -1) <= step_id
            and not upcoming.is_needed_within(weight, step_id, self.settings.max_reuse_distance)
        }

    def partition_again(self, weight: ModelParameter) -> None:
        """Partition a gathered parameter again, unless a module still uses it (`__release_param`)."""
        if weight in self.available and not self.active.get(weight):
            self.partition_secondary(weight)
            self._free_block(self.available.pop(weight))
            if weight in self.nvme_params:
                self.params_on_nvme.add(weight)
            self.n_available_params -= weight.numel

    def hold_view(self, weight: ModelParameter) -> None:
        """Keep the block of a gathered parameter allocated while the graph saves a view of it."""
        if weight in self.available:
            self.available[weight].owners += 1
            self.view_blocks.setdefault(weight, []).append(self.available[weight])

    def release_view(self, weight: ModelParameter) -> None:
        """Release a saved view, and free the gathered block if this view was its last owner."""
        if self.view_blocks.get(weight):
            self._free_block(self.view_blocks[weight].pop())

    def _free_block(self, block: GatheredBlock) -> None:
        block.owners -= 1
        if not block.owners:
            self.ledger.free(GATHERED, block.bytes)

    def partition_secondary(self, weight: ModelParameter) -> None:
        """Create the secondary partition of a parameter (`_partition_param_sec`)."""
        ranks, world = self.setup.hpz_size, self.setup.dp_world_size
        if ranks > 1 and world > 1 and weight not in self.secondary:
            self.secondary[weight] = padded_shard_numel(weight.numel, world, ranks) * self.setup.itemsize
            self.ledger.allocate(SECONDARY, self.secondary[weight], host=self.setup.offloads_params)

    def partition_all(self) -> None:
        """Partition all parameters at the start of a step (`_partition_all_parameters`)."""
        self.release_leftovers()
        if self.setup.quirks.live_parameter_counter_survives_backward:
            self.n_available_params = 0
        for weight in self.persistent:
            self.partition_secondary(weight)

    def invalidate_secondary(self) -> None:
        """Free the secondary partitions (`invalidate_secondary_tensor`)."""
        self.ledger.free(SECONDARY, sum(self.secondary.values()), host=self.setup.offloads_params)
        self.secondary.clear()

    def release_leftovers(self) -> None:
        """Release all parameters that are still gathered after a backward pass (`release_backward_leftovers`)."""
        for weight in list(self.in_flight):
            self._wait(weight)
        self.active.clear()
        self.recompute_params.clear()
        for weight in list(self.available):
            self.partition_again(weight)


# Gathered parameters: handles of all-gather calls, and the memory of each parameter.


class AllGatherHandle:
    """Parameters gathered in one collective call, with their receive buffer (`AllGatherCoalescedHandle`)."""

    __slots__ = ("buffer_bytes", "is_single", "siblings", "waiting", "weights")

    def __init__(self, weights: Sequence[ModelParameter], buffer_bytes: int, is_single: bool) -> None:
        self.weights, self.waiting, self.buffer_bytes, self.is_single = (
            tuple(weights),
            len(weights),
            buffer_bytes,
            is_single,
        )
        self.siblings = [self]
        """Handles of other dtypes or process groups that one wait call completes
        (`MultipleAllGatherHandles`).
        """


class GatheredBlock:
    """The memory of a gathered parameter, owned by the parameter and by views of it in the graph."""

    __slots__ = ("bytes", "owners")

    def __init__(self, count: int) -> None:
        self.bytes, self.owners = count, 1


# Leaf modules, which stage 3 gathers with all their submodules (`leaf_module`).


def leaf_modules(
    tape: ForwardTape, class_names: Sequence[str]
) -> tuple[dict[int, tuple[ModelParameter, ...]], dict[int, int]]:
    """Return the parameters of each leaf module, and the leaf module that contains each inner module."""
    leaves = {
        module.name: module.number
        for module in tape.modules
        if module.class_name and module.class_name in class_names
    }
    if not leaves:
        return {}, {}
    weights, inner = parameters_by_module(tape), dict[int, int]()
    for module in tape.modules:
        for name in _enclosing_modules(module):
            if name and name in leaves:
                inner[module.number] = leaves[name]
    return {number: weights[number] for number in leaves.values()}, inner


class UpcomingParameterUses:
    """The positions in the trace at which each parameter is used."""

    def __init__(self, parameters: Iterable[tuple[ModelParameter, ...]]) -> None:
        self.turns: dict[ModelParameter, list[int]] = {}
        """Positions in the trace at which each parameter is needed."""
        self.numel_before = [0]
        """Number of elements in all parameters needed before each position."""
        for turn, weights in enumerate(parameters):
            for weight in weights:
                self.turns.setdefault(weight, []).append(turn)
            self.numel_before.append(self.numel_before[-1] + sum(weight.numel for weight in weights))

    def is_needed_within(self, weight: ModelParameter, turn: int, distance: int) -> bool:
        """Return whether a parameter is used again within the next `distance` elements of the trace."""
        turns = self.turns.get(weight, [])
        index = bisect_left(turns, turn)
        return index < len(turns) and self.numel_before[turns[index]] - self.numel_before[turn] < distance


def parameters_by_module(tape: ForwardTape) -> dict[int, tuple[ModelParameter, ...]]:
    """Return the parameters of each module and its submodules, by module number."""
    numbers = {module.name: module.number for module in tape.modules}
    weights_of = {module.number: list[ModelParameter]() for module in tape.modules}
    for module in tape.modules:
        if module.weights:
            for number in (
                module.number,
                *(numbers[name] for name in _enclosing_modules(module) if name in numbers),
            ):
                weights_of[number] += module.weights
    return {number: tuple(weights) for number, weights in weights_of.items()}


def _enclosing_modules(module: Module) -> Iterator[str]:
    """Yield the names of the enclosing modules, outermost first."""
    if module.name:
        yield ""
        yield from list(accumulate(module.name.split("."), "{}.{}".format))[:-1]


# NVMe: shards are read ahead before they are gathered.


def prefetch_from_nvme(
    queue: Iterable[ModelParameter],
    on_nvme: Collection[ModelParameter],
    in_flight_numel: int,
    free_buffers: int,
) -> set[ModelParameter]:
    """Choose the shards to read ahead from NVMe (`__prefetch_nvme_param_partitions`).

    At most twice the elements in flight are read ahead. `queue` holds the parameters in trace order, `on_nvme` those on
    NVMe, and `free_buffers` is the number of unused buffers.

    Raises:
        NotModelledError: a parameter is needed twice, which DeepSpeed does not check
            (`AsyncPartitionedParameterSwapper._allocate_and_return_buffers_for_swap_in`).
    """
    # `__prefetch_nvme_param_partitions` looks ahead over twice the elements in flight.
    chosen, considered = set[ModelParameter](), 0
    for weight in queue:
        if considered > 2 * in_flight_numel or len(chosen) >= free_buffers:
            break
        if weight in chosen:
            why = f"`{weight.name}` is read from NVMe twice, once for the forward and once for the backward pass"
            way_out = "lower `zero_optimization.stage3_prefetch_bucket_size`"
            raise stop_error("in the second step", why, way_out)
        if weight in on_nvme:
            chosen.add(weight)
        considered += weight.numel
    return chosen
