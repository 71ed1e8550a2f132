"""`python -m tests.soak.run [--minutes 20] [--seed 0]`: seeded random faults of all kinds.

Keeps one to four nodes of a job alive on this machine, with its state in three members of etcd: kills,
freezes, joins and drains of nodes, workers that hang, a slow and a full disk, etcd's leader lost or cut off.
Ends by judging the ledger of consumed samples as the process tests do; exit code 1 for a lost sample, an
overlap, or an agent that exited on its own.
"""

from __future__ import annotations

import argparse
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

from tests.agent.cluster import POWERS, Cluster, Process
from tests.agent.etcd import Etcd

MOST_NODES = 4
FLAGS = {"slow disk": ("slow-disk", 9.0), "full disk": ("full-disk", 4.0), "hung worker": ("hang-one", 0.0)}
"""Files in the ledger's folder that the trainer obeys, and for how long at most; 0: until one has."""
EXPECTED = {-signal.SIGKILL, 128 + signal.SIGTERM}
"""Exit codes of agents that this program killed or drained."""


class Soak:
    """One job and what was done to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._random = random.Random(seed)
        self._job = Cluster(folder, POWERS, STEPS="100000000", STEP_SECONDS="0.1", EVERY="5")
        self._etcd = Etcd(folder)
        self._job.endpoint = self._etcd.endpoint
        self._exited: set[int] = set()
        self.events: Counter[str] = Counter()
        self.surprises: list[str] = []

    def run(self, seconds: float) -> None:
        """Disturb the job for so many seconds."""
        for _ in range(2):
            self._join()
        self._job.wait_for_step(5, seconds=120)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._act()
            time.sleep(self._random.uniform(2, 14))
            self._check_agents()

    def judge(self) -> list[str]:
        """The faults that were found."""
        self._await_progress()
        for node in self._live():
            node.signal(signal.SIGKILL, workers=True)
        judged = self._job.audit(batch=16)
        rounds = len({row["round"] for row in self._job.rows()})
        steps = self._job.last_checkpoint().rpartition("-")[2]
        times = sorted(row["t"] for row in self._job.rows() if row["event"] == "step")
        gap = max(later - earlier for earlier, later in pairwise(times))
        print(f"{rounds} rounds, {steps} steps kept, longest standstill {gap:.1f} s")
        print(f"audit: {judged.stdout.strip()}")
        return self.surprises + (judged.stdout.splitlines() if judged.returncode else [])

    def close(self) -> None:
        """End all processes of the job."""
        self._job.close()
        self._etcd.close()

    def _live(self) -> list[Process]:
        return [node for node in self._job.nodes if node.running]

    def _join(self) -> None:
        conf = "last_call_timeout=1,stall_timeout=5,stall_restart=10"
        self._job.start_node("--max-restarts", "1000000", conf=conf)

    def _choose(self, live: int) -> str:
        actions = ["join", "kill worker", "freeze node", *FLAGS, "etcd leader lost", "etcd leader cut off"]
        if live > 1:
            actions += ["kill agent", "kill node", "freeze agent", "drain"]
        if live > 2:
            actions += ["kill two nodes", "drain all but one"]
        action = self._random.choice(actions)
        return "kill node" if action == "join" and live >= MOST_NODES else action

    def _act(self) -> None:
        live = self._live()
        action = self._choose(len(live))
        self.events[action] += 1
        node = self._random.choice(live)
        if action in FLAGS:
            self._flag(*FLAGS[action])
        elif action.startswith("etcd"):
            self._disturb_etcd(cut=action.endswith("off"))
        elif action == "join":
            self._join()
        elif action == "kill worker":
            for pid in node.workers():
                Process.send(pid, signal.SIGKILL)
        elif action.startswith("freeze"):
            both = action == "freeze node"
            node.signal(signal.SIGSTOP, workers=both)
            time.sleep(self._random.uniform(1, 9))
            node.signal(signal.SIGCONT, workers=both)
        elif action == "drain all but one":
            for one in live[1:]:
                one.signal(signal.SIGTERM)
        else:
            for one in self._random.sample(live, 2 if action == "kill two nodes" else 1):
                number = signal.SIGTERM if action == "drain" else signal.SIGKILL
                one.signal(number, workers="node" in action)

    def _flag(self, name: str, longest: float) -> None:
        """What the trainer does to itself while there is such a file."""
        flag = self._job.ledger / name
        flag.touch()
        if longest:
            time.sleep(self._random.uniform(1, longest))
            flag.unlink()

    def _disturb_etcd(self, *, cut: bool) -> None:
        leader = self._etcd.leader
        if leader is None:
            return
        (self._etcd.freeze if cut else self._etcd.kill)(leader)
        time.sleep(self._random.uniform(1, 9))
        (self._etcd.wake if cut else self._etcd.start)(leader)

    def _check_agents(self) -> None:
        """Notice agents that exited on their own, and keep the job alive."""
        for number, node in enumerate(self._job.nodes):
            if not node.running and number not in self._exited:
                self._exited.add(number)
                if (code := node.wait(1)) not in EXPECTED:
                    self.surprises.append(f"node {number} ended with {code}: {node.text().splitlines()[-1:]}")
        if not self._live():
            self._join()

    def _await_progress(self) -> None:
        """Add a surprise where the job makes no progress: a standstill is the worst fault."""
        began = time.monotonic()
        while time.monotonic() < began + 60:
            if any(row["event"] == "committed" and row["t"] > began for row in self._job.rows()):
                return
            time.sleep(0.5)
        self.surprises.append("the job makes no progress at the end")


def main() -> int:
    """Command line; 1 where a fault was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), options.seed)
        try:
            soak.run(60 * options.minutes)
            faults = soak.judge()
        finally:
            soak.close()
    print(f"seed {options.seed}: {sum(soak.events.values())} events survived: {dict(soak.events)}")
    print(*faults or ["samples lost 0, split brains 0, agents that exited on their own 0"], sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
