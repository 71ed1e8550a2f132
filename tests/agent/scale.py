"""`python -m tests.agent.scale [--nodes 64 512 2048] [--lost 1 10]`: large jobs in simulated time.

Whole nodes with the agent's own code and a store that answers in 0.5 to 2 ms, without torch.  All nodes come
at once and form a group; some of them are lost at once, and the rest form the next; then nothing happens
for 16 s.  For each: how long it takes until all train, how often a node calls the store, reads the state or a
page and tries to change the state, and how many bytes it reads, as they are packed.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from math import log2
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_settings import ElasticJob, LocalNode, RendezvousSettings
from elastic.agent.job_state import JobState
from elastic.agent.node import Node
from elastic.agent.resize_policy import ResizePolicy
from elastic.planning.plan import PlanRow
from tests.agent.fakes import DictStore, job_of
from tests.agent.simulated_time import DirectCaller, World

SETTINGS = RendezvousSettings()
OURS = (
    "heartbeat",
    "state_store",
    "node",
    "round_joiner",
    "job_state_transitions",
)
ENCODE = JobState.encode
CALLS = ("read", "page", "change", "poll", "write")
"""Kinds of calls to the store: a read of the whole state, or of a page."""
LIMIT = 600.0
"""Simulated seconds after which a group does not form."""


class AnyNumber(ElasticJob):
    """A job for which every number of nodes is admissible."""

    def __post_init__(self) -> None: ...

    def size(self, present: int) -> int | None:
        return present

    def row(self, nodes: int) -> PlanRow | None:
        return job_of().row(1)


class CountingStore(DictStore):
    """A node's connection to the store of all."""

    def __init__(self, simulation: Simulation) -> None:
        super().__init__()
        self.data = simulation.data
        self._simulation = simulation

    def _pass(self, kind: str) -> None:
        self._simulation.calls[kind] += 1
        world = self._simulation.world
        world.sleep(world.random.uniform(0.0005, 0.002))

    def set(self, key: str, value: str, /) -> None:
        self._pass("write")
        super().set(key, value)

    def multi_set(self, keys: list[str], values: list[str], /) -> None:
        self._pass("write")
        super().multi_set(keys, values)

    def get(self, key: str, /) -> bytes:
        is_state = key.endswith("/state")
        self._pass("read" if is_state else "page" if "/page/" in key else "poll")
        return self._count_bytes(key, super().get(key))

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        self._pass("poll")
        return [self._count_bytes(key, self.data[key].encode()) for key in keys]

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        self._pass("change")
        return self._count_bytes(key, super().compare_set(key, expected, desired))

    def _count_bytes(self, key: str, value: bytes) -> bytes:
        """Count what an answer carries, also that of a compare-and-set, which is the value that the key has."""
        is_state = key.endswith("/state")
        named = [kind for kind in ("page", "mailbox") if f"/{kind}/" in key]
        kind = "state" if is_state else named[0] if named else "other"
        size = self._simulation.size(value.decode()) if is_state else len(value)
        self._simulation.calls[f"{kind} bytes"] += size
        self._simulation.calls["bytes"] += size
        return value


@dataclass(frozen=True)
class Formed:
    """How a group came about."""

    nodes: int
    lost: int
    rounds: int
    seconds: float
    calls: Counter[str]

    def line(self) -> str:
        """A row of the table."""
        each = {kind: self.calls[kind] / self.nodes for kind in CALLS}
        counts = " | ".join(f"{count:.1f}" for count in each.values())
        every = sum(each.values()) / max(1.0, log2(self.nodes))
        kinds = ("state bytes", "page bytes", "mailbox bytes", "other bytes", "bytes")
        kilobytes = " | ".join(f"{self.calls[kind] / self.nodes / 1000:.1f}" for kind in kinds)
        growth = self.calls["bytes"] / self.nodes / log2(self.nodes) if self.nodes > 1 else 0.0
        return (
            f"| {self.nodes} | {self.lost} | {self.rounds} | {self.seconds:.1f} | {counts} | {every:.1f} | "
            f"{kilobytes} | {growth:,.0f} |"
        )


class Simulation:
    """Nodes of one job."""

    def __init__(self, nodes: int, folder: Path, seed: int = 0) -> None:
        self.world = World(seed)
        self.world.freezes = False
        self.data: dict[str, str] = {}
        self.calls: Counter[str] = Counter()
        self.states: dict[str, JobState] = {}
        self.rounds: dict[int, int] = {}
        """The round that each node trains in."""
        self._sizes: dict[str, int] = {}
        self._dead: set[int] = set()
        self._folder = folder
        base = job_of()
        self._job = AnyNumber(base.config, base.plan, 1, nodes, 1, max_restarts=None)
        for number in range(nodes):
            (folder / str(number)).mkdir()
            self.world.start(partial(self._live, number), partial(self._dead.__contains__, number))

    def size(self, name: str) -> int:
        """Bytes of the state of that name in a store."""
        if name not in self._sizes:
            self._sizes[name] = len(ENCODE(self.states[name]))
        return self._sizes[name]

    def form(self, lost: int = 0) -> Formed:
        """Lose some nodes, and go on until all others train together."""
        before, began, number = self.calls.copy(), self.world.clock, max(self.rounds.values(), default=0)
        alive = [one for one in sorted(self.rounds) if one not in self._dead]
        self._dead.update(self.world.random.sample(alive, lost) if lost else ())
        wanted = self._job.max_nodes - len(self._dead)
        while True:
            self.world.run(self.world.clock + 0.1)
            if self.world.errors:
                raise self.world.errors[0]
            newest = max(self.rounds.values(), default=0)
            training = [one for one, round_ in self.rounds.items() if round_ == newest]
            if newest > number and len(set(training) - self._dead) == wanted == len(training):
                break
            assert self.world.clock - began < LIMIT, f"no group of {wanted} in {LIMIT} s"
        seconds = self.world.clock - began
        return Formed(wanted, lost, newest - number, seconds, self.calls - before)

    def rest(self, seconds: float) -> Formed:
        """Let them train."""
        before = self.calls.copy()
        self.world.run(self.world.clock + seconds)
        present = self._job.max_nodes - len(self._dead)
        return Formed(present, 0, 0, seconds, self.calls - before)

    def _live(self, number: int) -> None:
        random = Random(number)
        name = f"gpu-{number}.cluster.example-{random.randrange(100, 400_000)}-{random.randbytes(2).hex()}"
        host, folder = f"10.0.{number // 256}.{number % 256}", str(self._folder / str(number))
        local = LocalNode(self._job, SETTINGS, "job", host, folder, name)
        node = Node.open(local, CountingStore(self), lambda: CountingStore(self))
        self.world.start(partial(self._beat, node.heartbeat), partial(self._dead.__contains__, number))
        while True:
            self.rounds[number] = node.join()[0].round
            while not node.num_nodes_waiting():
                self.world.sleep(0.1)

    def _beat(self, heartbeat: Heartbeat) -> None:
        while True:
            heartbeat._wake.clear()
            heartbeat._tick()
            self.world.sleep(heartbeat._pause)


class _Silent:
    def __init__(self, *_: object) -> None: ...

    def write(self, *_: object, **__: object) -> None: ...

    def close(self) -> None: ...


@contextmanager
def simulated(nodes: int) -> Iterator[Simulation]:
    """A simulation in which the agent's modules live."""
    threading.stack_size(256 * 1024)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        simulation = Simulation(nodes, Path(folder))

        def encode(state: JobState) -> str:
            """Its name: a state of thousands of nodes is large, and JSON is not what is measured."""
            name = f"{state.revision}/{state.writer}"
            simulation.states[name] = state
            return name

        def put(target: str, value: Any) -> None:
            stack.enter_context(patch(target, value))

        for module in ("worker.worker_lease", *(f"agent.{name}" for name in OURS)):
            for name, value in (
                ("lease_clock", simulation.world.now),
                ("time", simulation.world),
                ("random", simulation.world.random),
            ):
                if hasattr(__import__(f"elastic.{module}", fromlist=["_"]), name):
                    put(f"elastic.{module}.{name}", value)
        put("elastic.agent.job_state.JobState.encode", encode)
        put("elastic.agent.state_store.decode_state", lambda raw: simulation.states[raw.decode()])
        put("elastic.agent.state_store.BoundedCaller", DirectCaller)
        put("elastic.agent.node.ResizePolicy", partial(ResizePolicy, clock=simulation.world.now))
        put("elastic.agent.node.WorkerServer", _Silent)
        put("elastic.agent.node.EventLog", _Silent)
        put("elastic.agent.heartbeat.Heartbeat.start", Heartbeat._send)
        try:
            yield simulation
        finally:
            simulation.world.end()
            threading.stack_size(0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, nargs="*", default=[8, 64, 512, 2048])
    parser.add_argument("--lost", type=int, nargs="*", default=[1, 10])
    options = parser.parse_args()
    columns = (
        "nodes",
        "lost",
        "rounds",
        "s",
        "reads",
        "pages",
        "changes",
        "polls",
        "writes",
        "all / log n",
        "kB of states",
        "kB of pages",
        "kB of mailboxes",
        "kB of small keys",
        "kB",
        "bytes / n log n",
    )
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)
    for nodes in options.nodes:
        with simulated(nodes) as simulation:
            print(simulation.form().line(), flush=True)
            for lost in options.lost:
                if lost < nodes // 2:
                    print(simulation.form(lost).line(), flush=True)
            print(simulation.rest(16.0).line(), flush=True)


if __name__ == "__main__":
    main()
