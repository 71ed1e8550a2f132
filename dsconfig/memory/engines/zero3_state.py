"""Stage 3 as it is loaded and at rest: where shards, masters and gradients are (`stage3.py`)."""

from __future__ import annotations

from collections.abc import Iterable

from dsconfig.memory.engines.base import BUCKET, BUILT, GRADIENTS, MASTER, STATES, TEMPORARY, WEIGHTS
from dsconfig.memory.engines.flat_partition import groups
from dsconfig.memory.engines.muon_param_groups import halves
from dsconfig.memory.engines.param_coordinator import GATHERED, SECONDARY, Coordinator
from dsconfig.memory.engines.pinned_memory import rounding
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero3_sub_groups import persistent, sub_groups
from dsconfig.memory.engines.zeropp_gradients import Quantised
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger
from dsconfig.memory.not_modelled import NotModelledError

PERSISTENT, OFFLOADED = "persistent parameters", "gradients of the partition, offloaded"


class Placed(Quantised):
    """What `DeepSpeedZeroOptimizer_Stage3` has made by the time that training begins."""

    gathers = True

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        leaf = any(module.kind in setup.leaves for module in tape.modules if module.kind)
        if setup.secondary > 1 and (leaf or len(self.trained) < len(tape.weights)):
            told = "with frozen weights or experts as leaf modules"
            raise NotModelledError(f"`zero_optimization.zero_hpz_partition_size` {told} is not modelled")
        self.kept = persistent(setup.third, tape.weights)
        self.coordinator = Coordinator(setup, tape, ledger, self.kept, self.send, self.ranks_of)
        found = halves(setup, self.trained) if setup.optimizer.muon else groups(self.trained)
        if tape.parts > 1:
            found = [members for group in found for members in self._by_place(group)]
        self.groups = [group for members in found for group in self.divided(members)]
        self.bytes = sum(map(self.bytes_of, tape.weights))
        self.shards_trained = sum(map(sum, self.groups))
        sent = setup.sent if setup.ways.typed_buckets else setup.width
        kinds = {2 if weight.linear else 4 for weight in self.trained} if setup.autocast else {sent}
        self.buckets = {kind: [] for kind in kinds}
        self.filled = dict.fromkeys(kinds, setup.bucket if setup.ways.never_empties else 0)
        self.there = {}

    @property
    def passing(self) -> int:
        """Bytes of the buffer that each offloaded gradient goes through, in fp32."""
        through = self.setup.offloads and self.setup.ways.pins_gradient
        return 4 * max(map(self.shard, self.trained), default=0) if through else 0

    @property
    def masters(self) -> int:
        """Bytes of a master weight, where it is not the shard itself."""
        setup = self.setup
        shared = setup.width == 4 and not setup.offloads and not setup.offloads_parameters
        return 0 if shared and setup.ways.shares_masters else setup.master

    def _by_place(self, weights: list[Weight]) -> list[list[Weight]]:
        """Those of each group of ranks (`trainable_params_by_group`)."""
        found: dict[tuple[bool, bool], list[Weight]] = {}
        for weight in weights:
            found.setdefault(self.setup.place(weight), []).append(weight)
        return list(found.values())

    def divided(self, members: list[Weight]) -> list[list[int]]:
        """Sub-groups of a group of parameters."""
        return sub_groups(self.setup.third, [self.shard(weight) for weight in members])

    def width_of(self, weight: Weight) -> int:
        """Bytes of an element: adapters may be in fp32."""
        return 4 if weight.full else self.setup.width

    def bytes_of(self, weight: Weight) -> int:
        """Bytes of a rank's part."""
        return self.width_of(weight) * self.shard(weight)

    def on_host(self, index: int) -> bool:
        """Whether a sub-group is offloaded (`subgroup_to_device`)."""
        return self.setup.offloads and index >= int((1 - self.setup.ratio) * len(self.groups))

    def states(self, index: int, count: int) -> int:  # noqa: ARG002
        """Bytes of the optimizer's states for a sub-group."""
        return self.setup.optimizer.kept(count) * self.setup.master // 4

    def gradients_of(self, count: int) -> int:
        """Bytes of the gradients of so many masters, where they are offloaded."""
        return self.setup.master * count

    def early_states(self, index: int, count: int) -> int:  # noqa: ARG002
        """Bytes of those that are made before the first step."""
        return self.setup.optimizer.states * count if self.setup.optimizer.doubled else 0

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
        """The update of a sub-group of so many elements; what `ratio` leaves on the rank is torch's."""
        self.update(count, count, host=host)
        setup = self.setup
        if setup.offloads and not host and setup.optimizer.flat:  # `backup_optimizer`
            self.ledger.touch(TEMPORARY, (4 if setup.apart else 8) * count)

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
            host, count = self.on_host(index), self.masters * sum(group)
            if self.swapped(index):
                self.write_masters(index, count)
                continue
            ledger.touch(MASTER, 2 * count, host=host)
            ledger.take(MASTER, count, host=host)
            ledger.take(STATES, self.early_states(index, sum(group)), host=host)
        largest = max(map(sum, self.groups), default=0)
        ledger.take(TEMPORARY, setup.master * largest, host=setup.offloads)
        if setup.offloads:  # beside the gradient that is large enough for each
            for index, group in enumerate(self.groups):
                if not self.swapped(index):
                    ledger.take(OFFLOADED, self.gradients_of(sum(group)), host=self.on_host(index))
        ledger.give(TEMPORARY, setup.master * largest, host=setup.offloads)
        ledger.take(GRADIENTS, setup.gradient * self.shards_trained, host=setup.offloads)
        ledger.take(OFFLOADED, self.passing, host=True)
        if setup.contiguous:
            for kind in self.buckets:
                ledger.take(BUCKET, kind * setup.bucket)
        biggest = max(map(self.aligned, self.trained), default=0)
        ledger.touch(GATHERED, setup.width * biggest * (2 if setup.ways.gathers_beside else 1))

    def first_home(self, weight: Weight) -> bool | None:
        """Where a shard is cut to: True for the host, False for the rank, None for a drive."""
        return self.setup.offloads_parameters and weight not in self.kept

    def _cut_shard(self, weight: Weight, sign: int = 1) -> None:
        home = self.first_home(weight)
        if home is not None:
            self.ledger.take(WEIGHTS, sign * self.bytes_of(weight), host=home)

    def _cut_second(self, weight: Weight) -> None:
        """The part of a copy among the ranks of a node (`_partition_param_sec`)."""
        setup = self.setup
        if setup.secondary > 1:
            count = setup.width * self.aligned(weight) // setup.secondary
            self.ledger.take(SECONDARY, count, host=setup.offloads_parameters)

    def _cut(self) -> None:
        """Each parameter becomes a shard, one after the other (`_convert_to_zero_parameters`)."""
        for weight in self.tape.weights:
            self._cut_shard(weight)
            self._cut_second(weight)
            self.ledger.give(WEIGHTS, self.setup.width * weight.elements)

    def _move_shards(self) -> None:
        """All shards go through a buffer on the host (`defragment`), or to one, where they are offloaded."""
        setup, ledger = self.setup, self.ledger
        ledger.touch(
            WEIGHTS, sum(map(self.bytes_of, self.trained)) * self.flat // self.shards_trained, host=True
        )
        if setup.offloads_parameters:
            for weight in self.tape.weights:
                self._cut_shard(weight, -1)
            self.take_shards()

    def take_shards(self) -> None:
        """Offloaded, they are here from then on."""
        self.ledger.take(WEIGHTS, self.bytes, host=True)

    def _build_in_shards(self) -> None:
        """`zero.Init`: each parameter whole for a moment as it is cast, beside earlier shards."""
        width, built, ledger = self.setup.width, self.setup.built, self.ledger
        both = built + (width if width != built else 0)
        made = {weight for weight in self.tape.weights if not (self.tape.adapter and weight.trains)}
        for module in self.tape.modules:
            own = [weight for weight in module.weights if weight in made and weight.module == module.number]
            for weight in own:
                ledger.touch(BUILT, both * weight.elements * weight.parts)
                ledger.take(BUILT, width * weight.elements * weight.parts)
            for weight in own:
                self._cut_shard(weight)
                self._cut_second(weight)
            ledger.give(BUILT, width * sum(weight.elements * weight.parts for weight in own))
        self._cut_untied(both)
        self._keep_untied()
        for weight in self.trained if self.tape.adapter else ():  # adapters are made last, on the host
            self._cut_shard(weight)
            self._cut_second(weight)
        self._share()

    def _cut_untied(self, both: int) -> None:
        """A head is made and cut like any other layer, before it is tied to the embeddings."""
        setup, untied, host = self.setup, self.tape.untied, self.setup.offloads_parameters
        self.ledger.touch(BUILT, both * untied)
        self.ledger.take(BUILT, setup.width * untied)
        self.ledger.touch(SECONDARY, setup.width * self._shares_of(untied), host=host)
        self.ledger.give(BUILT, setup.width * untied)

    def _shares_of(self, untied: int) -> int:
        """Elements of the shard of a head, and of the part of a copy."""
        secondary = self.setup.secondary
        return -(-untied // self.setup.world) + (untied // secondary if secondary > 1 else 0)

    def _keep_untied(self) -> None:
        """Shard and copy of a head that was made, and then tied to the embeddings."""
        setup, untied = self.setup, self.tape.untied
        if untied and setup.zero_init and setup.secondary > 1 and setup.ways.keeps_untied:
            count = setup.width * self._shares_of(untied)
            self.ledger.take(SECONDARY, count, host=setup.offloads_parameters)

    def _share(self) -> None:
        """What ranks share is gathered, copied, cut (`_gather_zero3_params`), and partitioned again."""
        width, ledger = self.setup.width, self.ledger
        cut = [weight for weight in self.tape.weights if weight.parts > 1]
        for weight in cut:
            ledger.touch(GATHERED, 2 * width * weight.elements * weight.parts)
            ledger.take(WEIGHTS, width * weight.elements)
        for weight in cut:
            ledger.touch(WEIGHTS, self.bytes_of(weight))
            ledger.give(WEIGHTS, width * weight.elements)

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
            ledger.take(MASTER, self.masters * count, host=host)
            ledger.take(STATES, self.states(index, count), host=host)
            if setup.offloads:
                ledger.take(OFFLOADED, self.gradients_of(count), host=host)
        self._keep_untied()
        if not setup.zero_init:
            ledger.take(STATES, self.begun)
        ledger.take(GRADIENTS, setup.gradient * self.shards_trained, host=setup.offloads)
        ledger.take(OFFLOADED, self.passing, host=True)
        if setup.contiguous:
            for kind in self.buckets:
                ledger.take(BUCKET, kind * setup.bucket)
        self.gather_persistent()

    def rounding(self) -> int:
        """Gradients, those of the masters, and the flat shards, which are pinned whatever the config says."""
        setup, blocks = self.setup, [self.passing]
        if setup.offloads and setup.pins_optimizer:
            there = (index for index in range(len(self.groups)) if not self.swapped(index))
            blocks += [setup.master * sum(self.groups[index]) for index in there if self.on_host(index)]
            blocks.append(setup.gradient * self.shards_trained)
        if setup.offloads_parameters:
            blocks.append(setup.width * self.flat)
        built = setup.offloads_parameters and setup.pins_parameters and setup.zero_init
        shards = [self.bytes_of(weight) for weight in self.trained if weight not in self.kept] * built
        return rounding([*blocks, *shards]) + sum(shards)  # these were moved, and their blocks are kept

    @property
    def flat(self) -> int:
        """Elements of the shards that lie in one block on the host (`param_groups_fp16_flat_cpu_memory`)."""
        return self.shards_trained

    def gather_persistent(self) -> None:
        """What is small stays whole between steps."""
        self.persisting = self.gathered(self.kept)
        self.ledger.take(PERSISTENT, self.persisting)

    def gathered(self, weights: Iterable[Weight]) -> int:
        """Bytes of these parameters, whole: those that are partitioned at all."""
        return sum(
            self.width_of(weight) * self.aligned(weight) for weight in weights if self.ranks_of(weight) > 1
        )
