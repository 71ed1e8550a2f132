"""Stages 1 and 2 with Muon: two groups, of which that of the matrices is made orthogonal whole."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.memory.engines.base import BUCKET, GRADIENTS, TEMPORARY
from dsconfig.memory.engines.flat_partition import Partition
from dsconfig.memory.engines.muon_buffers import EXCHANGE, Exchange
from dsconfig.memory.engines.muon_param_groups import is_muon, needs
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero12 import Sharded
from dsconfig.memory.engines.zero12_state import COMPACT
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger

MOST = 64 << 20
"""Bytes of what is put together at once, and of the buffer (`_muon_allgather_max_buffer_bytes`)."""


class Orthogonal(Sharded):
    """`get_flat_partition`, at the end of the last backward pass, and the step that follows."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        found = frozenset(weight for weight in self.trained if is_muon(weight))
        self.matrices = frozenset() if setup.ways.muon_late else found
        self.own_matrices = [weight for weight in self.cut.own if weight in found]
        """Those of which this rank has a part."""
        self.first = self.groups[0][0][0] in found
        """Whether the first group is that of matrices."""
        self.piece = self.groups[0][1].size if self.first else 0
        """Elements of its piece of them."""
        self.exchange = Exchange(ledger)
        self.updates = 0
        """Bytes of what Muon has made of the gradients of matrices."""
        self.width = setup.width
        """Bytes of an element of a gradient of them: those in fp32 are of the rest alone."""
        self.made = 2 if setup.ways.muon_late else setup.width
        """And of what Muon makes of it."""

    def states(self) -> int:
        """Adam's of its part; the momentum of whole matrices, twice: kept, and of a step that may fail."""
        rule, setup, adam = self.setup.optimizer, self.setup, self.cut.size - self.piece
        if setup.offloads:  # momentum is cut as the masters are
            kept = 0 if setup.ways.muon_late else 4 * self.piece  # then it is SGD
            return (rule.kept(adam) + kept) * setup.master // 4
        momentum = self.width * sum(weight.elements for weight in self.own_matrices)
        return rule.kept(adam) * setup.master // 4 + momentum * (1 if setup.ways.muon_late else 2)

    def _epilogue(self) -> None:
        """Each matrix of this rank's is made orthogonal, whole."""
        added = self.partial if self.kept else 0
        super()._epilogue()
        if not self.boundary or self.setup.offloads:
            return
        self.ledger.take(GRADIENTS, added)  # those of this micro batch have names up to the end
        bucket = self.bucket_bytes if self.setup.contiguous and not self.casts else 0
        self.ledger.take(BUCKET, bucket)  # let go of at the end too (`_release_ipg_buffers`)
        setup, ledger, width = self.setup, self.ledger, self.width
        for weight in self.own_matrices:
            ledger.touch(TEMPORARY, needs(setup, weight, width))
            ledger.take(GRADIENTS, self.made * weight.elements)
            self.updates += self.made * weight.elements
        if not setup.contiguous:
            gone = sum(width * weight.elements for weight in self.own_matrices)
        else:  # views of one tensor
            gone = 0 if len(self.own_matrices) < len(self.cut.own) and not self.compact else self.kept
        for index, (members, cut, _) in enumerate(self.groups if self.compact else ()):
            if index not in self.compact_held and members[0] not in self.matrices:
                self.compact_held[index] = 4 * cut.size
                ledger.take(COMPACT, 4 * cut.size)
        ledger.give(GRADIENTS, gone + added)
        ledger.give(BUCKET, bucket)
        self.kept -= gone

    def step(self) -> None:
        """Offloaded, matrices are put together for it."""
        if self.setup.offloads and not self.setup.ways.muon_late:
            self._orthogonalise_offloaded()
        super().step()

    def update_group(self, cut: Partition, index: int, kept: int, *, steps: bool = True) -> None:
        """Of matrices the step has but to subtract."""
        if self.first and index == 0:
            super().update_group(cut, index, self.updates + kept, steps=False)
            self.updates = 0
        else:
            super().update_group(cut, index, kept, steps=steps)

    # ------------------------------------------------------------ offload
    def rest(self) -> None:
        """Buffers stay from the steps before; in the first no momentum is sent."""
        super().rest()
        if self.setup.offloads and self.setup.world > 1 and not self.setup.ways.muon_late:
            for tensors in (1, 2, 2):
                for batch in self._batches():
                    self.ledger.give(EXCHANGE, self._buffer(batch, tensors)[0])

    def _batches(self) -> Iterator[list[Weight]]:
        """`_muon_param_batches`."""
        batch, elements = list[Weight](), 0
        for weight in self.groups[0][0] if self.matrices else ():
            if batch and elements + weight.elements > MOST // 8:
                yield batch
                batch, elements = [], 0
            batch.append(weight)
            elements += weight.elements
        if batch:
            yield batch

    def _buffer(self, batch: list[Weight], tensors: int) -> tuple[int, int, int]:
        """Bytes of a buffer that do not stay, elements of a chunk in it, and how many of these there are."""
        world, width = self.setup.world, self.setup.master
        most = max(_elements_by_rank(self.piece_of[batch[0]][0], batch))
        chunk = min(most, max(1, MOST // ((world + 1) * tensors * width)))
        gone = self.exchange.use((chunk, tensors), chunk * tensors * (world + 1) * width)
        return gone, chunk, -(-most // chunk)

    def _orthogonalise_offloaded(self) -> None:
        """`_apply_muon_updates_cpu_offload`: each rank makes all matrices orthogonal."""
        setup, ledger, width = self.setup, self.ledger, self.setup.master
        for batch in self._batches():
            made = 2 * width * sum(weight.elements for weight in batch)
            ledger.take(EXCHANGE, made)
            if setup.world > 1:
                gone, chunk, times = self._buffer(batch, 2)
                ledger.give(EXCHANGE, gone)
                self.send("all_gather", 2 * chunk * setup.world, width, alike=times)
            update = 0
            for weight in batch:
                ledger.touch(TEMPORARY, update + needs(setup, weight, width))
                update = width * weight.elements
                ledger.touch(TEMPORARY, update + 12 * self.cut.parts.get(weight, 0))
            ledger.give(EXCHANGE, made)


def _elements_by_rank(cut: Partition, batch: list[Weight]) -> list[int]:
    """Elements of these matrices that each rank has."""
    found: dict[int, int] = {}
    for weight in batch:
        at, end = cut.starts[weight], cut.starts[weight] + weight.elements
        while at < end:
            to = at // cut.size
            stop = min(end, (to + 1) * cut.size)
            found[to] = found.get(to, 0) + stop - at
            at = stop
    return list(found.values())
