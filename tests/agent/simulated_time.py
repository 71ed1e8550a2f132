"""Simulated time for the agent's own code: one thread at a time runs, from one call to the store to the next.

The code under test is the real one, with its threads; only its clocks, its sleeps and the store are replaced,
and the limit of a call to the store, which is one of real time.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from elastic.agent.errors import StoreLostError
from elastic.agent.job_state import JobState, decode_state
from tests.agent.fakes import DictStore

_T = TypeVar("_T")
LONGEST_FREEZE = 9.0
"""Longest simulated time in seconds of a call to the store."""


class Over(BaseException):
    """The simulation has ended: so do its threads."""


def _closed() -> threading.Lock:
    """A lock that one thread waits for and another opens, once; it takes far less time than a semaphore."""
    lock = threading.Lock()
    lock.acquire()
    return lock


class DirectCaller:
    """Calls the store in the thread that asks, and without a limit.

    With a limit in real time, a thread on a busy machine would give up a call and go on beside the thread whose
    turn it is.
    """

    def __init__(self, _limit: float) -> None:
        self._closed = False

    def call(self, operation: Callable[[], _T]) -> _T:
        if self._closed:
            raise StoreLostError("the connection was closed")
        return operation()

    def close(self) -> None:
        self._closed = True


class World:
    """The clock, and whose turn it is."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = 1000.0
        self.freezes = True
        self._queue: list[tuple[float, int, threading.Lock]] = []
        self._order = itertools.count()
        self._until = 0.0
        self._back = _closed()
        self._of = threading.local()
        self._asleep: set[threading.Lock] = set()
        self._over = False
        self.errors: list[Exception] = []

    def now(self) -> float:
        return self.clock

    monotonic = now

    def sleep(self, seconds: float) -> None:
        """Let the others run for so long; for ever if the host of this thread has died."""
        if self._over:  # called by what a thread does as it ends
            raise Over
        turn = _closed()
        if not getattr(self._of, "dead", lambda: False)():
            heapq.heappush(self._queue, (self.clock + seconds, next(self._order), turn))
        self._asleep.add(turn)
        self._pass_on()
        turn.acquire()
        if self._over:
            raise Over
        self._asleep.remove(turn)

    def call(self, freezes: float = 0.01) -> None:
        """Let the time of a call to the store pass: mostly little, sometimes a freeze of the caller."""
        frozen = self.freezes and self.random.random() < freezes
        self.sleep(self.random.uniform(0.5, LONGEST_FREEZE) if frozen else self.random.uniform(0.0005, 0.02))

    def start(self, life: Callable[[], None], dead: Callable[[], bool] = lambda: False) -> None:
        """Begin a thread of a host."""
        begin = _closed()
        heapq.heappush(self._queue, (self.clock, next(self._order), begin))

        def run() -> None:
            self._of.dead = dead
            begin.acquire()
            try:
                life()
            except Over:
                pass
            except Exception as error:
                self.errors.append(error)
            finally:
                if not self._over:
                    self._pass_on()

        threading.Thread(target=run, daemon=True).start()

    def run(self, until: float = float("inf")) -> None:
        """Go on until nobody is left, or until this moment."""
        self._until = until
        self._pass_on()
        self._back.acquire()

    def _pass_on(self) -> None:
        """Give the turn to the thread whose time comes first, or back to `run` where there is none."""
        if self._queue and self._queue[0][0] <= self._until:
            self.clock, _, turn = heapq.heappop(self._queue)
            turn.release()
        else:
            self._back.release()

    def end(self) -> None:
        """End all threads."""
        self._over = True
        for one in self._asleep:
            one.release()

    def patch(self, monkeypatch: Any, modules: Iterable[str]) -> None:
        """Have modules of `elastic` live here: those with a clock of their own, and those that use `time`."""
        import importlib

        monkeypatch.setattr("elastic.agent.state_store.BoundedCaller", DirectCaller)
        for name in modules:
            module = importlib.import_module(f"elastic.{name}")
            for attribute, value in (("lease_clock", self.now), ("time", self), ("random", self.random)):
                if hasattr(module, attribute):
                    monkeypatch.setattr(module, attribute, value)

    def time(self) -> float:
        return self.clock

    def time_ns(self) -> int:
        return int(self.clock * 1e9)


class SlowStore(DictStore):
    """A connection to a shared store: takes virtual time before and after each call."""

    def __init__(
        self,
        world: World,
        data: dict[str, str],
        judge: Callable[[JobState, JobState], None],
        freezes_before_changes: float = 0.01,
    ) -> None:
        super().__init__()
        self.data = data
        self._world = world
        self._judge = judge
        self._freezes = freezes_before_changes

    def _pass(self, freezes: float = 0.01) -> None:
        self._world.call(freezes)

    def set(self, key: str, value: str, /) -> None:
        self._pass()
        super().set(key, value)
        self._pass()

    def multi_set(self, keys: list[str], values: list[str], /) -> None:
        self._pass()
        super().multi_set(keys, values)
        self._pass()

    def get(self, key: str, /) -> bytes:
        self._pass(self._freezes)
        value = super().get(key)
        self._pass(self._freezes)
        return value

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        self._pass()
        values = [self.data[key].encode() for key in keys]
        self._pass()
        return values

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        self._pass()
        value = super().compare_set(key, expected, desired)
        if expected and value.decode() == desired and key.endswith("state"):
            self._judge(decode_state(expected), decode_state(desired))
        self._pass()
        return value
