"""Stage 3 with Muon: matrices are put together a bucket at a time, and made orthogonal one on each rank."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.memory.engines.base import TEMPORARY
from dsconfig.memory.engines.muon_buffers import EXCHANGE, Exchange
from dsconfig.memory.engines.muon_param_groups import halves, is_muon, needs
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero3 import Partitioned
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger

LARGEST = 1 << 60
"""More than any bucket."""


class OrthogonalShards(Partitioned):
    """`_apply_muon_to_accumulated_grads`."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        self.exchange = Exchange(ledger)
        matrices = next((half for half in halves(setup, self.trained) if is_muon(half[0])), [])
        self.chunks = list(self._chunks(matrices))
        """Matrices that are put together at once."""
        self.matrix_groups = len(self.divided(matrices)) if matrices else 0

    def _chunks(self, matrices: list[Weight]) -> Iterator[list[Weight]]:
        """Matrices of a sub-group, as many at a time as fit into the reduce bucket; all, where offloaded."""
        most = LARGEST if self.setup.offloads else self.setup.bucket
        at = 0
        for group in self.divided(matrices) if matrices else ():
            members, at = matrices[at : at + len(group)], at + len(group)
            chunk: list[Weight] = []
            for weight in members:
                if chunk and sum(found.elements for found in chunk) + weight.elements > most:
                    yield chunk
                    chunk = []
                chunk.append(weight)
            yield chunk

    def rest(self) -> None:
        """Buffers stay from the step before."""
        super().rest()
        if self.setup.world > 1:
            for chunk in self.chunks * 2:
                self.ledger.give(EXCHANGE, self._buffer(chunk))

    def states(self, index: int, count: int) -> int:
        """Momenta have the type in which gradients are sent."""
        return self.setup.sent * count if index < self.matrix_groups else super().states(index, count)

    def early_states(self, index: int, count: int) -> int:
        """Momenta are made with the masters."""
        return self.states(index, count) if index < self.matrix_groups else 0

    def update_group(self, index: int, count: int, *, host: bool) -> None:
        """Of matrices the step has but to subtract."""
        if index >= self.matrix_groups:
            super().update_group(index, count, host=host)

    def _buffer(self, chunk: list[Weight]) -> int:
        """Bytes that do not stay of the buffer for a bucket; offloaded momenta come with the gradients."""
        setup, local = self.setup, sum(map(self.shard, chunk))
        if setup.offloads:
            return self.exchange.use(local, setup.gradient * 2 * local * (setup.world + 1))
        return self.exchange.use(local, setup.sent * local * (setup.world + 1))

    def _gather_parts(self, chunk: list[Weight]) -> int:
        """Put gradients or momenta together, both where they are offloaded: bytes of what is made."""
        setup, local = self.setup, sum(map(self.shard, chunk))
        width, count = (setup.gradient, 2 * local) if setup.offloads else (setup.sent, local)
        gone = self._buffer(chunk)
        made = width * count * setup.world
        self.ledger.take(EXCHANGE, made)
        self.ledger.give(EXCHANGE, gone)
        self.send("all_gather", count * setup.world, width)
        return made

    def orthogonalise(self) -> None:
        """In the step, before the norm is taken."""
        setup, ledger, left = self.setup, self.ledger, 0
        if setup.offloads:
            self._orthogonalise_offloaded()
            return
        for chunk in self.chunks:
            if setup.world == 1:
                self._round(chunk)
                continue
            gradients = self._gather_parts(chunk)
            clones = setup.sent * sum(map(self.shard, chunk))
            ledger.take(TEMPORARY, clones)
            momenta = self._gather_parts(chunk)
            self._rounds(chunk)
            ledger.give(EXCHANGE, momenta + left)
            ledger.give(TEMPORARY, clones)
            left = gradients  # Python has a name for the last of them until the next are there
        ledger.give(EXCHANGE, left)

    def _orthogonalise_offloaded(self) -> None:
        """`_apply_muon_updates_cpu_offload`: each rank makes all matrices of a sub-group orthogonal."""
        setup, ledger, width = self.setup, self.ledger, self.setup.gradient
        left = made = 0
        for index, chunk in enumerate(self.chunks):
            local = sum(map(self.shard, chunk))
            copied = (setup.master + setup.sent) * local if self.on_host(index) else 0
            ledger.rank.add(TEMPORARY, copied)  # parts that come from the host: on a CPU they are there
            if setup.world > 1:
                both = self._gather_parts(chunk)
            else:
                both = sum(width * local for other in (setup.master, setup.sent) if other != width)
                ledger.take(EXCHANGE, both)
            ledger.give(EXCHANGE, left)
            left = both
            for weight in chunk:
                ledger.touch(TEMPORARY, needs(setup, weight, width))
                ledger.give(TEMPORARY, made)
                made = width * weight.elements
                ledger.take(TEMPORARY, made)
                ledger.touch(TEMPORARY, (width + max(8, setup.master + width)) * self.shard(weight))
            ledger.rank.add(TEMPORARY, -copied)
        ledger.give(TEMPORARY, made)
        ledger.give(EXCHANGE, left)

    def _round(self, chunk: list[Weight]) -> None:
        setup = self.setup
        clones = setup.sent * sum(weight.elements for weight in chunk)
        self.ledger.take(TEMPORARY, clones)
        made = 0
        for weight in chunk:
            self.ledger.touch(TEMPORARY, made + needs(setup, weight, setup.sent))
            made = setup.sent * weight.elements
        self.ledger.give(TEMPORARY, clones)

    def _rounds(self, chunk: list[Weight]) -> None:
        """As many matrices at a time as there are ranks, one on each; those of unlike shapes are padded."""
        setup, ledger, width = self.setup, self.ledger, self.setup.sent
        old = made = local = 0
        for start in range(0, len(chunk), setup.world):
            turn = chunk[start : start + setup.world]
            most = width * max(weight.elements for weight in turn)
            even = len(turn) == setup.world and len({weight.shape for weight in turn}) == 1
            if setup.rank < len(turn):
                weight = turn[setup.rank]
                ledger.touch(TEMPORARY, needs(setup, weight, width))
                ledger.give(TEMPORARY, made)
                made = width * weight.elements
                ledger.take(TEMPORARY, made)
            fresh = 0 if even else setup.world * most
            own = 0 if even else 2 * most
            ledger.take(EXCHANGE, own)
            ledger.give(EXCHANGE, local)
            for _ in "gm":  # gradients, then momenta
                ledger.take(EXCHANGE, fresh)
                ledger.give(EXCHANGE, old)
                self.send("all_gather", setup.world * most // width, width)
            ledger.rank.add(EXCHANGE, 2 * setup.world * most)  # NCCL gathers lists by one tensor more
            ledger.rank.add(EXCHANGE, -2 * setup.world * most)
            local, old = own, fresh
        ledger.give(EXCHANGE, local + 2 * old)
        ledger.give(TEMPORARY, made)
