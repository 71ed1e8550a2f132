"""A job whose store is etcd with three members goes on, whichever of them is lost."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.agent.cluster import Cluster, wait_until
from tests.agent.conftest import MakeCluster
from tests.agent.etcd import Etcd

Begin = Callable[[], tuple[Cluster, Etcd]]


@pytest.fixture
def begin(cluster: MakeCluster, tmp_path: Path) -> Iterator[Begin]:
    clusters: list[Etcd] = []

    def make() -> tuple[Cluster, Etcd]:
        job, etcd = cluster(), Etcd(tmp_path)
        clusters.append(etcd)
        job.endpoint = etcd.endpoint
        for _ in range(2):
            job.start_node()
        job.wait_for_step(4, world=2)
        return job, etcd

    yield make
    for etcd in clusters:
        etcd.close()


def go_on(job: Cluster) -> None:
    """Wait for a checkpoint of a time after this."""
    moment = time.monotonic()
    wait_until(
        lambda: any(row["event"] == "committed" and row["t"] > moment for row in job.rows()),
        60,
        "the job goes on",
        job,
    )


def finish(job: Cluster) -> None:
    """The job ends well, with nothing lost or repeated and no second group; says how long it stood still."""
    steps = sorted(row["t"] for row in job.rows() if row["event"] == "step")
    print(f"longest standstill {max(later - earlier for earlier, later in pairwise(steps)):.1f} s")
    assert job.finish() == [0, 0]
    assert job.status()["outcome"]["kind"] == "succeeded"
    job.assert_clean(batch=16)


def test_etcd_leader_killed(begin: Begin) -> None:
    job, etcd = begin()
    leader = etcd.leader
    assert leader is not None
    etcd.kill(leader)
    go_on(job)
    job.nodes[1].signal(signal.SIGKILL, workers=True)  # and the others still agree on who is lost
    job.wait_for_step(0, world=1)
    job.start_node()
    go_on(job)
    job.wait_for_step(0, world=2, round_=max(row["round"] for row in job.rows()))
    (job.ledger / "stop").touch()
    assert job.exit_codes() == [0, -9, 0]
    job.assert_clean(batch=16)


def test_etcd_member_cut_off(begin: Begin) -> None:
    job, etcd = begin()
    leader = etcd.leader
    assert leader is not None
    etcd.freeze(leader)
    go_on(job)
    etcd.wake(leader)
    go_on(job)
    finish(job)


def test_etcd_restarted_one_after_the_other(begin: Begin) -> None:
    job, etcd = begin()
    for number in range(3):
        etcd.kill(number)
        go_on(job)
        etcd.start(number)
        wait_until(lambda: etcd.leader is not None, 30, "etcd has a leader")
    finish(job)


def test_etcd_without_a_majority(begin: Begin) -> None:
    job, etcd = begin()
    etcd.kill(0)
    etcd.kill(1)
    assert job.exit_codes(60) == [4, 4]
    assert all("the store does not answer: no etcd member of" in node.text() for node in job.nodes)
