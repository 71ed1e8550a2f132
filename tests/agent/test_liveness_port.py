"""A node counts as ended only when the kernel of its host says that no process of it is left."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from elastic.agent import job_state_transitions
from elastic.agent.failure_detector import ProcessExit
from elastic.agent.job_state import JobMember
from elastic.agent.liveness_port import ExitDetector, LivenessPort
from tests.agent.cluster import ROOT, wait_until
from tests.agent.fakes import running
from tests.agent.links import Links

ENDED = [ProcessExit("a", 0, 0)]
AGENT = """
import os, sys, time
from elastic.agent.liveness_port import LivenessPort
port = LivenessPort("127.0.0.1", "a")
worker = os.fork()
if worker:
    print(port.number, worker, flush=True)
time.sleep(600)
"""
"""An agent whose worker outlives it."""


class Agent:
    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", AGENT], stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        assert self.process.stdout is not None
        self.port, self.worker = map(int, self.process.stdout.readline().split())

    def end(self) -> None:
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.kill()
        self.process.wait()


@pytest.fixture
def agent() -> Iterator[Agent]:
    agent = Agent()
    yield agent
    agent.end()
    with contextlib.suppress(ProcessLookupError):
        os.kill(agent.worker, signal.SIGKILL)  # ends a stopped process, too


@pytest.fixture
def look() -> Iterator[Callable[..., list[ProcessExit]]]:
    """Look at the member with that port for a moment, and tell whether it has ended."""
    detector = ExitDetector()

    def ended(port: int, host: str = "127.0.0.1") -> list[ProcessExit]:
        for _ in range(6):
            found = detector.ended_members([JobMember("a", 0, host, 1, port)])
            time.sleep(0.02)
        return found

    yield ended
    detector.close()


def test_a_node_has_ended_when_its_agent_and_its_workers_have(
    agent: Agent, look: Callable[..., list[ProcessExit]]
) -> None:
    assert look(agent.port) == []
    agent.end()
    assert look(agent.port) == [], "its worker holds the port"
    os.kill(agent.worker, signal.SIGSTOP)
    assert look(agent.port) == [], "so does a frozen worker"
    os.kill(agent.worker, signal.SIGKILL)
    wait_until(lambda: look(agent.port) == ENDED, 10, "the kernel closes the port")


def test_a_frozen_node_has_not_ended(agent: Agent, look: Callable[..., list[ProcessExit]]) -> None:
    assert look(agent.port) == []
    agent.process.send_signal(signal.SIGSTOP)
    assert look(agent.port) == []
    agent.process.send_signal(signal.SIGCONT)


def test_a_refused_connection_alone_proves_nothing(look: Callable[..., list[ProcessExit]]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert look(port) == []
    assert look(port, "not-a-number.example") == []


def test_a_proxy_proves_nothing(agent: Agent, look: Callable[..., list[ProcessExit]]) -> None:
    """A proxy that restarts closes the connections of nodes that live."""
    proxy = Links([("127.0.0.1", agent.port)])
    port = proxy.ports[0]
    assert look(port) == []
    proxy.close()

    def is_refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(is_refused, 10, "the proxy has ended")
    assert look(port) == []


def test_a_reset_connection_proves_nothing(look: Callable[..., list[ProcessExit]]) -> None:
    """A firewall and a host after a power failure reset connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert look(port) == []
        connection, peer = server.accept()
        connection.sendall(f"dsconfig-liveness a 127.0.0.1 {port} {peer[0]} {peer[1]}\n".encode())
        assert look(port) == []
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()
    assert look(port) == []


def test_a_crowd_of_observers_ends_no_node(look: Callable[..., list[ProcessExit]]) -> None:
    port = LivenessPort("127.0.0.1", "a")
    assert look(port.number) == []
    crowd = [socket.create_connection(("127.0.0.1", port.number)) for _ in range(80)]
    assert look(port.number) == [], "its connection is closed, but its port is open"
    for one in crowd:
        one.close()
    port.close()
    wait_until(lambda: port.listener.fileno() < 0, 10, "the port is closed")


def test_only_an_address_of_this_machine() -> None:
    for host in ("203.0.113.1", "example.com"):
        with pytest.raises(OSError, match=r"assign|numeric"):
            LivenessPort(host, "a")


def test_the_evidence_names_the_membership() -> None:
    state = running("a", "b")
    evidence = ProcessExit("b", 1, 0)
    mark, remove = (
        partial(change, evidence=evidence)
        for change in (job_state_transitions.mark_member, job_state_transitions.remove_marked_member)
    )
    assert remove(state) is state, "a removal is announced"
    assert remove(mark(state)).member("b") is None
    alive = job_state_transitions.clear_suspicion(mark(state), "b")
    assert remove(alive) is mark(alive) is alive, "it has answered since"
