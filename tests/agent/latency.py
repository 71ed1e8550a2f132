"""How long a job stands still: event to first step of the next group, beside stock torchrun in one run.

`python -m tests.agent.latency [--repeat 5] [--cases ...] [--agents ...]` prints a table of medians with their
ranges. The time that the slowest worker takes to import torch is part of a restart with any agent; it is
measured in the worker and shown apart. A case in which most jobs do not go on says how they ended.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tests.agent.cluster import DOZEN, Cluster, Process
from tests.agent.links import Links

STOCK_WORKER = str(Path(__file__).with_name("stock_worker.py"))
TUNED = "is_host=0,last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=3"
OURS = "stall_timeout=2,stall_restart=5"
"""The defaults, but for workers that make no steps: those are left to themselves for ever."""
LIMIT = 120.0
"""Seconds after which a job counts as standing still for good."""

LINKS: list[Links] = []
"""Each node's way to the store."""

Outcome = tuple[float, float] | str
"""Seconds of stand-still and, of these, of import; or how it failed."""


def start_ours(job: Cluster, nodes: str) -> Process:
    return job.start_node("--max-restarts", "5", nnodes=nodes, conf=OURS)


def start_stock(job: Cluster, nodes: str, conf: str) -> Process:
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", nodes, "--nproc-per-node", "1"]
    command += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{job.port}", "--rdzv-id", "plain"]
    return job.start_agent([*command, "--rdzv-conf", conf, "--max-restarts", "5", STOCK_WORKER])


AGENTS: dict[str, Callable[[Cluster, str], Process]] = {
    "dsconfig": start_ours,
    "torchrun tuned": lambda job, nodes: start_stock(job, nodes, TUNED),
    "torchrun": lambda job, nodes: start_stock(job, nodes, "is_host=0"),
}


def owner(job: Cluster, rank: int) -> tuple[Process, int]:
    """The node and the worker that has a rank in the newest group."""
    row = [row for row in job.rows() if row["rank"] == rank][-1]
    return next(node for node in job.nodes if row["pid"] in node.workers()), row["pid"]


def crash(job: Cluster, _start: Callable[[], Process]) -> None:
    os.kill(owner(job, 1)[1], signal.SIGKILL)


def lose(job: Cluster, _start: Callable[[], Process]) -> None:
    owner(job, 1)[0].signal(signal.SIGKILL, workers=True)


def lose_first(job: Cluster, _start: Callable[[], Process]) -> None:
    owner(job, 0)[0].signal(signal.SIGKILL, workers=True)


def freeze(job: Cluster, _start: Callable[[], Process]) -> None:
    owner(job, 1)[0].signal(signal.SIGSTOP, workers=True)


def cut(job: Cluster, _start: Callable[[], Process]) -> None:
    LINKS[job.nodes.index(owner(job, 1)[0])].cut()


def hang(job: Cluster, _start: Callable[[], Process]) -> None:
    os.kill(owner(job, 1)[1], signal.SIGSTOP)


def join(job: Cluster, start: Callable[[], Process]) -> None:
    start()


CASES: dict[str, tuple[int, Callable[[Cluster, Callable[[], Process]], None]]] = {
    "worker crash": (2, crash),
    "node lost": (2, lose),
    "node joins": (1, join),
    "rank 0 of 3 lost": (3, lose_first),
    "node frozen": (2, freeze),
    "node cut off": (2, cut),
    "worker hangs": (2, hang),
}


def measure(agent: str, case: str) -> Outcome:
    nodes, event = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        job = Cluster(Path(folder), DOZEN, STEPS="100000", STEP_SECONDS="0.05", EVERY="5")
        try:
            job.start_store()
            store = job.port

            def start() -> Process:
                LINKS.append(Links([("127.0.0.1", store)]))
                job.port = LINKS[-1].ports[0]
                job.endpoint = f"127.0.0.1:{job.port}"
                return AGENTS[agent](job, "1:4")

            for _ in range(nodes):
                start()
            job.wait_for_step(5, world=nodes, seconds=120)
            before = {row["pid"] for row in job.rows()}
            began = time.monotonic()
            event(job, start)
            return await_next(job, before, began)
        finally:
            job.close()
            while LINKS:
                LINKS.pop().close()


def await_next(job: Cluster, before: set[int], began: float) -> Outcome:
    """How long until the first step of a worker that was not there before."""
    while time.monotonic() < began + LIMIT:
        steps = [row for row in job.rows() if row["pid"] not in before and row["event"] == "step"]
        first: dict[str, Any] | None = min(steps, key=lambda row: row["t"], default=None)
        if first is not None:
            imports = [row["import"] for row in job.rows() if row["pid"] not in before]
            return first["t"] - began, max(imports)
        ended = [node for node in job.nodes if not node.running]
        if len(ended) == len(job.nodes):
            return "fails"
        time.sleep(0.05)
    return f"stands still > {LIMIT:.0f} s"


def show(outcomes: list[Outcome]) -> str:
    """The median and the range, or what most runs ended in."""
    failed = [outcome for outcome in outcomes if isinstance(outcome, str)]
    if len(failed) * 2 >= len(outcomes):
        return f"{failed[0]} ({len(failed)} of {len(outcomes)})"
    good = [outcome for outcome in outcomes if not isinstance(outcome, str)]
    own = sorted(total - imported for total, imported in good)
    imported = statistics.median(imported for _, imported in good)
    spread = f"{own[0]:.1f}-{own[-1]:.1f}"
    return f"{statistics.median(own):.1f} ({spread}, n={len(good)}) + {imported:.1f} import"


def repeated(agent: str, case: str, repeat: int) -> list[Outcome]:
    """The outcomes; stops early once most of them must be failures."""
    outcomes: list[Outcome] = []
    while len(outcomes) < repeat and sum(isinstance(one, str) for one in outcomes) * 2 <= repeat:
        outcomes.append(measure(agent, case))
    return outcomes


def table(agents: Iterable[str], cases: Iterable[str], repeat: int) -> None:
    print("| event → first step, s | " + " | ".join(agents) + " |", flush=True)
    print("|---|" + "---|" * len(list(agents)), flush=True)
    for case in cases:
        cells = [show(repeated(agent, case, repeat)) for agent in agents]
        print(f"| {case} | " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--agents", nargs="*", default=list(AGENTS), choices=list(AGENTS))
    options = parser.parse_args()
    table(options.agents, options.cases, options.repeat)


if __name__ == "__main__":
    main()
