"""Stage 0: every rank holds everything; gradients are averaged at the end (`engine.allreduce_gradients`)."""

from __future__ import annotations

from dsconfig.memory.engines.base import FLATTENED, GRADIENTS, MASTER, STATES, TEMPORARY, WEIGHTS, Engine
from dsconfig.memory.engines.param_groups import by_kind
from dsconfig.memory.graph import Weight

CHUNK = 500_000_000
"""Elements of a flattened copy (`engine.buffered_allreduce_fallback`)."""


class Whole(Engine):
    """`FP16_Optimizer` around bf16 and fp16, the bare optimizer around fp32."""

    def rest(self) -> None:
        """Weights, and for half precision their masters; the optimizer's states."""
        self.ledger.take(WEIGHTS, self.setup.width * self.everything)
        if self.setup.half:
            self.ledger.take(MASTER, self.setup.master * self.elements)
        self.ledger.take(STATES, (self.begun if self.setup.half else 0) + self._states())
        self.keeps = self.setup.half == "bf16" and self.setup.stage in self.setup.ways.keeps_gradients
        self.there = set[Weight](self.trained if self.keeps else ())
        self.ledger.take(GRADIENTS, self.setup.width * self.elements if self.keeps else 0)

    def load(self) -> None:
        """Half precision: the masters, and a step with gradients of zeros that makes the states."""
        self.build()
        if self.setup.half:
            gradients = self.setup.master * self.elements
            self.ledger.take(MASTER, self.setup.master * self.elements)
            self.ledger.take(TEMPORARY, gradients)
            if not self.setup.optimizer.flat:
                self.ledger.take(GRADIENTS, self.setup.width * self.elements)
            self.ledger.take(STATES, self._states())
            largest = max((weight.elements for weight in self.trained), default=0)
            self.update(self.elements, self.elements if self.setup.optimizer.flat else largest)

    def _states(self) -> int:
        """Bytes of the optimizer's states."""
        return self.setup.optimizer.kept(self.elements)

    def gradient(self, weight: Weight, count: int) -> None:
        """It stays, and later ones are added to it."""
        if weight in self.there:
            self.ledger.give(GRADIENTS, count)
        self.there.add(weight)

    def after(self) -> None:
        """At the boundary all gradients are flattened, chunk by chunk, and averaged."""
        if not self.boundary:
            return
        setup = self.setup
        sent = setup.sent if setup.sent != setup.width or setup.retyped else 0
        for members in by_kind(self.trained):
            count = sum(weight.elements for weight in members)
            self.ledger.touch(FLATTENED, (self.setup.width + sent) * min(count, CHUNK))
            chunk = 0
            for weight in members:
                chunk += weight.elements
                if chunk > CHUNK or weight is members[-1]:
                    self.send("all_reduce", chunk, self.setup.sent, self.ranks_of(weight))
                    chunk = 0

    def step(self) -> None:
        """Half precision: one flat fp32 gradient; else the gradients as they are."""
        setup, ledger = self.setup, self.ledger
        largest = max((weight.elements for weight in self.trained), default=0)
        if setup.half and setup.optimizer.flat:
            # each gradient in fp32, all of them at once, and one flat tensor of them (`FP16_Optimizer.step`)
            ledger.take(TEMPORARY, 2 * setup.master * self.elements)
            ledger.give(TEMPORARY, setup.master * self.elements)
            self._drop_gradients()
            self.update(self.elements, self.elements)
            ledger.give(TEMPORARY, setup.master * self.elements)
        elif setup.half:  # `FP16_UnfusedOptimizer.step`: gradients in fp32 beside the others
            ledger.take(TEMPORARY, setup.master * self.elements)
            self.update(self.elements, largest)
            ledger.give(TEMPORARY, setup.master * self.elements)
            self._drop_gradients()
        else:
            self.update(self.elements, largest)
            self._drop_gradients()

    def _drop_gradients(self) -> None:
        if not self.keeps:
            self.ledger.give(GRADIENTS, self.setup.width * self.elements)
            self.there.clear()
