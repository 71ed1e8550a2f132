"""`StateStore`: the job's state in its store, changed only by compare-and-set.

Works with any store that has the few calls of `Store`: torch's, or a dict in a test.  Beside the state stand
the nodes' heartbeats and a *hint*, the revision of the state or an earlier one: it is small, so that a job of
hundreds of nodes does not read its whole state many times a second.
"""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol, TypeVar

from elastic.agent.bounded_call import BoundedCaller
from elastic.agent.errors import SettingsError, StoreLostError
from elastic.agent.state import State, decode

_T = TypeVar("_T")

_DOUBLINGS = 5
"""Of the longest pause between two attempts to change the state: 10 ms at first, 0.32 s at the end."""


class Store(Protocol):
    """What is needed of a `torch.distributed.Store`."""

    def set(self, key: str, value: str, /) -> None:
        """Write a key."""

    def get(self, key: str, /) -> bytes:
        """Read a key; blocks until it exists."""

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Read keys; blocks until all exist."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Write `desired` if the key holds `expected`, or is missing and `expected` is empty."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys exist."""


class StateStore:
    """One connection's view of the state; not to be shared between threads."""

    def __init__(self, store: Store, run_id: str, writer: str, limit: float = 15.0) -> None:
        self._caller = BoundedCaller(limit)
        self._store = store
        self._run_id = run_id
        self._writer = writer

    def create(self) -> None:
        """Write the first state, unless there is one already."""
        first = State(time.time_ns() // 1000, writer=self._writer)
        self._call(lambda: self._store.compare_set(self._key("hint"), "", "0"))
        self._call(lambda: self._store.compare_set(self._key("state"), "", first.encode()))

    def exists(self) -> bool:
        """Whether the job is known to the store."""
        return self._call(lambda: self._store.check([self._key("state")]))

    def read(self) -> State:
        """The state now."""
        return self._decode(self._call(lambda: self._store.get(self._key("state"))))

    def update(self, transition: Callable[[State], State]) -> State:
        """Apply a transition and return the new state; apply it again if another node wrote first.

        An exception that the transition raises ends the attempt.
        """
        for attempt in itertools.count():
            raw = self._call(lambda: self._store.get(self._key("state")))
            current = self._decode(raw)
            changed = transition(current)
            if changed is current or changed == current:
                return current
            desired = replace(changed, revision=current.revision + 1, writer=self._writer)
            if self._swap(raw.decode(), desired.encode()):
                self._call(partial(self._store.set, self._key("hint"), str(desired.revision)))
                return desired
            # Each failure means that more nodes are writing than was thought.
            time.sleep(random.uniform(0.0, 0.01 * 2 ** min(attempt, _DOUBLINGS)))
        raise AssertionError

    def send_heartbeat(self, count: int) -> None:
        """Say that this node is alive."""
        self._call(lambda: self._store.set(self._key(f"heartbeat/{self._writer}"), str(count)))

    def poll(self, nodes: Sequence[str]) -> tuple[int, dict[str, int]]:
        """The hint, and the last heartbeat of each of these nodes, all of which have sent one."""
        keys = [self._key("hint"), *(self._key(f"heartbeat/{node}") for node in nodes)]
        hint, *heartbeats = [int(value) for value in self._call(lambda: self._store.multi_get(keys))]
        return hint, dict(zip(nodes, heartbeats, strict=True))

    def close(self) -> None:
        """End the connection's thread; every later call raises."""
        self._caller.close()

    def _key(self, name: str) -> str:
        return f"dsconfig/{self._run_id}/{name}"

    def _swap(self, expected: str, desired: str) -> bool:
        # The store answers with what the key holds now; revision and writer make each text unique.
        held = self._call(lambda: self._store.compare_set(self._key("state"), expected, desired))
        return held.decode() == desired

    def _call(self, operation: Callable[[], _T]) -> _T:
        try:
            return self._caller.call(operation)
        except StoreLostError as error:
            raise StoreLostError(f"the store does not answer: {error}") from None

    def _decode(self, raw: bytes) -> State:
        try:
            return decode(raw)
        except ValueError as error:
            reason = f"the store's job `{self._run_id}` is not one of this release: {error}"
            raise SettingsError(f"{reason}; run the same release of dsconfig on every node") from None
