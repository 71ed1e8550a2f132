"""How long a job stands still: event to first step of the next group, beside others' agents in one run.

`python -m tests.agent.latency [--repeat 2] [--cases ...] [--agents ...]` prints a table of medians with their
ranges. The time that the slowest worker takes to import torch is part of a restart with any agent; it is
measured in the worker and shown apart, and so is the import of torch in the agent of a node that joins. A case in
which most jobs do not go on says how they ended. The load of the machine is printed before and after.

Several jobs of others' agents run at a time, since most of them wait; ours run one after the other.
lm-resiliency is measured with `--resiliency FOLDER`, into which pip has put it (`--no-deps --target FOLDER`).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from tests.agent.cluster import DOZEN, ROOT, Cluster, Process
from tests.agent.links import Links

TIMED_AGENT = str(Path(__file__).with_name("timed_agent.py"))
STOCK_WORKER = str(Path(__file__).with_name("stock_worker.py"))
TUNED = "is_host=0,last_call_timeout=2,keep_alive_interval=1,keep_alive_max_attempt=3"
OURS = "stall_timeout=2,stall_restart=5"
"""The defaults, but for workers that make no steps: those are left to themselves for ever."""
LIMIT = 100.0
"""Seconds after which a job counts as standing still for good."""
FOLDER = "DSCONFIG_ELASTIC_AGENT="
SHOWS_TIMELINE = False
AT_ONCE = 4
"""Jobs of others' agents."""
RESILIENCY_RUN = str(Path(__file__).with_name("resiliency_run.py"))

Outcome = tuple[float, float] | str
"""Seconds of stand-still and, of these, of import; or how it failed."""


class Job(Cluster):
    """A job whose nodes have links of their own to the store."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, DOZEN, STEPS="100000", STEP_SECONDS="0.05", EVERY="5")
        self.links: list[Links] = []
        self.agent_command = [sys.executable, TIMED_AGENT, str(folder)]

    def close(self) -> None:
        super().close()
        for links in self.links:
            links.close()


def start_ours(job: Cluster, nodes: str) -> Process:
    return job.start_node("--max-restarts", "5", nnodes=nodes, conf=OURS)


def start_stock(job: Cluster, nodes: str, conf: str, *run: str, backend: str = "c10d") -> Process:
    run = run or ("-m", "torch.distributed.run")
    command = [sys.executable, *run, "--nnodes", nodes, "--nproc-per-node", "1"]
    command += ["--rdzv-backend", backend, "--rdzv-endpoint", f"127.0.0.1:{job.port}", "--rdzv-id", "plain"]
    return job.start_agent([*command, "--rdzv-conf", conf, "--max-restarts", "5", STOCK_WORKER])


def start_resiliency(folder: str, job: Cluster, _nodes: str) -> Process:
    """Start a node of lm-resiliency, which needs a spare node and the names of all machines."""
    number = len(job.nodes)
    machine, context = job.folder / f"machine-{number}", job.folder / f"context-{number}"
    machine.write_text(f"{number:032x}\n")
    context.mkdir(mode=0o700)
    job.environment |= {
        "LM_RESILIENCY_MACHINE_ID_PATH": str(machine),
        "PYTHONPATH": f"{Path(folder).absolute()}:{ROOT}",
    }
    conf = "store_type=tcp,is_host=0,read_timeout=30,lm_resiliency_restart_context_path="
    return start_stock(job, "2:3", f"{conf}{context}/context.json", RESILIENCY_RUN, backend="lm_resiliency")


AGENTS: dict[str, Callable[[Cluster, str], Process]] = {
    "dsconfig": start_ours,
    "torchrun tuned": lambda job, nodes: start_stock(job, nodes, TUNED),
    "torchrun": lambda job, nodes: start_stock(job, nodes, "is_host=0"),
}
OTHERS = {
    "torchrun": ("worker crash", "node lost", "node joins", "rank 0 of 3 lost"),
    "torchrun tuned": ("worker crash", "node lost", "node joins", "rank 0 of 3 lost"),
    "lm-resiliency": ("worker crash", "node lost"),
}
"""Measured cases; in all others, they wait for the timeouts of collectives, half an hour."""


def owner(job: Job, rank: int) -> tuple[Process, int]:
    """The node and the worker that has a rank in the newest group."""
    row = [row for row in job.rows() if row["rank"] == rank][-1]
    return next(node for node in job.nodes if row["pid"] in node.workers()), row["pid"]


def crash(job: Job, _start: Callable[[], Process]) -> None:
    os.kill(owner(job, 1)[1], signal.SIGKILL)


def lose(job: Job, _start: Callable[[], Process]) -> None:
    owner(job, 1)[0].signal(signal.SIGKILL, workers=True)


def lose_first(job: Job, _start: Callable[[], Process]) -> None:
    owner(job, 0)[0].signal(signal.SIGKILL, workers=True)


def freeze(job: Job, _start: Callable[[], Process]) -> None:
    owner(job, 1)[0].signal(signal.SIGSTOP, workers=True)


def cut(job: Job, _start: Callable[[], Process]) -> None:
    job.links[job.nodes.index(owner(job, 1)[0])].cut()


def hang(job: Job, _start: Callable[[], Process]) -> None:
    os.kill(owner(job, 1)[1], signal.SIGSTOP)


def fill(job: Job, _start: Callable[[], Process]) -> None:
    (job.ledger / "disk-full").touch()


def spoil(job: Job, _start: Callable[[], Process]) -> None:
    """The agent finds that it cannot write when it starts its worker anew."""
    worker = owner(job, 1)[1]
    variables = Path(f"/proc/{worker}/environ").read_bytes().decode().split("\0")
    shutil.rmtree(next(one for one in variables if one.startswith(FOLDER)).removeprefix(FOLDER))
    os.kill(worker, signal.SIGKILL)


def join(_job: Job, start: Callable[[], Process]) -> None:
    start()


CASES: dict[str, tuple[int, Callable[[Job, Callable[[], Process]], None]]] = {
    "worker crash": (2, crash),
    "node lost": (2, lose),
    "node joins": (1, join),
    "rank 0 of 3 lost": (3, lose_first),
    "node frozen": (2, freeze),
    "node cut off": (2, cut),
    "worker hangs": (2, hang),
    "disk full": (2, fill),
    "host not writable": (2, spoil),
}


def measure(agent: str, case: str) -> Outcome:
    nodes, event = CASES[case]
    with tempfile.TemporaryDirectory() as folder:
        job = Job(Path(folder))
        try:
            job.start_store()
            store = job.port

            def start() -> Process:
                job.links.append(Links([("127.0.0.1", store)]))
                job.port = job.links[-1].ports[0]
                job.endpoint = f"127.0.0.1:{job.port}"
                return AGENTS[agent](job, "1:4")

            for _ in range(nodes + (agent == "lm-resiliency")):
                start()
            job.wait_for_step(5, world=nodes, seconds=LIMIT)
            before, present = {row["pid"] for row in job.rows()}, len(job.nodes)
            began = time.monotonic()
            event(job, start)
            outcome = await_next(job, before, began)
            if not isinstance(outcome, str):
                total, imported = outcome
                outcome = (
                    total,
                    imported + max(map(partial(agent_import, job), job.nodes[present:]), default=0.0),
                )
            if SHOWS_TIMELINE and agent == "dsconfig" and not isinstance(outcome, str):
                for seconds, text in timeline(job, began, before):
                    print(f"{case}: {seconds:.2f} s  {text}", file=sys.stderr)
            return outcome
        except AssertionError:
            return "does not start"
        finally:
            job.close()


def agent_import(job: Job, agent: Process) -> float:
    """Seconds that an agent took to import torch; 0 for agents of others, which do not say."""
    path = job.folder / f"{agent.pid}.import"
    return float(path.read_text()) if path.exists() else 0.0


def timeline(job: Job, began: float, before: set[int]) -> list[tuple[float, str]]:
    """What the agents wrote into their event logs since the event, and when the new workers began."""
    offset = time.time() - time.monotonic()
    moments: list[tuple[float, str]] = []
    for number in range(len(job.nodes)):
        for line in (job.folder / f"node-{number}.events").read_text().splitlines():
            event = json.loads(line)
            if event["time"] - offset >= began:
                moments.append((event["time"] - offset - began, f"node {number}: {event['event']}"))
    for pid in {row["pid"] for row in job.rows()} - before:
        first = next(row for row in job.rows() if row["pid"] == pid)
        rank = first["rank"]
        moments.append((first["began"] - began, f"rank {rank}: imports torch"))
        moments.append((first["began"] + first["import"] - began, f"rank {rank}: has imported torch"))
        moments.append((first["t"] - began, f"rank {rank}: {first['event']}"))
    return sorted(moments)


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
    net = sorted(total - imported for total, imported in good)
    imported = statistics.median(imported for _, imported in good)
    spread = f"{net[0]:.1f}-{net[-1]:.1f}"
    return f"{statistics.median(net):.1f} ({spread}, n={len(good)}) + {imported:.1f} import"


def repeated(agent: str, case: str, repeat: int) -> list[Outcome]:
    """The outcomes; stops early once most of them must be failures."""
    outcomes: list[Outcome] = []
    while len(outcomes) < repeat and sum(isinstance(one, str) for one in outcomes) * 2 <= repeat:
        outcomes.append(measure(agent, case))
    return outcomes


def of_others(
    agents: Iterable[str], cases: Iterable[str], repeat: int
) -> dict[tuple[str, str], list[Outcome]]:
    """Measurements of other agents, by agent and case."""
    wanted = [(agent, case) for agent in agents for case in OTHERS.get(agent, ()) if case in cases]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(wanted, pool.map(lambda one: repeated(one[0], one[1], repeat), wanted), strict=True))


def table(agents: Sequence[str], cases: Sequence[str], repeat: int) -> None:
    print(f"| event → first step, s | {' | '.join(agents)} |\n|---{'|---' * len(agents)}|", flush=True)
    load_before = os.getloadavg()[0]
    others = of_others(agents, cases, repeat)
    for case in cases:
        cells = []
        for agent in agents:
            outcomes = others.get((agent, case), []) if agent in OTHERS else repeated(agent, case, repeat)
            cells.append(show(outcomes) if outcomes else "")
        print(f"| {case} | {' | '.join(cells)} |", flush=True)
    print(f"load {load_before:.1f} to {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--cases", nargs="*", default=list(CASES), choices=list(CASES))
    parser.add_argument("--agents", nargs="*", default=["dsconfig", "torchrun"], choices=list(AGENTS))
    parser.add_argument("--timeline", action="store_true", help="print when each step of a recovery began")
    parser.add_argument("--resiliency", help="measure lm-resiliency too, which lies in this folder")
    options = parser.parse_args()
    global SHOWS_TIMELINE  # noqa: PLW0603 - an option
    SHOWS_TIMELINE = options.timeline
    if options.resiliency:
        AGENTS["lm-resiliency"] = partial(start_resiliency, options.resiliency)
        options.agents.append("lm-resiliency")
    table(options.agents, options.cases, options.repeat)


if __name__ == "__main__":
    main()
