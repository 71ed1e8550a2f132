"""Stages 1 and 2 with gradients in fp32 tensor by tensor, as releases before 0.19.8 keep them."""

from __future__ import annotations

from dsconfig.memory.engines.base import GRADIENTS
from dsconfig.memory.engines.setup import Setup
from dsconfig.memory.engines.zero12 import Sharded
from dsconfig.memory.graph import Tape, Weight
from dsconfig.memory.memory_ledger import Ledger


class Listed(Sharded):
    """What is sent is a copy in the model's type, for each who asks (`get_gradient_for_reduction`)."""

    def __init__(self, setup: Setup, tape: Tape, ledger: Ledger) -> None:
        super().__init__(setup, tape, ledger)
        self.asked = self.large = 0
        """Bytes of the copies that `reduce_gradients` has, and a bucket whose only gradient is too large."""

    def reduce_ready(self, weight: Weight) -> None:
        """The copy goes into the bucket, or stays where it is larger."""
        setup, ledger, kind = self.setup, self.ledger, self.kind_of(weight)
        copy = setup.width * weight.elements
        if setup.stage == 1 and not setup.overlap:  # its caller has one too
            ledger.take(GRADIENTS, copy - self.asked)
            self.asked = copy
        ledger.take(GRADIENTS, copy)
        if self.filled[kind] + weight.elements > setup.bucket:
            self.reduce(kind)
        if weight.elements > setup.bucket:
            self.large = copy
        else:
            ledger.give(GRADIENTS, copy)
        self.buckets[kind].append(weight)
        self.filled[kind] += weight.elements

    def reduce(self, kind: int) -> None:
        """Of what is too large there is one more copy."""
        self.ledger.take(GRADIENTS, self.large)
        super().reduce(kind)
        self.ledger.give(GRADIENTS, 2 * self.large)
        self.large = 0

    def after(self) -> None:
        """The last copy goes with its loop."""
        super().after()
        self.ledger.give(GRADIENTS, self.asked)
        self.asked = 0
