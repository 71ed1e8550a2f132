"""`LastCall`: whether the first group has waited long enough for more nodes."""

from __future__ import annotations

import time

LONGEST = 10
"""The whole wait, in waits for one node: a node that comes and goes must not delay the others for ever."""


class LastCall:
    """Counts for how long the same nodes have been there."""

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._nodes: tuple[str, ...] | None = None
        self._since = self._began = time.monotonic()

    def has_passed(self, nodes: tuple[str, ...]) -> bool:
        """Whether no node has come or gone for a while."""
        moment = time.monotonic()
        if nodes != self._nodes:
            self._nodes, self._since = nodes, moment
        return moment - self._since >= self._wait or moment - self._began >= LONGEST * self._wait
