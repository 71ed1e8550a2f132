"""A worker that was frozen does nothing after its successors have begun, wherever the freeze caught it."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest

from elastic.agent import job_state_transitions
from elastic.agent.event_log import EventLog
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_settings import LocalNode, RendezvousSettings
from elastic.agent.job_state import JobState
from elastic.agent.resize_policy import ResizePolicy
from elastic.agent.state_store import StateStore
from elastic.agent.worker_server import WorkerRequests
from elastic.worker.session import Session
from elastic.worker.worker_lease import Lease, lease_clock, lease_path
from tests.agent.cluster import ROOT, wait_until
from tests.agent.fakes import DictStore, job_of, running

SETTINGS = RendezvousSettings()
SECONDS = (1.0, 2.9, 3.1, 3.9, 4.1, 30.0)
"""Phases of a freeze: within the lease, after it, and after the removal of the node."""
MOMENTS = range(1, 12)
"""All that there are in `Host.work`, and one more."""


class Died(BaseException):
    """The process is no more."""


class Host:
    """A worker and its agent, whose clock stands still but for one freeze; `order` says who wakes first."""

    def __init__(self, folder: Path, kernel: bool, seconds: float, order: str) -> None:
        self.clock = 1000.0
        self.frozen_at = 0
        self.done: list[str] = []
        """Actions of the worker after its freeze."""
        self._kernel = kernel
        self._seconds = seconds
        self._order = list(order)
        data = DictStore()
        data.set("dsconfig/job/hint", "0")
        data.set("dsconfig/job/state", running("n0", "n1").encode())
        self._others = StateStore(data, "job", "n1", 60)
        self._others.send_heartbeat(1)
        store = StateStore(data, "job", "n0", 60)
        policy = ResizePolicy(job_of(), SETTINGS, lambda: self.clock)
        self._heartbeat = Heartbeat(store, "n0", SETTINGS, policy)
        self._log = EventLog(str(folder / "log"), "n0")
        local = LocalNode(job_of(), SETTINGS, "job", "localhost", str(folder), "n0")
        self._requests = WorkerRequests(store, local, self._heartbeat, self._log)
        policy.begin(1)
        self._given = Lease(lease_path(str(folder), 1), create=True)
        self._lease = Lease(lease_path(str(folder), 1))
        self._stores = (store, self._others)

    def begin(self) -> Session:
        self._heartbeat._send()
        self._heartbeat.grant(self._given)
        self._heartbeat._tick()
        rest: dict[str, Any] = {"run_id": "job", "config_path": "", "checkpoint": None, "incarnation": 1}
        rest |= dict.fromkeys(("round", "restarts", "rank", "local_rank", "world_size"), 1)
        rest |= dict.fromkeys(("train_batch_size", "micro_batch_size", "accumulation_steps"), 1)
        return Session(**rest, _lease=self._lease, _progress=cast("Any", self), _agent=cast("Any", self))

    def work(self, session: Session) -> None:
        """Main thread of the worker."""
        for what in ("a step", "a file of the checkpoint"):
            session.check()
            self._moment()
            self._do(what)
        session.commit("new")
        self._do("what follows a commit")

    def close(self) -> None:
        self._given.end()
        os.close(self._lease._file)
        self._log.close()
        for store in self._stores:
            store.close()

    @property
    def superseded(self) -> bool:
        return self._others.read().round > 1

    @property
    def committed(self) -> bool:
        return self._others.read().latest == "new"

    def step(self) -> None:
        self._moment()

    def now(self) -> float:
        self._moment()
        return self.clock

    def ask(self, request: str, **details: Any) -> Any:
        self._moment()
        reply = self._requests.reply({"request": request, **details})
        self._moment()
        return reply

    def sleep(self, seconds: float) -> None:
        self._wake_until("")
        self.clock += seconds

    def die(self) -> NoReturn:
        raise Died

    def _do(self, what: str) -> None:
        if self.superseded:
            self.done.append(what)

    def _moment(self) -> None:
        """One place where the host may freeze."""
        self.frozen_at -= 1
        if self.frozen_at != 0:
            return
        lapses = self._lease.remaining() <= self._seconds
        self.clock += self._seconds
        if self._seconds > SETTINGS.heartbeat_timeout:
            self._others.update(_without_n0)
        if lapses and self._kernel:
            raise Died
        self._wake_until("m")

    def _wake_until(self, main: str) -> None:
        while self._order and (one := self._order.pop(0)) != main:
            if one == "a":
                self._heartbeat._tick()
            elif one == "w" and self._lease.remaining() <= 0:  # the thread that looks at the lease
                raise Died


def _without_n0(state: JobState) -> JobState:
    state = job_state_transitions.arrive_at_round(
        job_state_transitions.remove_node(state, "n0", "lost", "lost"), "n1", "host", 1
    )
    state = job_state_transitions.propose_group(state, 1, 3)
    return job_state_transitions.confirm_rank(state, "n1")


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Hosts after each freeze: at every moment, with each order of waking."""

    def after_each_freeze(kernel: bool) -> Iterator[Host]:
        orders = ["".join(order) for order in itertools.permutations("awm")]
        for number, (moment, seconds, order) in enumerate(itertools.product(MOMENTS, SECONDS, orders)):
            folder = tmp_path / str(number)
            folder.mkdir()
            host = Host(folder, kernel, seconds, order)
            monkeypatch.setattr("elastic.worker.worker_lease.lease_clock", host.now)
            monkeypatch.setattr("elastic.agent.heartbeat.lease_clock", lambda host=host: host.clock)
            monkeypatch.setattr("elastic.worker.session.end_process_at_once", host.die)
            monkeypatch.setattr("elastic.worker.session.time", host)
            session = host.begin()
            host.frozen_at = moment
            with contextlib.suppress(Died):
                host.work(session)
            assert (host.frozen_at > 0) == (moment == MOMENTS[-1]), "the last one comes after the end"
            yield host
            host.close()

    return after_each_freeze


def test_nothing_is_done_after_the_removal(hosts: Any) -> None:
    outcomes = [(host.done, host.superseded, host.committed) for host in hosts(kernel=True)]
    assert not any(done for done, _, _ in outcomes)
    assert {(False, True), (True, False), (True, True)} <= {(gone, saved) for _, gone, saved in outcomes}


def test_without_the_kernel_only_what_was_checked_before_is_done(hosts: Any) -> None:
    """Where there is no keeper: one thing that was checked and not begun, and nothing with a commit."""
    for host in hosts(kernel=False):
        assert len(host.done) <= 1
        assert "what follows a commit" not in host.done


WORKER = """
import os, sys, time
from elastic.worker.session import start_watchdog
os.setpgid(0, 0)
if os.fork() == 0:
    time.sleep(60)
start_watchdog(sys.argv[1])
while True:
    time.sleep(0.01)
"""


@pytest.fixture
def lease(tmp_path: Path) -> Iterator[Lease]:
    new_lease = Lease(lease_path(str(tmp_path), 1), create=True)
    new_lease.renew(lease_clock() + 60)
    yield new_lease
    new_lease.end()


def start(folder: str) -> tuple[subprocess.Popen[bytes], int]:
    """A worker with a child of its own, and its keeper."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    worker = subprocess.Popen([sys.executable, "-c", WORKER, lease_path(folder, 1)], env=environment)
    wait_until(lambda: "lease_watchdog.py" in _children(worker.pid).values(), 10, "it has a keeper")
    keeper = next(pid for pid, name in _children(worker.pid).items() if name == "lease_watchdog.py")
    wait_until(lambda: "State:\tS" in Path(f"/proc/{keeper}/status").read_text(), 10, "the keeper waits")
    return worker, keeper


def _children(pid: int) -> dict[int, str]:
    """Each with the name of its script."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {int(one): Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0") for one in listed}
    return {
        one: next((os.path.basename(os.fsdecode(word)) for word in words if word.endswith(b".py")), "")
        for one, words in commands.items()
    }


def test_the_kernel_ends_what_is_frozen(lease: Lease, tmp_path: Path) -> None:
    worker, keeper = start(str(tmp_path))
    child = next(pid for pid in _children(worker.pid) if pid != keeper)
    lease.renew(lease_clock() + 1.0)
    time.sleep(0.5)  # the keeper sees it
    for pid in (keeper, worker.pid):
        os.kill(pid, signal.SIGSTOP)
    assert worker.wait(20) == -signal.SIGKILL, "nobody woke it"
    assert lease.remaining() <= 0
    wait_until(lambda: not _alive(child), 10, "its child goes with it")


def test_a_renewed_lease_keeps_its_worker(lease: Lease, tmp_path: Path) -> None:
    worker, keeper = start(str(tmp_path))
    for _ in range(10):
        lease.renew(lease_clock() + 1.0)
        time.sleep(0.2)
    assert worker.poll() is None
    worker.kill()
    worker.wait()
    os.killpg(worker.pid, signal.SIGKILL)
    wait_until(lambda: not _alive(keeper), 10, "the keeper goes with its worker")


def _alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
