"""Nodes of a job as threads of this process, on a store in a dict: the protocol without torch."""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elastic.agent.errors import Drained, JobSucceeded, RefusedError, TooFewNodesError, TrainingFailedError
from elastic.agent.job_settings import LocalNode, RendezvousSettings
from elastic.agent.job_state import JobState
from elastic.agent.node import Node, RankAssignment
from elastic.worker.worker_lease import Lease, lease_path
from tests.agent.fakes import DictStore, job_of

SETTINGS = RendezvousSettings(
    last_call_timeout=0.3, keep_alive_interval=0.7, keep_alive_max_attempt=3, join_timeout=5
)
Start = Callable[..., Node]


@pytest.fixture
def start(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    if getattr(request, "param", "small") == "large":
        monkeypatch.setattr("elastic.agent.node_view.CROWD", 2)
        monkeypatch.setattr("elastic.agent.node_view.NODES_PER_PAGE", 1)
    store, nodes = DictStore(), []

    def make(settings: RendezvousSettings = SETTINGS, **job: Any) -> Node:
        folder = tmp_path / str(len(nodes))
        folder.mkdir()
        local = LocalNode(job_of(**job), settings, "job", "127.0.0.1", str(folder))
        nodes.append(Node.open(local, store, lambda: store, f"{folder}.events"))
        return nodes[-1]

    yield make
    for node in nodes:
        node.leave()


in_small_and_large_jobs = pytest.mark.parametrize("start", ["small", "large"], indirect=True)
"""For tests of nodes that read the state, and of nodes that read pages and leave requests to others."""


def join_all(*nodes: Node) -> list[Future[tuple[RankAssignment, JobState]]]:
    with ThreadPoolExecutor() as pool:
        return [pool.submit(node.join) for node in nodes]


def ask(node: Node, **message: Any) -> Any:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.path.join(node.local.folder, "agent.sock"))
        connection.sendall(json.dumps(message).encode() + b"\n")
        return json.loads(connection.makefile().readline())


def freeze(node: Node) -> threading.Event:
    """Hold its heartbeat until the event is set."""
    awake, beat = threading.Event(), node.heartbeat._tick

    def tick() -> None:
        awake.wait(30)
        beat()

    node.heartbeat._tick = tick  # type: ignore[method-assign]
    return awake


def await_change(node: Node) -> None:
    until = time.monotonic() + 10
    while node.num_nodes_waiting() == 0:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_ranks_and_one_master(start: Start) -> None:
    ranks = [future.result()[0] for future in join_all(start(), start())]
    assert sorted(one.rank for one in ranks) == [0, 1]
    assert len({(one.round, one.nodes, one.master_port) for one in ranks}) == 1
    assert ranks[0].row.batch_size == 16


def test_a_node_that_leaves_and_one_that_comes(start: Start) -> None:
    first, second = start(), start()
    join_all(first, second)
    second.leave()
    await_change(first)
    assert first.join()[0].nodes == 1
    third = start()
    with ThreadPoolExecutor() as pool:
        joined = pool.submit(third.join)
        await_change(first)
        assigned, state = first.join()
        assert (assigned.nodes, assigned.rank, joined.result()[0].rank) == (2, 0, 1)
    assert state.restarts == 0


def test_a_silent_node_is_removed(start: Start) -> None:
    first, second = start(), start()
    join_all(first, second)
    awake = freeze(second)
    began = time.monotonic()
    await_change(first)
    assert time.monotonic() - began > SETTINGS.lease_duration, "its workers had to be gone first"
    assert Lease(lease_path(second.local.folder, 1)).remaining() < 0
    assert second.num_nodes_waiting() == 0, "it has seen nothing yet"
    awake.set()
    await_change(second)


@in_small_and_large_jobs
def test_commits_and_the_end(start: Start) -> None:
    node = start()
    assigned, _ = node.join()
    assert ask(node, request="commit", round=assigned.round, checkpoint="one")["committed"]
    assert not ask(node, request="commit", round=assigned.round - 1, checkpoint="stale")["committed"]
    assert ask(node, request="state", round=assigned.round)["latest"] == "one"
    assert "unknown request" in ask(node, request="what", round=1)["error"]
    assert "KeyError" in ask(node)["error"]
    assert ask(node, request="finish", round=assigned.round, local_rank=0) == {"finished": True}
    node.succeed()
    assert node.has_ended()
    with pytest.raises(JobSucceeded):
        start().join()


@in_small_and_large_jobs
def test_another_config_is_refused_with_the_same_words(start: Start) -> None:
    patient = replace(SETTINGS, last_call_timeout=3)
    futures = join_all(start(patient), start(patient, processes=2))
    messages = {str(future.exception()) for future in futures}
    assert all(isinstance(future.exception(), RefusedError) for future in futures)
    assert len(messages) == 1


@in_small_and_large_jobs
def test_a_late_node_with_another_config_is_refused_alone(start: Start) -> None:
    first = start()
    first.join()
    with pytest.raises(RefusedError, match="`nproc-per-node` is 1 on"):
        start(processes=2).join()
    assert first.num_nodes_waiting() == 0


def test_failures_run_out_everywhere(start: Start) -> None:
    first, second = start(), start()
    for _ in range(3):
        for future in join_all(first, second):
            future.result()
    futures = join_all(first, second)
    assert [future.result()[1].restarts for future in futures] == [3, 3]
    futures = join_all(first, second)
    assert all(isinstance(future.exception(), TrainingFailedError) for future in futures)
    assert len({str(future.exception()) for future in futures}) == 1


def test_too_few_nodes(start: Start) -> None:
    settings = RendezvousSettings(join_timeout=4, keep_alive_interval=1, keep_alive_max_attempt=3)
    with pytest.raises(TooFewNodesError, match=r"1 nodes present, expected one of \[2, 4\]"):
        start(settings, nodes=(2, 4)).join()


def test_policy_fail_ends_the_job(start: Start) -> None:
    futures = join_all(*(start(policy="fail") for _ in range(3)))
    assert all("3 nodes are not admissible" in str(future.exception()) for future in futures)


def test_events_are_logged(start: Start) -> None:
    node = start()
    node.join()
    node.leave()
    lines = Path(f"{node.local.folder}.events").read_text().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["arrived", "round", "left"]
    assert not os.path.exists(node.local.folder)


def test_a_node_that_comes_after_the_end(start: Start) -> None:
    first = start()
    first.join()
    first.succeed()
    first.leave()
    with pytest.raises(JobSucceeded, match=r"succeeded before this node joined.*another `--rdzv-id`"):
        start().join()


def test_a_node_leaves_after_the_next_checkpoint(start: Start) -> None:
    first, second = start(), start()
    assigned = join_all(first, second)[0].result()[0]
    assert ask(first, request="commit", round=assigned.round, checkpoint="one")["committed"]
    lease = Lease(lease_path(first.local.folder, 1))
    assert not lease.checkpoint_wanted
    second.drain.requested = True
    until = time.monotonic() + 10
    while not lease.checkpoint_wanted:
        assert second.num_nodes_waiting() == 0
        assert time.monotonic() < until
    assert ask(first, request="commit", round=assigned.round, checkpoint="two")["committed"]
    with pytest.raises(Drained):
        await_change(second)
    second.leave()
    await_change(first)
    assert first.join()[1].start == "two"
    assert not lease.checkpoint_wanted


def test_a_node_that_waits_leaves_at_once(start: Start) -> None:
    node = start(nodes=(2, 4))
    node.drain.requested = True
    with pytest.raises(Drained):
        node.join()
