"""`python -m tests.soak.run [--minutes 20] [--seed 0]`: seeded random faults of all kinds.

Keeps one to four nodes of a job alive on this machine, with its state in three members of etcd.  Ends by
judging the ledger of consumed samples as the process tests do; exit code 1 for a lost or repeated sample, a
second group, or an agent that exited on its own.  SIGINT to this process alone ends the
faults early; what was done until then is judged.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

from tests.agent.cluster import POWERS, Cluster, wait_until
from tests.agent.etcd import Etcd
from tests.soak.disks import Disk
from tests.soak.faults import NO_FAULTS, choose, disturb
from tests.soak.hosts import Host

OF_ETCD = "panic: unexpected error during txn"
"""What etcd 3.5 says before 3.5.5 as it ends: a client went away while it read (its pull request 14178)."""


class Soak:
    """One job and what was done to it."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.job = Cluster(folder, POWERS, STEPS="100000000", STEP_SECONDS="0.1", EVERY="5")
        self.etcd = Etcd(folder)
        self.disk = Disk(self.job.ledger, megabytes=512)
        self.hosts: list[Host] = []
        self.events: Counter[str] = Counter()
        self.surprises: list[str] = []
        self._acts: list[tuple[float, str]] = []
        self._began = time.monotonic()

    def run(self, seconds: float) -> None:
        """Disturb the job for so many seconds."""
        for _ in range(2):
            self.join()
        self.job.wait_for_step(5, seconds=120)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._act()
            time.sleep(self.random.uniform(1, 8))
            self._look_after_agents()

    def live(self) -> list[Host]:
        """Nodes whose agent runs."""
        return [host for host in self.hosts if host.node.running]

    def join(self) -> None:
        """One node more."""
        self.hosts.append(Host(self.job, self.etcd))

    def judge(self) -> list[str]:
        """The faults that were found."""
        self._await_progress()
        for host in self.live():
            host.node.end()
        judged = self.job.audit(batch=16)
        rows = self.job.rows()
        rounds = len({row["round"] for row in rows})
        print(f"{rounds} rounds, {self.job.last_checkpoint().rpartition('-')[2]} steps kept")
        self._tell_standstills(sorted(row["t"] for row in rows if row["event"] == "step"))
        print(f"audit: {judged.stdout.strip()}")
        return self.surprises + (judged.stdout.splitlines() if judged.returncode else [])

    def close(self) -> None:
        """End all processes of the job."""
        self.job.close()
        self.etcd.close()
        for host in self.hosts:
            host.close()
        self.disk.close()

    def _act(self) -> None:
        action = choose(self)
        self.events[action] += 1
        self._say(action)
        disturb(self, action)

    def _say(self, what: str) -> None:
        self._acts.append((time.monotonic(), what))
        print(f"{time.monotonic() - self._began:7.1f} s, {len(self.live())} nodes: {what}", flush=True)

    def _look_after_agents(self) -> None:
        """Notice agents that exited on their own, and keep the job alive."""
        for host in self.hosts:
            if not host.node.running and not host.closed:
                host.close()
                if (code := host.node.wait(1)) not in host.expected:
                    last = host.node.text().splitlines()[-1:]
                    self.surprises.append(f"node {host.number} ended with {code}: {last}")
                    self._say(self.surprises[-1])
        if not self.live():
            self.join()
        for number, words in self.etcd.ended().items():
            if OF_ETCD in words:
                self.events["etcd ended by itself"] += 1
            else:
                self.surprises.append(f"member {number} of etcd ended: {words[-500:]}")
            self._say(f"member {number} of etcd ended by itself")
            self.etcd.start(number)

    def _await_progress(self) -> None:
        """Add a surprise where the job makes no progress: a standstill is the worst fault."""
        began = time.monotonic()

        def goes_on() -> bool:
            self._look_after_agents()  # the last faults may have left none that reaches the store
            return any(row["event"] == "committed" and row["t"] > began for row in self.job.rows())

        try:
            wait_until(goes_on, 60, "the job makes no progress at the end")
        except AssertionError as error:
            self.surprises.append(str(error))

    def _tell_standstills(self, steps: list[float]) -> None:
        """The longest, with what was done in the meantime."""
        longest = sorted(pairwise(steps), key=lambda pair: pair[0] - pair[1])[:3]
        for earlier, later in longest:
            acts = [what for moment, what in self._acts if earlier - 1 <= moment <= later]
            print(f"stood still for {later - earlier:.1f} s: {', '.join(acts)}")


def main() -> int:
    """Command line; 1 where a fault was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        soak = Soak(Path(folder), options.seed)
        try:
            with suppress(KeyboardInterrupt):
                soak.run(60 * options.minutes)
            found = soak.judge()
        finally:
            soak.close()
    faults = sum(soak.events.values()) - sum(soak.events[name] for name in NO_FAULTS)
    print(f"seed {options.seed}: {faults} faults survived: {dict(soak.events)}")
    clean = "samples lost 0, repeated 0, second groups 0, agents that exited on their own 0"
    print(*found or [clean], sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
