"""Gradients that stage 3 sends as int4, in a node and then between nodes (`zero_quantized_gradients`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import FLATTENED, GRADIENTS, Engine
from dsconfig.memory.graph import Weight
from dsconfig.memory.quantized_gather import sent_as_int4


class Quantised(Engine):
    """The part of stage 3 that sends gradients so."""

    buckets: dict[int, list[Weight]]
    """Gradients that wait, by the width of their type."""
    filled: dict[int, int]
    there: dict[Weight, int]
    """Those that have blocks of their own, in bytes."""

    def shard(self, weight: Weight) -> int:
        """Elements of a rank's part (`_aligned_size`)."""
        return -(-weight.elements // self.ranks_of(weight))

    def aligned(self, weight: Weight) -> int:
        """Elements of all parts, with what fills up the last."""
        return self.shard(weight) * self.ranks_of(weight)

    def reduce_quantised(self, kind: int) -> None:
        """`all_to_all_quant_reduce`: the gradients of a bucket, one after the other."""
        setup, ledger, world, held = self.setup, self.ledger, self.setup.world, 0
        for weight in self.buckets[kind]:
            count, shard = weight.elements, self.shard(weight)
            if not sent_as_int4(weight.shape, world):
                self.send("reduce_scatter", shard * world, kind)
                ledger.touch(FLATTENED, kind * shard * world if count % world else 0)
            else:
                self.send("all_to_all", count // 2, 1, setup.node)
                self.send("all_to_all", count // 2 // setup.node, 1, world // setup.node)
                ledger.touch(FLATTENED, count)
            ledger.take(FLATTENED, setup.gradient * shard)
            held += setup.gradient * shard
            if weight in self.there:
                ledger.give(GRADIENTS, self.there.pop(weight))
        ledger.give(FLATTENED, held)
        self.buckets[kind] = []
        if not setup.ways.never_empties:
            self.filled[kind] = 0
