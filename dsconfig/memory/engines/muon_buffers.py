"""Buffers in which Muon's matrices are put together; up to a size they stay from step to step."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable

from dsconfig.memory.memory_ledger import Ledger

EXCHANGE = "buffers that put matrices together"
CACHED = 256 << 20
"""Bytes of them that stay (`_muon_allgather_max_cached_bytes`)."""


class Exchange:
    """What stays, the longest unused first."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.kept: OrderedDict[Hashable, int] = OrderedDict()

    def use(self, key: Hashable, count: int) -> int:
        """Take a buffer, or have it already: bytes of it that do not stay."""
        if key in self.kept:
            self.kept.move_to_end(key)
            return 0
        if count > CACHED:
            self.ledger.take(EXCHANGE, count)
            return count
        while self.kept and sum(self.kept.values()) + count > CACHED:
            self.ledger.give(EXCHANGE, self.kept.popitem(last=False)[1])
        self.kept[key] = count
        self.ledger.take(EXCHANGE, count)
        return 0
