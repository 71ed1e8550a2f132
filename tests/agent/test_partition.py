"""A node that is cut off, not killed: two hosts as network namespaces, and the link goes down."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.cluster import DSCONFIG, TRAINER, wait_until
from tests.agent.conftest import MakeCluster

NAME = f"dsc{os.getpid() % 100000}"
HERE, THERE = "10.213.77.1", "10.213.77.2"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def at_work(pid: int) -> bool:
    """Whether a process exists and is not a zombie: its agent may hang in a call to the store."""
    status = Path(f"/proc/{pid}/status")
    return status.exists() and "State:\tZ" not in status.read_text()


@pytest.fixture
def link() -> Iterator[str]:
    """Another host, reached over the link that this gives the name of."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("needs root and `ip` to make a network namespace")
    near, far = f"{NAME}a", f"{NAME}b"
    try:
        ip("netns", "add", NAME)
        ip("link", "add", near, "type", "veth", "peer", "name", far, "netns", NAME)
    except subprocess.CalledProcessError as error:
        subprocess.run(["ip", "netns", "delete", NAME], check=False, capture_output=True)
        pytest.skip(f"no network namespace here: {error.stderr.decode().strip()}")
    try:
        ip("address", "add", f"{HERE}/24", "dev", near)
        ip("link", "set", near, "up")
        ip("-n", NAME, "address", "add", f"{THERE}/24", "dev", far)
        for device in (far, "lo"):
            ip("-n", NAME, "link", "set", device, "up")
        yield near
    finally:
        ip("netns", "delete", NAME)


def test_partition(cluster: MakeCluster, link: str) -> None:
    job = cluster(GLOO_SOCKET_IFNAME=link)
    job.start_agent([*DSCONFIG, "elastic", "store", "--listen", f"{HERE}:{job.port}"])
    store = job.nodes.pop()
    wait_until(lambda: "listening" in store.text(), 30, "the store listens")
    run = [*DSCONFIG, "elastic", "run", "--nnodes", "1:2", "--no-host-store", "--rdzv-endpoint"]
    run += [f"{HERE}:{job.port}", str(job.config), TRAINER]
    near = job.start_agent(run)
    there = ["ip", "netns", "exec", NAME, "env", f"GLOO_SOCKET_IFNAME={NAME}b"]
    far = job.start_agent([*there, *run])
    job.wait_for_step(6, world=2)
    workers = [row["pid"] for row in job.rows() if row["pid"] not in near.workers()]
    ip("-n", NAME, "link", "set", f"{NAME}b", "down")  # the store's own end keeps its address
    cut = time.monotonic()
    wait_until(lambda: not any(map(at_work, workers)), 10, "its workers are gone")
    job.wait_for_step(5, world=1, round_=2)
    assert far.wait(60) == 4, "it says so, and does not wait for the network"
    assert "the store" in far.text()
    job.finish()
    assert near.wait(30) == 0
    job.assert_clean(batch=16)
    later = [row for row in job.rows() if row["round"] > 1]
    assert min(row["t"] for row in later) > cut
