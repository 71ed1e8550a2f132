"""`Board`: the job's state in its store, changed by compare-and-set only.

Works with any store that has the few calls of `Store`: torch's, or a dict in a test.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar

from elastic.agent.errors import StoreLostError
from elastic.agent.state import State, decode

_T = TypeVar("_T")


class Store(Protocol):
    """What is needed of a `torch.distributed.Store`."""

    def set(self, key: str, value: str, /) -> None:
        """Write a key."""

    def get(self, key: str, /) -> bytes:
        """Read a key; blocks where there is none."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Write `desired` where the key holds `expected`, or is missing and that is empty."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys exist."""


class Board:
    """One connection's view of the state; not to be shared between threads."""

    def __init__(self, store: Store, run_id: str, writer: str) -> None:
        self._store = store
        self._prefix = f"dsconfig/{run_id}"
        self._writer = writer

    def open(self) -> None:
        """Make the state where there is none."""
        first = State(int(time.time()), writer=self._writer)
        self._call(lambda: self._store.compare_set(self._key, "", first.encode()))

    def exists(self) -> bool:
        """Whether the job is known to the store."""
        return self._call(lambda: self._store.check([self._key]))

    def read(self) -> State:
        """The state now."""
        return decode(self._call(lambda: self._store.get(self._key)))

    def update(self, move: Callable[[State], State]) -> State:
        """Apply a move, again on the newer state where another node was first, and return what came of it.

        What the move raises ends the attempt.
        """
        while True:
            raw = self._call(lambda: self._store.get(self._key)).decode()
            now = decode(raw)
            moved = move(now)
            if moved is now or moved == now:
                return now
            wanted = replace(moved, revision=now.revision + 1, writer=self._writer)
            text = wanted.encode()
            if self._swap(raw, text):
                return wanted
            time.sleep(random.uniform(0.0, 0.02))

    def beat(self, count: int) -> None:
        """Say that this node is alive."""
        self._call(lambda: self._store.set(f"{self._prefix}/beat/{self._writer}", str(count)))

    def beat_of(self, node: str) -> str:
        """The last heartbeat of a node, empty where it has none yet."""
        key = f"{self._prefix}/beat/{node}"
        if not self._call(lambda: self._store.check([key])):
            return ""
        return self._call(lambda: self._store.get(key)).decode()

    @property
    def _key(self) -> str:
        return f"{self._prefix}/state"

    def _swap(self, expected: str, desired: str) -> bool:
        # The store answers with what the key holds now; revision and writer make each text unique.
        return self._call(lambda: self._store.compare_set(self._key, expected, desired)).decode() == desired

    def _call(self, operation: Callable[[], _T]) -> _T:
        try:
            return operation()
        except (RuntimeError, OSError) as error:  # torch's DistError is a RuntimeError
            reason = str(error).partition("\n")[0] or type(error).__name__
            raise StoreLostError(f"the store does not answer: {reason}") from error
