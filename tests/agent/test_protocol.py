"""The real pulses of some nodes in simulated time, frozen at random between any two calls to the store.

Whatever the order, a node is removed only when the lease of its workers has run out; and one that is dead is
removed.  Each seed is another minute of five nodes' lives.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elastic.agent import moves
from elastic.agent.board import Board
from elastic.agent.lease import Lease
from elastic.agent.pulse import Pulse
from elastic.agent.settings import Settings
from elastic.agent.state import State, decode
from tests.agent.test_state import DictStore

SETTINGS = Settings()
SECONDS = 60.0
NODES = ("n0", "n1", "n2", "n3", "n4")
BEFORE_A_CHANGE = 0.06
"""How often a node is frozen between what it has seen and what it writes: the worst moment."""


class World:
    """Virtual time: one node runs at a time, from one call to the store to the next."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = 1000.0
        self._queue: list[tuple[float, int, threading.Semaphore]] = []
        self._order = itertools.count()
        self._back = threading.Semaphore(0)

    def now(self) -> float:
        return self.clock

    def sleep(self, seconds: float) -> None:
        """Let the others run for so long."""
        own = threading.Semaphore(0)
        heapq.heappush(self._queue, (self.clock + seconds, next(self._order), own))
        self._back.release()
        own.acquire()

    def call(self, freezes: float = 0.01) -> None:
        """What a call to the store takes: mostly little, sometimes a freeze of the caller."""
        frozen = self.random.random() < freezes
        self.sleep(self.random.uniform(0.5, 9.0) if frozen else self.random.uniform(0.0005, 0.02))

    def start(self, life: Callable[[], None]) -> None:
        begin = threading.Semaphore(0)
        heapq.heappush(self._queue, (self.clock, next(self._order), begin))

        def run() -> None:
            begin.acquire()
            life()
            self._back.release()

        threading.Thread(target=run, daemon=True).start()

    def run(self) -> None:
        while self._queue:
            self.clock, _, turn = heapq.heappop(self._queue)
            turn.release()
            self._back.acquire()


class SlowStore(DictStore):
    """Takes virtual time before and after each call, and shows every new state to a judge."""

    def __init__(self, world: World, judge: Callable[[State, State], None]) -> None:
        super().__init__()
        self._world = world
        self._judge = judge

    def set(self, key: str, value: str, /) -> None:
        self._world.call()
        super().set(key, value)
        self._world.call()

    def get(self, key: str, /) -> bytes:
        self._world.call(BEFORE_A_CHANGE)
        held = super().get(key)
        self._world.call(BEFORE_A_CHANGE)
        return held

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        self._world.call()
        held = [self.data[key].encode() for key in keys]
        self._world.call()
        return held

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        self._world.call()
        held = super().compare_set(key, expected, desired)
        if expected and held.decode() == desired:
            self._judge(decode(expected), decode(desired))
        self._world.call()
        return held


class Life:
    """A node: its pulse, its lease, and coming back where it was removed."""

    def __init__(self, name: str, world: World, store: SlowStore, folder: Path) -> None:
        self.name = name
        self.lease = Lease(str(folder / name), create=True)
        self.dies = world.clock + world.random.uniform(20, 40) if name == "n0" else float("inf")
        self._world = world
        self._board = Board(store, "job", name, 60)
        self._pulse = Pulse(self._board, name, SETTINGS, lambda _: True)

    def live(self) -> None:
        self._board.open()
        self._pulse._beat()
        self._pulse.grant(self.lease)
        end = self._world.clock + SECONDS
        while self._world.clock < min(end, self.dies):
            if self._pulse.view is None or self._pulse.view.member(self.name) is None:
                self._board.update(self._join)
            self._pulse._tick()
            self._world.sleep(SETTINGS.poll)

    def _join(self, state: State) -> State:
        """At once in a group of all members that runs: how groups form is not what is tested here."""
        state = moves.arrive(state, self.name, "host", 1)
        group = tuple(member.node for member in state.members)
        return replace(state, phase="running", group=group, round=state.round + 1)


@pytest.mark.parametrize("seed", range(50))
def test_removal_never_overtakes_the_lease(seed: int, tmp_path: Path, monkeypatch: Any) -> None:
    world = World(seed)

    def judge(before: State, after: State) -> None:
        for member in before.members:
            if after.member(member.node) is None:
                left = lives[member.node].lease.left()
                faults.extend([f"{member.node} was removed {left:.2f} s too early"] if left > 0 else [])

    faults: list[str] = []
    for module in ("pulse", "lease"):
        monkeypatch.setattr(f"elastic.agent.{module}.now", world.now)
    monkeypatch.setattr("elastic.agent.board.time.sleep", world.sleep)
    monkeypatch.setattr("elastic.agent.board.random", world.random)
    store = SlowStore(world, judge)
    lives = {name: Life(name, world, store, tmp_path) for name in NODES}
    for life in lives.values():
        world.start(life.live)
    world.run()
    assert faults == []
    last = decode(store.data["dsconfig/job/state"])
    assert last.member("n0") is None, "a dead node must be found"
    assert last.members
