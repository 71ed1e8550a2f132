"""`Quiet`: whether the first group has waited long enough for more nodes."""

from __future__ import annotations

import time

LONGEST = 10
"""Of the wait for more, in waits for one: a node that comes and goes must not hold up the others for ever."""


class Quiet:
    """Counts for how long the same nodes have been there."""

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._nodes: tuple[str, ...] | None = None
        self._since = self._began = time.monotonic()

    def settled(self, nodes: tuple[str, ...]) -> bool:
        """Whether no other nodes have come or gone for a while."""
        moment = time.monotonic()
        if nodes != self._nodes:
            self._nodes, self._since = nodes, moment
        return moment - self._since >= self._wait or moment - self._began >= LONGEST * self._wait
