"""A job of several nodes on one machine: a store and agents, each a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from elastic.agent.node_view import CROWD
from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
DSCONFIG = [sys.executable, "-m", "dsconfig"]
TRAINER = str(Path(__file__).with_name("trainer.py"))
FAST = "last_call_timeout=1"
"""The defaults, except for the first group's wait: tests know when all nodes are there."""

PATIENCE = float(os.environ.get("DSCONFIG_PATIENCE", "1"))
"""Times as long as a free machine needs: for one that others use too, or that is slow to import torch."""

LARGE = bool(os.environ.get("DSCONFIG_LARGE_JOBS"))
"""Whether jobs for a range of nodes admit as many as a large job, in which nodes read pages and leave requests."""

POWERS = {"max_train_batch_size": 16, "micro_batch_sizes": [2, 4], "max_gpus": 4, "version": 0.1}
"""Admits 1, 2 and 4 ranks: 3 is a gap."""
DOZEN = {"max_train_batch_size": 12, "micro_batch_sizes": [1, 2], "max_gpus": 4, "version": 0.1}
"""Admits 1, 2, 3 and 4 ranks."""


def lasting_port() -> int:
    """A free port for what listens on it again later: the kernel gives it to no connection by itself."""
    range_file = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(range_file.read_text().split()[0]) if range_file.exists() else 32_768
    while True:
        port = random.randrange(10_000, first)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def write_config(folder: Path, block: Mapping[str, Any], name: str = "ds.json") -> Path:
    path = folder / name
    config = {"elasticity": {"enabled": True, **block}, "zero_optimization": {"stage": 1}}
    path.write_text(json.dumps(config))
    return path


class Process:
    """One started process with its output in a file."""

    def __init__(self, command: Sequence[str], output: Path, environment: Mapping[str, str]) -> None:
        self.output = output
        with output.open("w") as file:
            self._process = subprocess.Popen(
                command,
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), **environment},
                cwd=ROOT,
                start_new_session=True,
            )

    @staticmethod
    def send(pid: int, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @staticmethod
    def children(pid: int) -> list[int]:
        listed = Path(f"/proc/{pid}/task/{pid}/children")
        return [int(pid) for pid in listed.read_text().split()] if listed.exists() else []

    def workers(self) -> list[int]:
        """Its child processes."""
        return self.children(self.pid)

    def signal(self, number: signal.Signals, *, workers: bool = False) -> None:
        for pid in [self.pid, *(self.workers() if workers else [])]:
            self.send(pid, number)

    def wait(self, seconds: float) -> int:
        try:
            return self._process.wait(PATIENCE * seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {seconds} s:\n{self.text()[-3000:]}") from None

    def text(self) -> str:
        return self.output.read_text(errors="replace")

    def end(self) -> None:
        for pid in [*self.workers(), self.pid]:
            self.send(pid, signal.SIGKILL)
        self._process.wait(10)


class Cluster:
    """The nodes of one job and their ledger."""

    def __init__(self, folder: Path, block: Mapping[str, Any] = POWERS, **environment: str) -> None:
        self.folder = folder
        self.ledger = folder / "ledger"
        self.ledger.mkdir(exist_ok=True)
        self.config = write_config(folder, block)
        self.environment = {"LEDGER": str(self.ledger), "STEPS": "100000", **environment}
        self.port = free_port()
        self.endpoint = f"127.0.0.1:{self.port}"
        self.agent_command = DSCONFIG
        self.nodes: list[Process] = []
        self._all: list[Process] = []

    def start_store(self, *options: str) -> Process:
        command = [*DSCONFIG, "elastic", "store", "--listen", f"127.0.0.1:{self.port}", *options]
        store = self._start(command, "store.log")
        wait_until(lambda: "listening" in store.text(), 30, "the store listens")
        return store

    def start_node(
        self,
        *options: str,
        nnodes: str = "1:4",
        conf: str = FAST,
        config: Path | None = None,
        script: str = TRAINER,
    ) -> Process:
        name = f"node-{len(self.nodes)}"
        command = [
            *self.agent_command,
            "elastic",
            "run",
            "--nnodes",
            f"{nnodes.partition(':')[0]}:{CROWD}" if LARGE and ":" in nnodes else nnodes,
            "--no-host-store",
            "--rdzv-conf",
            conf,
        ]
        command += [
            "--rdzv-endpoint",
            self.endpoint,
            "--event-log",
            str(self.folder / f"{name}.events"),
        ]
        return self.start_agent([*command, *options, str(config or self.config), script])

    def begin(self, step: int, nodes: int = 2) -> Process:
        """Start a store and nodes, and wait until all have come to a step; returns the store."""
        store = self.start_store()
        for _ in range(nodes):
            self.start_node()
        self.wait_for_step(step, world=nodes)
        return store

    def start_agent(self, command: Sequence[str]) -> Process:
        node = self._start(command, f"node-{len(self.nodes)}.log")
        self.nodes.append(node)
        return node

    def _start(self, command: Sequence[str], log: str) -> Process:
        process = Process(command, self.folder / log, self.environment)
        self._all.append(process)
        return process

    def rows(self) -> list[dict[str, Any]]:
        from tests.agent.audit import rows

        return rows(self.ledger)

    def wait_for_step(
        self, step: int, *, world: int | None = None, round_: int = 0, seconds: float = 60
    ) -> None:
        """Wait until a worker of such a group has come to a step."""

        def reached() -> bool:
            steps = [row for row in self.rows() if row["event"] == "step" and row["round"] >= round_]
            return any(row["step"] >= step and world in (None, row["world"]) for row in steps)

        wait_until(reached, seconds, f"step {step} of a group of {world} from round {round_}", self)

    def status(self) -> dict[str, Any]:
        command = [*DSCONFIG, "elastic", "status", "--rdzv-endpoint", self.endpoint]
        done = subprocess.run(
            [*command, "--output-format", "json"],
            capture_output=True,
            text=True,
            timeout=60 * PATIENCE,
            check=True,
            cwd=ROOT,
        )
        read: dict[str, Any] = json.loads(done.stdout)
        return read

    def exit_codes(self, seconds: float = 60) -> list[int]:
        until = time.monotonic() + seconds
        return [node.wait(max(0.1, until - time.monotonic())) for node in self.nodes]

    def finish(self, seconds: float = 60) -> list[int]:
        """Let the run end with a last checkpoint; returns the exit codes."""
        (self.ledger / "stop").touch()
        return self.exit_codes(seconds)

    def audit(self, batch: int) -> subprocess.CompletedProcess[str]:
        """Problems that the separate audit program finds in the ledger up to the last checkpoint."""
        command = [sys.executable, "-m", "tests.agent.audit", str(self.ledger), "--batch", str(batch)]
        command += ["--checkpoint", self.last_checkpoint()]
        return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)

    def last_checkpoint(self) -> str:
        committed = [row for row in self.rows() if row["event"] == "committed"]
        return str(max(committed, key=lambda row: (row["incarnation"], row["round"], row["t"]))["checkpoint"])

    def assert_clean(self, batch: int) -> None:
        problems = self.audit(batch)
        assert problems.returncode == 0, problems.stdout + problems.stderr

    def worlds(self) -> list[int]:
        """The sizes of the groups that trained, in order."""
        from tests.agent.audit import life

        sizes = {life(row): row["world"] for row in self.rows()}
        return [sizes[round_] for round_ in sorted(sizes)]

    def close(self) -> None:
        for process in self._all:
            process.end()


def wait_until(done: Callable[[], bool], seconds: float, what: str, cluster: Cluster | None = None) -> None:
    until = time.monotonic() + PATIENCE * seconds
    while not done():
        if time.monotonic() > until:
            logs = (
                "".join(f"\n--- {node.output.name}\n{node.text()[-2000:]}" for node in cluster.nodes)
                if cluster
                else ""
            )
            raise AssertionError(f"not in {seconds} s: {what}{logs}")
        time.sleep(0.05)
