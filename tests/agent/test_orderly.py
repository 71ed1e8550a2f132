"""Nodes that come and go in order: nothing that was trained is trained again."""

from __future__ import annotations

import signal

from tests.agent.cluster import POWERS, Cluster, wait_until
from tests.agent.conftest import MakeCluster

NEVER = "100000"
"""Steps between two checkpoints of the trainer's own: every one but the first was asked for."""
SLACK = 3
"""Steps that the group may take between that checkpoint and its end."""


def steps_done_again(job: Cluster) -> int:
    """Steps that a later round did again."""
    done = {(row["round"], row["step"]) for row in job.rows() if row["event"] == "step"}
    return len(done) - len({step for _, step in done})


def test_node_joins(cluster: MakeCluster) -> None:
    job = cluster(EVERY=NEVER)
    job.start_store()
    job.start_node()
    job.wait_for_step(20)
    job.start_node()
    job.wait_for_step(25, world=2)
    assert job.finish() == [0, 0]
    assert job.worlds() == [1, 2]
    assert job.status()["restarts"] == 0
    assert steps_done_again(job) <= SLACK
    job.assert_clean(batch=16)


def test_standby_and_promotion(cluster: MakeCluster) -> None:
    job = cluster(POWERS)
    job.start_store()
    for _ in range(3):
        job.start_node(nnodes="2:4")
    job.wait_for_step(3, world=2)
    wait_until(lambda: len(job.status()["standby"]) == 1, 60, "one on standby", job)
    round_ = job.status()["round"]
    at_work = {row["pid"] for row in job.rows()}
    victim = next(node for node in job.nodes if at_work & set(node.workers()))
    victim.signal(signal.SIGKILL, workers=True)
    job.wait_for_step(0, world=2, round_=round_ + 1)
    assert sorted(job.finish()) == [-9, 0, 0]
    assert job.worlds()[-2:] == [2, 2]
    job.assert_clean(batch=16)


def test_standby_ends_well_with_the_job(cluster: MakeCluster) -> None:
    job = cluster(POWERS, STEPS="6")
    job.start_store()
    for _ in range(3):
        job.start_node(nnodes="2:4", conf="last_call_timeout=5")
    assert job.exit_codes(60) == [0, 0, 0]
    assert job.worlds() == [2]
    job.assert_clean(batch=16)


def test_sigterm_drains(cluster: MakeCluster) -> None:
    job = cluster(EVERY=NEVER)
    job.begin(step=10)
    job.nodes[1].signal(signal.SIGTERM)
    assert job.nodes[1].wait(15) == 143
    job.wait_for_step(0, world=1)
    assert job.finish() == [0, 143]
    assert job.worlds() == [2, 1]
    assert job.status()["restarts"] == 0
    assert steps_done_again(job) <= SLACK
    job.assert_clean(batch=16)


def test_sigterm_to_all_nodes_keeps_the_work(cluster: MakeCluster) -> None:
    """As from a scheduler that ends a job, or moves it."""
    job = cluster(EVERY=NEVER)
    job.begin(step=10)
    for node in job.nodes:
        node.signal(signal.SIGTERM)
    assert job.exit_codes(15) == [143, 143]
    job.start_node()
    job.wait_for_step(0, world=1)
    assert job.finish() == [143, 143, 0]
    assert steps_done_again(job) <= SLACK
    job.assert_clean(batch=16)
