"""Faults that other projects inject: a straggler, a full disk, clocks that jump, a damaged checkpoint."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.agent.audit import overlaps
from tests.agent.cluster import FAST, ROOT, Cluster, wait_until
from tests.agent.conftest import MakeCluster

SHIM = ROOT / "tests" / "soak" / "shim"
MONTH = 30 * 24 * 3600
LOCK_GIL = signal.SIGUSR2
WAYS = (
    *(signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGABRT, signal.SIGSEGV, signal.SIGSTOP),
    LOCK_GIL,
)
"""`Fault` in NVRx 0.4.1's `inprocess/tools/inject_fault.py`, but for exceptions and GPUs."""


def steps(job: Cluster) -> int:
    return max((row["step"] for row in job.rows() if row["event"] == "step"), default=0)


def stalls(job: Cluster) -> list[str]:
    logged = "".join(file.read_text() for file in job.folder.glob("*.events"))
    events = [json.loads(line) for line in logged.splitlines()]
    return [event["stacks"] for event in events if event["event"] == "stalled"]


def test_straggler(cluster: MakeCluster) -> None:
    """A step that takes far longer than those before it is shown, and the job goes on."""
    job = cluster()
    job.start_store()
    for _ in range(2):
        job.start_node(nnodes="2", conf=f"{FAST},stall_timeout=2")
    job.wait_for_step(8, world=2)
    (job.ledger / "hang-one").write_text("6")
    wait_until(lambda: len(stalls(job)) == 2, 20, "both nodes show their workers", job)
    job.wait_for_step(steps(job) + 3, world=2)
    assert any("in misbehave" in one for one in stalls(job)), "the one who is slow"
    assert any("in all_reduce" in one for one in stalls(job)), "and the one who waits for it"
    assert job.finish() == [0, 0]
    assert (job.status()["round"], job.status()["restarts"]) == (1, 0)
    job.assert_clean(batch=16)


def test_full_disk(cluster: MakeCluster) -> None:
    """A checkpoint that cannot be written ends its worker; all go on from the one before."""
    job = cluster()
    job.begin(step=4)
    (job.ledger / "disk-full").touch()
    job.wait_for_step(steps(job) + 3, world=2, round_=2)
    assert job.finish() == [0, 0]
    assert job.status()["restarts"] == 1
    assert any("No space left on device" in node.text() for node in job.nodes)
    job.assert_clean(batch=16)


def test_clocks_that_jump(cluster: MakeCluster) -> None:
    """A month ahead on one host, a month back on the other: nothing happens; the next fault is survived."""
    job = cluster()
    job.start_store()
    hosts = [job.folder / f"host-{number}" for number in range(2)]
    for host in hosts:
        host.mkdir()
        job.environment |= {"DISTURBED": str(host), "PYTHONPATH": f"{SHIM}:{ROOT}"}
        job.start_node()
    job.wait_for_step(4, world=2)
    for host, months in zip(hosts, (1, -1), strict=True):
        (host / "clock").write_text(str(months * MONTH))
    job.wait_for_step(steps(job) + 10, world=2)
    assert job.status()["round"] == 1
    os.kill(job.rows()[-1]["pid"], signal.SIGKILL)
    job.wait_for_step(steps(job) + 3, world=2, round_=2)
    assert job.finish() == [0, 0]
    assert job.status()["restarts"] == 1
    job.assert_clean(batch=16)


def newest_commit(job: Cluster) -> Path:
    return max((job.ledger / "commits").iterdir())


def test_damaged_commit_file(cluster: MakeCluster) -> None:
    """Where it counts, it ends the job at once; without it the job goes on from the commit before."""
    job = cluster()
    store = job.begin(step=8, nodes=1)
    store.signal(signal.SIGKILL)
    assert job.exit_codes(30) == [4]
    newest = newest_commit(job)
    newest.write_bytes(newest.read_bytes()[:20])
    job.start_store()
    nodes = [job.start_node(nnodes="2") for _ in range(2)]
    for node in nodes:
        assert node.wait(60) == 1
        lines = [line for line in node.text().splitlines() if f"commit file {newest} is damaged" in line]
        assert len(lines) == 1
        assert lines[0].startswith("dsconfig: error: ")
        assert lines[0].endswith("with another `--rdzv-id`: the job continues from the previous commit")
        assert "Traceback" not in node.text()
    assert (job.status()["round"], job.status()["restarts"]) == (1, 0)
    newest.unlink()
    job.start_node("--rdzv-id", "again")
    wait_until(lambda: steps(job) > 8 and newest_commit(job) > newest, 60, "the job goes on", job)
    assert job.finish() == [4, 1, 1, 0]


def test_damaged_commit_file_under_a_living_store(cluster: MakeCluster) -> None:
    """The store knows the latest commit: the job goes on from it."""
    job = cluster()
    job.begin(step=8)
    newest = newest_commit(job)
    newest.write_bytes(newest.read_bytes()[:20])
    os.kill(job.rows()[-1]["pid"], signal.SIGKILL)
    job.wait_for_step(steps(job) + 3, world=2, round_=2)
    assert job.finish() == [0, 0]
    assert job.status()["restarts"] == 1
    job.assert_clean(batch=16)


def test_every_way_in_which_a_worker_can_end(cluster: MakeCluster) -> None:
    """Failures that NVRx injects: the worker is gone, asleep, or holds the GIL forever."""
    job = cluster()
    script = job.folder / "worker.py"
    script.write_text(
        "import ctypes, signal\n"
        "from tests.agent import light_worker\n"
        f"signal.signal({int(LOCK_GIL)}, lambda *_: ctypes.PyDLL(None).sleep(1000))\n"
        "light_worker.main()\n"
    )
    job.start_store()
    options = ["--max-restarts", str(len(WAYS))]
    node = job.start_node(*options, nnodes="1", conf=f"{FAST},stall_restart=4", script=str(script))
    for round_, way in enumerate(WAYS, start=1):
        job.wait_for_step(3, world=1, round_=round_)
        for pid in node.workers():
            node.send(pid, way)
    job.wait_for_step(3, world=1, round_=len(WAYS) + 1)
    assert job.status()["restarts"] == len(WAYS)
    assert list(overlaps(job.rows())) == []
