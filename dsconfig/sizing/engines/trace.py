"""Stage 3's coordinator: which parameters are gathered when, and which are kept.

DeepSpeed's `partitioned_param_coordinator.py`, as it goes from the second step on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from dsconfig.sizing.engines.setup import Setup
from dsconfig.sizing.ledger import Ledger
from dsconfig.sizing.tape import Enter, Leave, Module, Segment, Step, Tape, Weight

GATHERED, RECEIVE = "gathered parameters", "receive buffers"
SECONDARY = "secondary partition"


class Batch:
    """Parameters gathered by one call, and the buffer that they arrive in."""

    __slots__ = ("buffer", "left", "mates", "weights")

    def __init__(self, weights: Sequence[Weight], buffer: int) -> None:
        self.weights, self.left, self.buffer = tuple(weights), len(weights), buffer
        self.mates = [self]
        """Batches of other groups of ranks that are waited for with it (`MultipleAllGatherHandles`)."""


class Block:
    """The memory of a gathered parameter, and how many have it: the parameter, and views in the graph."""

    __slots__ = ("bytes", "owners")

    def __init__(self, count: int) -> None:
        self.bytes, self.owners = count, 1


def visits(steps: Sequence[Step], forward: bool = True) -> list[Module]:
    """The modules in the order in which a pass enters them: the way back enters what the way there leaves."""
    found: list[Module] = []
    for step in steps if forward else reversed(steps):
        if isinstance(step, Enter if forward else Leave) and (forward or step.needs):
            found.append(step.module)
        elif isinstance(step, Segment):
            if forward:
                found += visits(step.steps)
            else:
                early, late = step.parts()
                found += [*visits(late, forward=False), *visits(early), *visits(early, forward=False)]
    return found


class Coordinator:
    """The state of one pass, in a run whose order of modules is known from the passes before."""

    def __init__(
        self,
        setup: Setup,
        tape: Tape,
        ledger: Ledger,
        kept: set[Weight],
        send: Callable[[str, int, int, int], None],
    ) -> None:
        self.setup, self.ledger, self.kept, self.send = setup, ledger, kept, send
        self.experts = tape.experts
        self.leaves, self.inner = _leaves(tape, setup.leaves)
        self.weights_of = [self.leaves.get(module.number, module.weights) for module in tape.modules]
        visited = [*visits(tape.steps), *visits(tape.steps, forward=False)]
        self.order = [module for module in visited if module.number not in self.inner]
        self.trace = [
            (weight, number)
            for number, module in enumerate(self.order)
            for weight in sorted(self.weights_of[module.number], key=lambda found: found.number)
        ]
        self.shallow = [module.weights for module in self.order]
        self.deep = [_below(tape, module) for module in self.order] if self.leaves else []
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
        self.buffers = 0
        self.reset()

    def drive(self, home: frozenset[Weight], buffers: int) -> None:
        """These lie on a drive, and so many of them can be in memory at once."""
        self.home, self.away, self.buffers = home, set(home), buffers

    def reset(self) -> None:
        """A forward pass begins."""
        self.queue = deque(self.trace)
        self.recent: dict[Weight, int] = {}
        self.number = self.available = 0

    # ------------------------------------------------------------ fetch
    def fetch(self, module: int) -> None:
        """Gather what a module needs, then what the next ones will."""
        if module in self.inner:
            return
        own = self.weights_of[module]
        needed = [weight for weight in own if weight not in self.there and weight not in self.flying]
        self._gather([weight for weight in needed if weight not in self.kept])
        for weight in own:
            active = self.active.setdefault(weight, set())
            active.add(module)
            if self.owner is not None and not weight.trains:
                self.owned.setdefault(self.owner, set()).add(weight)
                active.add(self.owner)
            if weight in self.flying:
                self._wait(weight)
        missing = {weight for weight in own if self.recent.get(weight, -1) < self.number}
        while self.queue and missing:
            weight, step = self.queue.popleft()
            self.recent[weight] = step
            missing.discard(weight)
        self._prefetch()
        self.number += 1

    def _prefetch(self) -> None:
        setup = self.setup
        most = min(setup.third.live - self.available, setup.third.prefetch) if setup.third.prefetch > 0 else 0
        chosen: dict[Weight, None] = {}
        count = 0
        while self.queue and count < most and self.queue[0][0] not in self.away:
            weight, step = self.queue.popleft()
            self.recent[weight] = max(self.recent.get(weight, -1), step)
            if weight not in chosen and self._absent(weight):
                chosen[weight] = None
                count += weight.elements
        self._gather(list(chosen))
        if self.home and setup.third.prefetch > 0:
            self._read_ahead()

    def _read_ahead(self) -> None:
        """`__prefetch_nvme_param_partitions`: shards of what comes next, twice what is being gathered."""
        flying, considered = sum(weight.elements for weight in self.flying), 0
        chosen: set[Weight] = set()
        free = self.buffers - len(self.home - self.away)
        for weight, _ in self.queue:
            if considered > 2 * flying or len(chosen) >= free:
                break
            if weight in self.away:
                chosen.add(weight)
            considered += weight.elements
        self.away -= chosen

    def _absent(self, weight: Weight) -> bool:
        return not (weight in self.there or weight in self.flying or weight in self.kept)

    def _gather(self, weights: list[Weight]) -> None:
        """`all_gather_coalesced`: of one parameter in place, of several into a buffer for each type."""
        if not weights:
            return
        places = list(dict.fromkeys(map(self.setup.place, weights)))
        if len(places) > 1:  # a call for each group of ranks
            for place in places:
                self._gather([weight for weight in weights if self.setup.place(weight) == place])
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
        self.away.difference_update(weights)
        self.available += sum(weight.elements for weight in weights)
        kinds: dict[int, list[Weight]] = {}
        for weight in sorted(weights, key=lambda found: found.number):
            kinds.setdefault(self._width_sent(weight), []).append(weight)
        for width, members in kinds.items():
            buffer = sum(-(-weight.elements // world) * world for weight in members) * width
            if world == 1:
                buffer = 0
            if buffer:
                ranks = self.setup.secondary if second else world
                self.send("all_gather", buffer // width, width, ranks)
            alone = len(members) == 1
            self.ledger.take(GATHERED if alone else RECEIVE, buffer)
            batch = Batch(members, buffer)
            for weight in members:
                self.flying[weight] = batch

    def ranks_of(self, weight: Weight) -> int:
        """Ranks among which it is partitioned."""
        return self.setup.world // (self.experts if weight.expert else 1)

    def _width_sent(self, weight: Weight) -> int:
        if self.setup.quantised:
            return 1
        return 2 if self.setup.autocast and weight.linear else self._width(weight)

    def _width(self, weight: Weight) -> int:
        return 4 if weight.full else self.setup.width

    def _wait(self, weight: Weight) -> None:
        """The first that is waited for cuts the buffer into copies; the last lets go of it."""
        batch = self.flying.pop(weight)
        if weight not in self.there:
            for mate in batch.mates:
                self._cut(mate)
        batch.left -= 1
        if not any(mate.left for mate in batch.mates):
            self.ledger.give(RECEIVE, sum(mate.buffer for mate in batch.mates if len(mate.weights) > 1))

    def _cut(self, batch: Batch) -> None:
        one = self.ranks_of(batch.weights[0]) == 1
        if self.setup.quantised and len(batch.weights) > 1:  # all of them in fp16 (`dequantize`)
            self.ledger.take(RECEIVE, 2 * batch.buffer)
            batch.buffer *= 3
        for weight in batch.weights:
            width = self._width(weight)
            size = 0 if one else weight.elements * width
            if len(batch.weights) > 1 or self._width_sent(weight) != width:
                self.ledger.take(GATHERED, size)
                if not one and (self.setup.quantised or len(batch.weights) > 1):
                    self.ledger.touch(GATHERED, weight.elements * self._before_its_type(weight))
                if len(batch.weights) == 1:
                    self.ledger.give(GATHERED, batch.buffer)
            elif not one:
                size = batch.buffer
            self.there[weight] = Block(size)

    def _before_its_type(self, weight: Weight) -> int:
        """Bytes of an element as it arrives, where it is cast then; kernels give back fp16."""
        if self.setup.quantised:
            return 0 if self.setup.half == "fp16" else 2
        sent = self._width_sent(weight)
        return sent if sent != self._width(weight) else 0

    # ------------------------------------------------------------ release
    def release(self, module: int) -> None:
        """Let go of what is not needed again soon, and of what was gathered for this module alone."""
        if module in self.inner:
            return
        own = self.weights_of[module]
        going = {
            weight for weight in own if weight not in self.kept and self.recent.get(weight, -1) <= self.number
        }
        if going:
            # it looks into what comes as deep as into what it lets go of (`__params_to_release`)
            coming, traversed = self.deep if module in self.leaves else self.shallow, 0
            for number in range(self.number, len(self.order)):
                if traversed >= self.setup.third.reuse:
                    break
                going.difference_update(coming[number])
                traversed += sum(weight.elements for weight in coming[number])
        for weight in own:
            self.active.get(weight, set()).discard(module)
            if weight in going:
                self.drop(weight)
        for weight in () if self.owner is not None else self.owned.pop(module, ()):
            self.active[weight].discard(module)
            if weight not in self.kept:
                self.drop(weight)

    def drop(self, weight: Weight) -> None:
        """Partition a parameter again, unless a module is at work with it."""
        if weight in self.there and not self.active.get(weight):
            self.keep_second(weight)
            self._let_go(self.there.pop(weight))
            if weight in self.home:
                self.away.add(weight)
            self.available -= weight.elements

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
            self.ledger.give(GATHERED, block.bytes)

    def keep_second(self, weight: Weight) -> None:
        """`_partition_param_sec`."""
        ranks, world = self.setup.secondary, self.setup.world
        if ranks > 1 and world > 1 and weight not in self.secondary:
            self.secondary[weight] = -(-weight.elements // world) * world // ranks * self.setup.width
            self.ledger.take(SECONDARY, self.secondary[weight], host=self.setup.offloads_parameters)

    def partition(self) -> None:
        """The step partitions what is whole (`_partition_all_parameters`)."""
        self.finish()
        for weight in self.kept:
            self.keep_second(weight)

    def expire(self) -> None:
        """The second copy is forgotten (`invalidate_secondary_tensor`)."""
        self.ledger.give(SECONDARY, sum(self.secondary.values()), host=self.setup.offloads_parameters)
        self.secondary.clear()

    def finish(self) -> None:
        """A backward pass is over: what was not released is (`release_backward_leftovers`, `reset_step`)."""
        for weight in list(self.flying):
            self._wait(weight)
        self.active.clear()
        self.owned.clear()
        for weight in list(self.there):
            self.drop(weight)


def _leaves(tape: Tape, kinds: Sequence[str]) -> tuple[dict[int, tuple[Weight, ...]], set[int]]:
    """Leaves fetch all that is in them, and modules in them nothing."""
    found, inner = dict[int, tuple[Weight, ...]](), set[int]()
    for module in tape.modules:
        if module.kind and module.kind in kinds:
            found[module.number] = _below(tape, module)
            inner |= {other.number for other in tape.modules if other.name.startswith(f"{module.name}.")}
    return found, inner


def _below(tape: Tape, module: Module) -> tuple[Weight, ...]:
    """The parameters of a module and of all that are in it."""
    inside = f"{module.name}." if module.name else ""
    return tuple(
        weight
        for other in tape.modules
        if other is module or other.name.startswith(inside)
        for weight in other.weights
    )
