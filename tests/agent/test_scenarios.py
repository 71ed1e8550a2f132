"""Failures that the agent must survive, with real processes; verified on the ledger, not only on the end state."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import sys
import time
from pathlib import Path

from tests.agent.cluster import DOZEN, FAST, POWERS, Process, wait_until, write_config
from tests.agent.conftest import MakeCluster

IDLE_NODE = Path(__file__).with_name("idle_node.py")


def _has_memory(pid: int) -> bool:
    """Whether a process can still run its program: one that ends loses its memory before its sockets close.

    A process that has ended stays in `/proc` without a command line until its new parent has waited for it.
    Source: Linux kernel/exit.c, do_exit.
    """
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_worker_crash(cluster: MakeCluster) -> None:
    job = cluster(STEPS="15", FAULT="crash@7")
    job.start_store()
    job.start_node(nnodes="2")
    job.start_node(nnodes="2")
    assert job.exit_codes() == [0, 0]
    assert job.worlds() == [2, 2]
    assert job.status()["restarts"] == 1
    job.assert_clean(batch=16)


def test_worker_killed_then_agent_killed(cluster: MakeCluster) -> None:
    job = cluster(FAULT="kill@4")
    job.start_store()
    job.start_node()
    job.start_node()
    job.wait_for_step(6, world=2, round_=2)
    victim = job.nodes[1]
    workers = victim.workers()
    victim.signal(signal.SIGKILL)
    job.wait_for_step(0, world=1, round_=3)
    assert not any(map(_has_memory, workers))
    assert sorted(job.finish()) == [-9, 0]
    status = job.status()
    assert status["restarts"] == 1, "a lost node is not a restart"
    job.assert_clean(batch=16)


def test_rank_0_of_three_lost(cluster: MakeCluster) -> None:
    job = cluster(DOZEN)
    job.start_store()
    for _ in range(3):
        job.start_node(nnodes="1:3")
    job.wait_for_step(6, world=3)
    first = next(row["pid"] for row in job.rows() if row["rank"] == 0)
    round_ = max(row["round"] for row in job.rows())
    victim = next(node for node in job.nodes if first in node.workers())
    victim.signal(signal.SIGKILL, workers=True)
    job.wait_for_step(0, world=2, round_=round_ + 1)
    assert sorted(job.finish()) == [-9, 0, 0]
    assert job.worlds()[-2:] == [3, 2]
    job.assert_clean(batch=12)


def test_store_lost(cluster: MakeCluster) -> None:
    job = cluster()
    store = job.begin(step=3)
    store.signal(signal.SIGKILL)
    assert job.exit_codes(30) == [4, 4]
    assert all("the store does not answer" in node.text() for node in job.nodes)


def test_job_goes_on_with_a_new_store(cluster: MakeCluster) -> None:
    """The state of the store is lost, but commits are also files."""
    job = cluster()
    store = job.begin(step=8, nodes=1)
    store.signal(signal.SIGKILL)
    assert job.exit_codes(30) == [4]
    saved = int(job.last_checkpoint().rpartition("-")[2])
    job.start_store()
    job.start_node()
    wait_until(lambda: job.worlds() == [1, 1], 60, "the new job trains", job)
    assert job.finish() == [4, 0]
    newest = max(row["incarnation"] for row in job.rows())
    again = [row["step"] for row in job.rows() if row["incarnation"] == newest and row["event"] == "step"]
    assert min(again) == saved
    job.assert_clean(batch=16)


def test_below_the_minimum(cluster: MakeCluster) -> None:
    job = cluster()
    job.start_store()
    job.start_node(nnodes="2:4", conf="join_timeout=5")
    assert job.exit_codes(30) == [5]
    assert "1 nodes present, expected one of [2, 4]" in job.nodes[0].text()
    assert job.rows() == []


def test_configs_differ(cluster: MakeCluster) -> None:
    job = cluster()
    other = write_config(job.folder, {**POWERS, "max_train_batch_size": 8}, "other.json")
    job.start_store()
    job.start_node(nnodes="2")
    job.start_node(nnodes="2", config=other)
    assert job.exit_codes(30) == [3, 3]
    messages = [next(line for line in node.text().splitlines() if "differ" in line) for node in job.nodes]
    assert messages[0] == messages[1]
    assert "`elasticity.max_train_batch_size`" in messages[0]
    assert job.rows() == []


def test_frozen_node(cluster: MakeCluster) -> None:
    job = cluster()
    job.begin(step=6)
    frozen = job.nodes[0]
    frozen.signal(signal.SIGSTOP, workers=True)
    job.wait_for_step(0, world=1, round_=2)
    frozen.signal(signal.SIGCONT, workers=True)
    job.wait_for_step(0, world=2, round_=3)
    assert job.finish() == [0, 0]
    assert job.worlds()[:3] == [2, 1, 2]
    job.assert_clean(batch=16)


def test_frozen_between_check_and_commit(cluster: MakeCluster) -> None:
    """The node of rank 0 freezes with a checkpoint written and not committed: it must stay so."""
    job = cluster(FAULT="freeze@6")
    job.begin(step=5)
    row = _wait_for_event(job.ledger, "frozen")
    frozen = next(node for node in job.nodes if row["pid"] in node.workers())
    folder = _variable(row["pid"], "DSCONFIG_ELASTIC_AGENT")
    frozen.signal(signal.SIGSTOP)
    job.wait_for_step(6, world=1, round_=2)
    with socket.socket(socket.AF_UNIX) as line:  # a worker of the old round asks before its agent wakes
        line.connect(f"{folder}/agent.sock")
        question = {"request": "commit", "round": row["round"], "checkpoint": "stale"}
        line.sendall(json.dumps(question).encode() + b"\n")
        frozen.signal(signal.SIGCONT, workers=True)
        line.settimeout(20)
        answer = json.loads(line.makefile().readline())
    assert answer["committed"] is False
    job.wait_for_step(6, world=2, round_=3)
    assert job.finish() == [0, 0]
    stale = f"round-{row['incarnation']}-{row['round']}/step-6"
    assert not any(one["event"] == "committed" and one["checkpoint"] == stale for one in job.rows())
    job.assert_clean(batch=16)


def test_two_processes_a_node(cluster: MakeCluster) -> None:
    job = cluster()
    job.start_store()
    for _ in range(2):
        job.start_node("--nproc-per-node", "2", nnodes="1:2")
    job.wait_for_step(4, world=4)
    job.nodes[1].signal(signal.SIGKILL, workers=True)
    job.wait_for_step(0, world=2)
    assert job.finish() == [0, -9]
    assert job.worlds() == [4, 2]
    job.assert_clean(batch=16)


def test_version_2_with_nodes_of_two(cluster: MakeCluster) -> None:
    block = {"max_train_batch_size": 16, "micro_batch_sizes": [2, 4], "max_gpus": 4, "version": 0.2}
    job = cluster({**block, "num_gpus_per_node": 2})
    job.start_store()
    for _ in range(2):
        job.start_node("--nproc-per-node", "2", nnodes="1:2")
    job.wait_for_step(4, world=4)
    job.nodes[0].signal(signal.SIGKILL, workers=True)
    job.wait_for_step(0, world=2)
    assert job.finish() == [-9, 0]
    assert job.worlds() == [4, 2]
    job.assert_clean(batch=16)


def test_hung_collective(cluster: MakeCluster) -> None:
    """One worker never comes to the collective: all show where they are, then all start again."""
    job = cluster(FAULT="hang@5")
    job.start_store()
    for _ in range(2):
        job.start_node(nnodes="2", conf=f"{FAST},stall_timeout=2,stall_restart=6")
    job.wait_for_step(8, world=2, round_=2)
    assert job.finish() == [0, 0]
    assert job.status()["restarts"] == 1
    job.assert_clean(batch=16)
    logged = "".join(file.read_text() for file in job.folder.glob("*.events"))
    events = [json.loads(line) for line in logged.splitlines()]
    stacks = [event["stacks"] for event in events if event["event"] == "stalled"]
    assert any("in misbehave" in one for one in stacks), "the one who sleeps"
    assert any("in all_reduce" in one for one in stacks), "and the one who waits for it"


def test_host_that_cannot_be_written_to(cluster: MakeCluster) -> None:
    """Its agent says so and goes; a full disk is the usual reason, a lost folder the one for a test."""
    job = cluster()
    job.begin(step=4)
    victim = job.nodes[1]
    pid = next(row["pid"] for row in job.rows() if row["pid"] in victim.workers())
    shutil.rmtree(_variable(pid, "DSCONFIG_ELASTIC_AGENT"))
    Process.send(pid, signal.SIGKILL)
    job.wait_for_step(3, world=1, round_=2)
    assert job.finish() == [0, 138]
    # torch 2.15 may report leaks of its own bindings after the agent's last line.
    lines = victim.text().splitlines()
    assert any(line.startswith("dsconfig: error: this host failed: [Errno 2] No such file") for line in lines)
    job.assert_clean(batch=16)


def test_failing_script_fails_everywhere(cluster: MakeCluster) -> None:
    job = cluster(FAULT="fail@2")
    job.start_store()
    for _ in range(3):  # the third is on standby
        job.start_node("--max-restarts", "1", conf="last_call_timeout=5")
    assert job.exit_codes(60) == [1, 1, 1]
    messages = {
        next(line for line in node.text().splitlines() if "dsconfig: error" in line) for node in job.nodes
    }
    assert len(messages) == 1
    assert "1 restarts used up" in messages.pop()


def test_member_dies_before_its_workers_start(cluster: MakeCluster) -> None:
    """A node joins the group, so that the others count on it, and never arrives."""
    job = cluster()
    job.start_store()
    idle = job.start_agent([sys.executable, str(IDLE_NODE), f"127.0.0.1:{job.port}", str(job.config)])
    wait_until(lambda: "joining" in idle.text(), 30, "the idle node joins", job)
    job.start_node()
    wait_until(lambda: "joined" in idle.text(), 30, "both form a group", job)
    idle.signal(signal.SIGKILL)
    job.wait_for_step(3, world=1, round_=2)
    assert job.finish() == [-9, 0]
    job.assert_clean(batch=16)


def test_the_audit_finds_a_skipped_step(cluster: MakeCluster) -> None:
    """Negative control: a restore that goes on one step too late."""
    job = cluster(FAULT="skip")
    job.start_store()
    job.start_node()
    job.wait_for_step(5)
    job.start_node()
    job.wait_for_step(0, world=2)
    job.finish()
    assert job.worlds() == [1, 2]
    problems = job.audit(batch=16)
    assert problems.returncode == 1
    assert "samples lost" in problems.stdout


def test_the_audit_finds_two_groups(cluster: MakeCluster) -> None:
    """Negative control: two jobs that share a ledger are a split brain, though each ends well."""
    job = cluster(FAULT="split")
    job.start_store()
    for name in ("one", "two"):
        job.start_node("--rdzv-id", name)
    wait_until(lambda: len({row["pid"] for row in job.rows()}) == 2, 60, "both train", job)
    time.sleep(1)
    assert job.finish() == [0, 0]
    problems = job.audit(batch=16)
    assert problems.returncode == 1
    assert "overlap" in problems.stdout


def _wait_for_event(ledger: Path, event: str) -> dict[str, int]:
    from tests.agent.audit import rows

    wait_until(lambda: any(row["event"] == event for row in rows(ledger)), 60, event)
    result: dict[str, int] = next(row for row in rows(ledger) if row["event"] == event)
    return result


def _variable(pid: int, name: str) -> str:
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return next(pair.partition("=")[2] for pair in pairs if pair.startswith(f"{name}="))
