"""Real heartbeats, and whole nodes, in simulated time, frozen at random between two calls to the store.

Each seed is some minutes of a few nodes' lives.  Whatever the order of things: a node is removed only when
the lease of its workers has run out; nobody begins to train while workers of another round may go on; and
when nothing happens any more, everybody trains or stands by.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from elastic.agent import job_state_transitions
from elastic.agent.drain_request import DrainRequest
from elastic.agent.errors import Drained, StoreLostError
from elastic.agent.event_log import EventLog
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_settings import LocalNode, RendezvousSettings
from elastic.agent.job_state import JobState, decode_state
from elastic.agent.node import Node
from elastic.agent.node_view import encode_pages, page_count
from elastic.agent.resize_policy import ResizePolicy
from elastic.agent.state_store import StateStore
from elastic.worker.worker_lease import Lease
from tests.agent.fakes import job_of
from tests.agent.simulated_time import LONGEST_FREEZE, SlowStore, World

SETTINGS = RendezvousSettings()
BEFORE_A_CHANGE = 0.06
"""How often a node is frozen between what it has seen and what it writes: the worst moment."""


def call_large(seed: int, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have nodes of odd seeds read pages and leave requests to others, as in a job of hundreds.

    And most pages and hints are lost with their writer, or replaced by the older ones of a slow writer.
    """
    if seed % 2 == 0:
        return
    monkeypatch.setattr("elastic.agent.node_view.CROWD", 2)
    monkeypatch.setattr("elastic.agent.node_view.NODES_PER_PAGE", 1)
    publish, published = StateStore.publish, list[JobState]()

    def publish_badly(store: StateStore, state: JobState) -> None:
        published.append(state)
        fate = world.random.random()
        if fate < 0.4:
            return
        if fate < 0.6:
            publish(store, world.random.choice(published[-4:]))
        elif fate < 0.7:
            pages = encode_pages(state)
            keys = world.random.sample(sorted(pages), len(pages) // 2)
            store._store.multi_set([store._key(key) for key in keys], [pages[key] for key in keys])
        else:
            publish(store, state)

    monkeypatch.setattr(StateStore, "publish", publish_badly)


def test_a_slow_machine_changes_no_story(monkeypatch: pytest.MonkeyPatch) -> None:
    world, data = World(0), dict[str, str]()
    world.patch(monkeypatch, ["agent.state_store"])
    store = StateStore(SlowStore(world, data, lambda *_: None), "job", "n0", limit=0.01)
    world.start(store.create)
    world.start(lambda: time.sleep(0.1))
    world.run()
    assert world.errors == []
    assert decode_state(data["dsconfig/job/state"]).writer == "n0"


FREEZES_END = 60.0
"""Second of a story of lone heartbeats after which no freeze begins."""
DETECTION = LONGEST_FREEZE + 3 * SETTINGS.heartbeat_timeout
"""Seconds after which a dead node is removed, from the moment in which the last freeze may begin.

Only members that are not frozen find a dead one, and n0 may join once more by the call in which it dies. So the
last freezes end first. Then members that were removed join again, and all learn of a join whose pages were lost,
which by chance takes some seconds. From then on, n0 is silent for `heartbeat_timeout` and a few polls.
"""
JOINS_BY_ITS_LAST_CALL = 5263
"""Seed in which n0 is to die at 35 s, but joins at 44 s, and the others are frozen most of the time until 63 s."""


class LoneHeartbeat:
    """A node that does nothing but send heartbeats, and that comes back if it was removed."""

    def __init__(self, name: str, world: World, store: SlowStore, folder: Path) -> None:
        self.name = name
        self.lease = Lease(str(folder / name), create=True)
        self.dies = world.clock + world.random.uniform(20, 40) if name == "n0" else float("inf")
        self._world = world
        self._store = StateStore(store, "job", name, 60, pages=page_count(job_of().contract()))
        policy = ResizePolicy(job_of(), SETTINGS)
        self._heartbeat = Heartbeat(self._store, name, SETTINGS, policy)

    def live(self) -> None:
        self._store.create()
        self._heartbeat._send()
        self._heartbeat.grant(self.lease)
        while self._world.clock < self.dies:
            view = self._heartbeat.view
            if view is None or view.own_row is None:
                self._store.update(self._join)
            self._heartbeat._tick()
            self._world.sleep(SETTINGS.poll_interval)

    def _join(self, state: JobState) -> JobState:
        """At once in a group of all members that runs: how groups form is not what is tested here."""
        state = job_state_transitions.arrive_at_round(state, self.name, "host", 1)
        group = tuple(member.node for member in state.members)
        contract = job_of().contract()
        return replace(state, phase="running", group=group, round=state.round + 1, contract=contract)


@pytest.mark.parametrize("seed", [*range(50), JOINS_BY_ITS_LAST_CALL])
def test_removal_never_overtakes_the_lease(seed: int, tmp_path: Path, monkeypatch: Any) -> None:
    world, data = World(seed), dict[str, str]()
    faults: list[str] = []

    def judge(before: JobState, after: JobState) -> None:
        for member in before.members:
            if after.member(member.node) is None:
                left = nodes[member.node].lease.remaining()
                faults.extend([f"{member.node} was removed {left:.2f} s too early"] if left > 0 else [])

    world.patch(monkeypatch, ["agent.heartbeat", "worker.worker_lease", "agent.state_store"])
    call_large(seed, world, monkeypatch)
    store = SlowStore(world, data, judge, BEFORE_A_CHANGE)
    names = ("n0", "n1", "n2", "n3", "n4")
    nodes = {name: LoneHeartbeat(name, world, store, tmp_path) for name in names}
    for node in nodes.values():
        world.start(node.live)
    world.run(1000 + FREEZES_END)
    world.freezes = False
    world.run(1000 + FREEZES_END + DETECTION)
    world.end()
    assert faults == world.errors == []
    last = decode_state(data["dsconfig/job/state"])
    assert last.member("n0") is None, "a dead node must be found"
    assert last.members


class Host:
    """A whole node; what torch's agent does for it is here: starts workers, looks at them, stops them."""

    def __init__(self, number: int, world: World, connect: Callable[[], SlowStore], folder: Path) -> None:
        self.number = number
        self.dead = False
        self.done = False
        self.fails = False
        self.training = 0
        self.began: Callable[[Host], None] = lambda _: None
        self._world = world
        self._connect = connect
        folder = folder / str(number)
        folder.mkdir()
        job = replace(job_of(), max_restarts=None)
        self.local = LocalNode(job, SETTINGS, "job", "localhost", str(folder))
        self.drain = DrainRequest()
        self._heartbeat: Heartbeat | None = None

    @property
    def lease_left(self) -> float:
        lease = self._heartbeat.lease if self._heartbeat else None
        return lease.remaining() if lease else -1.0

    def live(self) -> None:
        node = Node.open(self.local, self._connect(), self._connect, drain=self.drain)
        self._heartbeat = node.heartbeat
        self._world.start(lambda: self._beat(node.heartbeat), lambda: self.dead)
        try:
            while True:
                self.training = node.join()[0].round
                self.began(self)
                self._watch_workers(node)
                self.training = 0
        except Drained:
            self.training, self.done = 0, True
            node.leave()

    def _beat(self, heartbeat: Heartbeat) -> None:
        with contextlib.suppress(StoreLostError):  # its connection is closed when the node leaves
            while not self.done:
                heartbeat._tick()
                self._world.sleep(heartbeat._pause)

    def _watch_workers(self, node: Node) -> None:
        """Until they have ended: with their lease, by a fault of their own, or stopped for a change."""
        self.fails = False
        while self.lease_left > 0 and not self.fails:
            self._world.sleep(0.1)
            if node.num_nodes_waiting():
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
    def state(self) -> JobState:
        return decode_state(self.data["dsconfig/job/state"])

    def _join(self) -> None:
        host = Host(len(self.hosts), self.world, self._connect, self._folder)
        host.began = self._began
        self.hosts.append(host)
        self.world.start(host.live, lambda: host.dead)

    def _connect(self) -> SlowStore:
        return SlowStore(self.world, self.data, lambda *_: None)

    def _began(self, host: Host) -> None:
        for other in self.hosts:
            if 0 < other.training < host.training and other.lease_left > 0:
                rounds = f"{other.training} beside {host.number} in {host.training}"
                self.faults.append(f"{other.number} may train in round {rounds}")

    def _happen(self, event: str) -> None:
        live = [host for host in self.live if not host.drain.requested]
        if event == "join":
            if len(live) < 5:
                self._join()
            return
        host = self.world.random.choice(live)
        if event == "fail":
            host.fails = True
        elif event == "commit" and host.training:
            self.data["dsconfig/job/state"] = job_state_transitions.commit_checkpoint(
                replace(self.state, revision=self.state.revision + 1), host.local.name, host.training, "c"
            ).encode()
        elif event == "kill" and len(live) > 1:
            host.dead = True
        elif event == "drain" and len(live) > 1:
            host.drain.requested = True


@pytest.mark.parametrize("seed", range(40))
def test_all_train_or_stand_by_in_the_end(seed: int, tmp_path: Path, monkeypatch: Any) -> None:
    story = Story(seed, tmp_path)
    call_large(seed, story.world, monkeypatch)
    names = [
        "heartbeat",
        "state_store",
        "node",
        "round_joiner",
        "worker_server",
        "job_state_transitions",
        "failure_detector",
    ]
    story.world.patch(monkeypatch, ["worker.worker_lease", *(f"agent.{name}" for name in names)])
    monkeypatch.setattr("elastic.agent.node.ResizePolicy", partial(ResizePolicy, clock=story.world.now))
    monkeypatch.setattr("elastic.agent.node.WorkerServer", _NoServer)
    monkeypatch.setattr(Heartbeat, "start", Heartbeat._send)
    monkeypatch.setattr(Heartbeat, "stop", lambda _: None)
    logs: list[EventLog] = []
    monkeypatch.setattr("elastic.agent.node.EventLog", lambda *a: logs.append(EventLog(*a)) or logs[-1])
    try:
        story.tell()
    finally:
        story.world.end()
        for log in logs:  # of nodes that the end of the story cut short
            log.close()
    assert story.faults == story.world.errors == []
    state, live = story.state, story.live
    size = job_of().size(len(live))
    assert state.phase == "running"
    assert len(state.group) == size
    assert sorted(member.node for member in state.members) == sorted(host.local.name for host in live)
    assert sorted(host.training for host in live) == sorted(
        [0] * (len(live) - len(state.group)) + [state.round] * len(state.group)
    )


class _NoServer:
    def __init__(self, *_: object) -> None: ...

    def close(self) -> None: ...
