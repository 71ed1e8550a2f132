"""Stages 1 and 2 as they are loaded and at rest: flat weights, a piece of the rest (`stage_1_and_2.py`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import FLATTENED, MASTER, STATES, TEMPORARY, WEIGHTS, Engine
from dsconfig.memory.engines.flat_partition import Partition, groups, joined, partition
from dsconfig.memory.engines.muon_param_groups import halves
from dsconfig.memory.engines.pinned_memory import rounding
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger, with_slack

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
