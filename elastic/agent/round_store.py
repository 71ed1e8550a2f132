"""`RoundStore`: the store of one round, as torch's agent gets it.  Imports torch."""

from __future__ import annotations

from datetime import timedelta

from torch.distributed import PrefixStore, Store

from elastic.agent.bounded_call import BoundedCaller

LINGER = 10.0
"""Seconds that the node which hosts the store waits at the end for the others to leave."""


class RoundStore(PrefixStore):
    """The store of one round, which torch uses in its exit barrier only.

    It enters that when all workers of the node have ended well, and waits 300 s for a node that was killed
    since (`elastic/agent/server/api.py`, `SimpleElasticAgent._exit_barrier`); nobody needs that long here.
    """

    used = False
    """Whether the workers have ended well."""

    def __init__(self, prefix: str, store: Store, caller: BoundedCaller) -> None:
        super().__init__(prefix, store)
        self._caller = caller

    def add(self, key: str, value: int) -> int:
        """As torch's, but it ends in time."""
        return self._caller.call(lambda: super(RoundStore, self).add(key, value))

    def wait(self, keys: list[str], *timeout: timedelta) -> None:
        """As torch's, but it ends in time."""
        self._caller.call(lambda: super(RoundStore, self).wait(keys, *timeout))

    def set_timeout(self, timeout: timedelta) -> None:
        """As torch's, but never longer than `LINGER` x 3."""
        self.used = True
        super().set_timeout(min(timeout, timedelta(seconds=3 * LINGER)))
