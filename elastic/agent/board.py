"""`Board`: the job's state in its store, changed by compare-and-set only.

Works with any store that has the few calls of `Store`: torch's, or a dict in a test.  Beside the state stand
the nodes' heartbeats and a *hint*, the revision of the state or an older one: it is small, so that a job of
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

from elastic.agent.errors import SettingsError, StoreLostError
from elastic.agent.line import Line
from elastic.agent.state import State, decode

_T = TypeVar("_T")

_DOUBLINGS = 5
"""Of the longest pause between two attempts to change the state: 10 ms at first, 0.32 s at most."""


class Store(Protocol):
    """What is needed of a `torch.distributed.Store`."""

    def set(self, key: str, value: str, /) -> None:
        """Write a key."""

    def get(self, key: str, /) -> bytes:
        """Read a key; blocks where there is none."""

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        """Read keys; blocks where one is missing."""

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        """Write `desired` where the key holds `expected`, or is missing and that is empty."""

    def check(self, keys: list[str], /) -> bool:
        """Whether all keys exist."""


class Board:
    """One connection's view of the state; not to be shared between threads."""

    def __init__(self, store: Store, run_id: str, writer: str, limit: float = 15.0) -> None:
        self._line = Line(limit)
        self._store = store
        self._run_id = run_id
        self._writer = writer

    def open(self) -> None:
        """Make the state where there is none."""
        first = State(time.time_ns() // 1000, writer=self._writer)
        self._call(lambda: self._store.compare_set(self._key("hint"), "", "0"))
        self._call(lambda: self._store.compare_set(self._key("state"), "", first.encode()))

    def exists(self) -> bool:
        """Whether the job is known to the store."""
        return self._call(lambda: self._store.check([self._key("state")]))

    def read(self) -> State:
        """The state now."""
        return self._decode(self._call(lambda: self._store.get(self._key("state"))))

    def update(self, move: Callable[[State], State]) -> State:
        """Apply a move, again on the newer state where another node was first, and return what came of it.

        What the move raises ends the attempt.
        """
        for attempt in itertools.count():
            raw = self._call(lambda: self._store.get(self._key("state")))
            now = self._decode(raw)
            moved = move(now)
            if moved is now or moved == now:
                return now
            wanted = replace(moved, revision=now.revision + 1, writer=self._writer)
            if self._swap(raw.decode(), wanted.encode()):
                self._call(partial(self._store.set, self._key("hint"), str(wanted.revision)))
                return wanted
            # Each failure says that more nodes are at it than was thought.
            time.sleep(random.uniform(0.0, 0.01 * 2 ** min(attempt, _DOUBLINGS)))
        raise AssertionError

    def beat(self, count: int) -> None:
        """Say that this node is alive."""
        self._call(lambda: self._store.set(self._key(f"beat/{self._writer}"), str(count)))

    def look(self, nodes: Sequence[str]) -> tuple[int, dict[str, int]]:
        """The hint, and the last heartbeat of each of these nodes, which have all beaten once."""
        keys = [self._key("hint"), *(self._key(f"beat/{node}") for node in nodes)]
        hint, *beats = [int(value) for value in self._call(lambda: self._store.multi_get(keys))]
        return hint, dict(zip(nodes, beats, strict=True))

    def close(self) -> None:
        """Give the connection's thread back; nothing can be asked after that."""
        self._line.close()

    def _key(self, name: str) -> str:
        return f"dsconfig/{self._run_id}/{name}"

    def _swap(self, expected: str, desired: str) -> bool:
        # The store answers with what the key holds now; revision and writer make each text unique.
        held = self._call(lambda: self._store.compare_set(self._key("state"), expected, desired))
        return held.decode() == desired

    def _call(self, operation: Callable[[], _T]) -> _T:
        try:
            return self._line.call(operation)
        except StoreLostError as error:
            raise StoreLostError(f"the store does not answer: {error}") from None

    def _decode(self, raw: bytes) -> State:
        try:
            return decode(raw)
        except ValueError as error:
            reason = f"the store's job `{self._run_id}` is not one of this release: {error}"
            raise SettingsError(f"{reason}; run the same release of dsconfig on every node") from None
