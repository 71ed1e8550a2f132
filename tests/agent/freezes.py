"""`python -m tests.agent.freezes [--count 200] [--jobs 3] [--no-keeper]`: real freezes of real nodes.

In each a node is stopped, with its worker and half of the time with the worker's keeper, until another group
trains without it; then it is woken.  A line that its worker wrote after that is a fault, and so is a line
beside one of another round.  `--no-keeper` is the control: the worker has only its own checks.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path

from tests.agent.audit import overlaps, rows
from tests.agent.cluster import POWERS, Cluster, Process, wait_until

WORKER = str(Path(__file__).with_name("light_worker.py"))


class Job:
    """Two nodes, of which one after the other freezes."""

    def __init__(self, folder: Path, seed: int, count: int) -> None:
        self._random = random.Random(seed)
        self._left = count
        self.cluster = Cluster(folder, POWERS)
        self.faults: list[str] = []
        self.freezes = 0

    def run(self) -> None:
        """All freezes, and the judgement of the whole ledger."""
        try:
            self.cluster.start_store()
            for _ in range(2):
                self.cluster.start_node(nnodes="1:2", script=WORKER)
            for _ in range(self._left):
                self._freeze()
                self.freezes += 1
            self.faults += overlaps(rows(self.cluster.ledger))
        except AssertionError as stuck:
            self.faults.append(f"after {self.freezes} freezes: {stuck}")
        finally:
            self.cluster.close()

    def _freeze(self) -> None:
        round_ = self._await_round(0, world=2)
        time.sleep(self._random.uniform(0.0, 0.3))
        node = self._random.choice(self.cluster.nodes)
        worker = node.workers()[0]
        frozen = [node.pid, worker]
        if self._random.random() < 0.5:
            frozen += Process.children(worker)
        self._random.shuffle(frozen)
        for pid in frozen:
            Process.send(pid, signal.SIGSTOP)
        self._await_round(round_ + 1, world=1)
        time.sleep(self._random.uniform(0.0, 0.5))
        woken = time.monotonic()
        for pid in self._random.sample(frozen, len(frozen)):
            Process.send(pid, signal.SIGCONT)
        self._await_round(round_ + 2, world=2)
        late = [row for row in rows(self.cluster.ledger, f"*-{worker}") if row["t"] > woken]
        self.faults += [f"round {row['round']}: {row['event']} after it was woken" for row in late]

    def _await_round(self, at_least: int, world: int) -> int:
        """The newest round, once all of so many workers are at work in it."""
        found = 0

        def formed() -> bool:
            nonlocal found
            files = sorted(self.cluster.ledger.glob("*.jsonl"))
            found = max((int(file.name.split("-")[1]) for file in files), default=0)
            return found >= at_least and sum(f"-{found:04}-" in file.name for file in files) == world

        wait_until(formed, 60, f"a round of {world} from {at_least}", self.cluster)
        return found


def main() -> int:
    """Command line; 1 where a frozen worker did something."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-keeper", action="store_true")
    options = parser.parse_args()
    if options.no_keeper:
        os.environ["DSCONFIG_TEST_NO_KEEPER"] = "1"
    import torch

    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for number in range(options.jobs):
            subfolder = Path(folder) / str(number)
            subfolder.mkdir()
            share = len(range(number, options.count, options.jobs))
            jobs.append(Job(subfolder, options.seed + number, share))
        threads = [threading.Thread(target=job.run) for job in jobs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    faults = [fault for job in jobs for fault in job.faults]
    print(f"torch {torch.__version__}: {sum(job.freezes for job in jobs)} freezes, {len(faults)} faults")
    print(*faults[:20], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
