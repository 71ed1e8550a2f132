"""What stage 3 gathers: parameters by one call, and the memory of each."""

from __future__ import annotations

from collections.abc import Sequence

from dsconfig.memory.graph import Weight


class Batch:
    """Parameters gathered by one call, and the buffer that they arrive in."""

    __slots__ = ("alone", "buffer", "left", "mates", "weights")

    def __init__(self, weights: Sequence[Weight], buffer: int, alone: bool) -> None:
        self.weights, self.left, self.buffer, self.alone = tuple(weights), len(weights), buffer, alone
        """`alone`: whether the call is for one parameter, which stays where it arrives."""
        self.mates = [self]
        """Those of other types or groups of ranks, waited for with it (`MultipleAllGatherHandles`)."""


class Block:
    """The memory of a gathered parameter, and how many have it: the parameter, and views in the graph."""

    __slots__ = ("bytes", "owners")

    def __init__(self, count: int) -> None:
        self.bytes, self.owners = count, 1
