"""Real pulses, and whole nodes, in simulated time, frozen at random between any two calls to the store.

Each seed is some minutes of a few nodes' lives.  Whatever the order of things: a node is removed only when
the lease of its workers has run out; nobody begins to train while workers of another round may go on; and
when nothing happens any more, everybody trains or stands by.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elastic.agent import moves
from elastic.agent.board import Board
from elastic.agent.errors import StoreLostError
from elastic.agent.node import Drained, Node
from elastic.agent.outlook import Outlook
from elastic.agent.pulse import Pulse
from elastic.agent.settings import Settings
from elastic.agent.state import State, decode
from elastic.worker.lease import Lease
from tests.agent.test_state import job_of
from tests.agent.virtual import SlowStore, World

SETTINGS = Settings()
BEFORE_A_CHANGE = 0.06
"""How often a node is frozen between what it has seen and what it writes: the worst moment."""


class Heart:
    """A node that does nothing but beat, and that comes back where it was removed."""

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
        end = self._world.clock + 60
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
    world, data = World(seed), dict[str, str]()
    faults: list[str] = []

    def judge(before: State, after: State) -> None:
        for member in before.members:
            if after.member(member.node) is None:
                left = hearts[member.node].lease.left()
                faults.extend([f"{member.node} was removed {left:.2f} s too early"] if left > 0 else [])

    world.patch(monkeypatch, ["agent.pulse", "worker.lease", "agent.board"])
    store = SlowStore(world, data, judge, BEFORE_A_CHANGE)
    hearts = {name: Heart(name, world, store, tmp_path) for name in ("n0", "n1", "n2", "n3", "n4")}
    for heart in hearts.values():
        world.start(heart.live)
    world.run()
    world.end()
    assert faults == []
    last = decode(data["dsconfig/job/state"])
    assert last.member("n0") is None, "a dead node must be found"
    assert last.members


class Host:
    """A whole node; what torch's agent does for it is here: starts workers, looks at them, stops them."""

    def __init__(self, number: int, world: World, connect: Callable[..., SlowStore], folder: Path) -> None:
        self.number = number
        self.dead = False
        self.done = False
        self.fails = False
        self.training = 0
        self.began: Callable[[Host], None] = lambda _: None
        self._world = world
        self._connect = partial(connect, dead=lambda: self.dead)
        folder = folder / str(number)
        folder.mkdir()
        self.node = Node(job_of(), SETTINGS, "job", "localhost", str(folder))
        self.node.job = replace(self.node.job, max_restarts=None)

    @property
    def lease_left(self) -> float:
        return self.node._lease.left() if self.node._lease else -1.0

    def live(self) -> None:
        self.node.open(self._connect(), self._connect)
        pulse = self.node._pulse
        self._world.start(lambda: self._pulse(pulse), lambda: self.dead)
        try:
            while True:
                self.node.join()
                assert self.node._place is not None
                self.training = self.node._place.round
                self.began(self)
                self._watch_workers()
                self.training = 0
        except Drained:
            self.training, self.done = 0, True
            self.node.leave()

    def _pulse(self, pulse: Pulse) -> None:
        with contextlib.suppress(StoreLostError):  # its line is closed when the node leaves
            while not self.done:
                pulse._tick()
                self._world.sleep(SETTINGS.poll)

    def _watch_workers(self) -> None:
        """Until they have ended: with their lease, by a fault of their own, or stopped for a change."""
        self.fails = False
        while self.lease_left > 0 and not self.fails:
            self._world.sleep(0.1)
            if self.node.waiting():
                self._world.sleep(self._world.random.uniform(0.1, 3))
                return


EVENTS = ("fail", "fail", "kill", "join", "join", "drain", "commit", "commit")


class Story:
    """Two minutes of events, and a quiet end."""

    def __init__(self, seed: int, folder: Path) -> None:
        self.world = World(seed)
        self.data: dict[str, str] = {}
        self.hosts: list[Host] = []
        self.faults: list[str] = []
        self._folder = folder

    def tell(self) -> None:
        for _ in range(3):
            self._join()
        for moment in sorted(self.world.random.uniform(5, 120) for _ in range(14)):
            self.world.run(1000 + moment)
            self._happen(self.world.random.choice(EVENTS))
        self.world.freezes = False
        self.world.run(1000 + 240)

    @property
    def live(self) -> list[Host]:
        return [host for host in self.hosts if not host.dead and not host.done]

    @property
    def state(self) -> State:
        return decode(self.data["dsconfig/job/state"])

    def _join(self) -> None:
        host = Host(len(self.hosts), self.world, self._connect, self._folder)
        host.began = self._began
        self.hosts.append(host)
        self.world.start(host.live, lambda: host.dead)

    def _connect(self, dead: Callable[[], bool]) -> SlowStore:
        return SlowStore(self.world, self.data, lambda *_: None, dead=dead)

    def _began(self, host: Host) -> None:
        for other in self.hosts:
            if 0 < other.training < host.training and other.lease_left > 0:
                rounds = f"{other.training} beside {host.number} in {host.training}"
                self.faults.append(f"{other.number} may train in round {rounds}")

    def _happen(self, event: str) -> None:
        live = [host for host in self.live if not host.node.drain.asked]
        if event == "join":
            if len(live) < 5:
                self._join()
            return
        host = self.world.random.choice(live)
        if event == "fail":
            host.fails = True
        elif event == "commit" and host.training:
            self.data["dsconfig/job/state"] = moves.commit(
                replace(self.state, revision=self.state.revision + 1), host.node.name, host.training, "c"
            ).encode()
        elif event == "kill" and len(live) > 1:
            host.dead = True
        elif event == "drain" and len(live) > 1:
            host.node.drain.asked = True


@pytest.mark.parametrize("seed", range(40))
def test_all_train_or_stand_by_in_the_end(seed: int, tmp_path: Path, monkeypatch: Any) -> None:
    story = Story(seed, tmp_path)
    names = ["pulse", "board", "node", "quiet", "counter", "moves", "watch"]
    story.world.patch(monkeypatch, ["worker.lease", *(f"agent.{name}" for name in names)])
    monkeypatch.setattr("elastic.agent.node.Outlook", partial(Outlook, clock=story.world.now))
    monkeypatch.setattr("elastic.agent.node.Desk", _NoDesk)
    monkeypatch.setattr(Pulse, "start", Pulse._beat)
    monkeypatch.setattr(Pulse, "stop", lambda _: None)
    try:
        story.tell()
    finally:
        story.world.end()
    assert story.faults == story.world.errors == []
    state, live = story.state, story.live
    size = job_of().size(len(live))
    assert state.phase == "running"
    assert len(state.group) == size
    assert sorted(member.node for member in state.members) == sorted(host.node.name for host in live)
    assert sorted(host.training for host in live) == sorted(
        [0] * (len(live) - len(state.group)) + [state.round] * len(state.group)
    )


class _NoDesk:
    def __init__(self, *_: object) -> None: ...

    def close(self) -> None: ...
