"""Workers that make no steps: noticed against their own pace, shown once, ended where that is wished."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from elastic.agent.event_log import EventLog
from elastic.agent.job_settings import LocalNode, RendezvousSettings
from elastic.agent.round_monitor import StallWatch
from elastic.worker.worker_progress import _FORMAT, progress_path
from tests.agent.cluster import ROOT, wait_until
from tests.agent.fakes import job_of

WORKER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from elastic.worker.worker_progress import ProgressFile
def hangs():
    time.sleep(60)
ProgressFile(sys.argv[2]).step()
hangs()
"""
Watch = Callable[..., StallWatch]


class Stalls:
    """A node with one worker that hangs, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.clock = 100.0
        self.path = progress_path(str(folder), 1, 0)
        self._log = folder / "events"
        self._folder = folder
        self.worker = subprocess.Popen([sys.executable, "-c", WORKER, str(ROOT), self.path])
        wait_until(lambda: Path(self.path).exists() and Path(self.path).stat().st_size > 0, 20, "it works")

    def watch(self, **settings: float) -> StallWatch:
        timed = replace(RendezvousSettings(), **settings)  # type: ignore[arg-type]
        local = LocalNode(job_of(), timed, "job", "localhost", str(self._folder), "n0")
        stall_watch = StallWatch(local, EventLog(str(self._log), "n0"), lambda: self.clock)
        stall_watch.begin(1)
        return stall_watch

    def step(self, count: int) -> None:
        Path(self.path).write_bytes(_FORMAT.pack(self.clock, count, self.worker.pid))

    def steps(self, watch: StallWatch, count: int, each: float) -> None:
        for number in range(1, count + 1):
            self.step(number)
            watch.look()
            self.clock += each

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._log.read_text().splitlines()]


@pytest.fixture
def stalls(tmp_path: Path) -> Iterator[Stalls]:
    harness = Stalls(tmp_path)
    yield harness
    harness.worker.kill()
    harness.worker.wait()


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_stacks_are_shown_once(stalls: Stalls, capfd: pytest.CaptureFixture[str]) -> None:
    watch = stalls.watch(stall_timeout=5)
    stalls.steps(watch, 4, each=1.0)
    watch.look()
    stalls.clock += 8.0
    watch.look()
    assert stalls.events() == [], "less than ten times as long as the others"
    stalls.clock += 2.0
    watch.look()
    watch.look()
    (event,) = stalls.events()
    assert (event["event"], event["steps"], event["seconds"]) == ("stalled", 4, 11)
    assert "in hangs" in event["stacks"]
    assert "has made no step for 11 s (the longest of the last steps took 1.0 s)" in capfd.readouterr().err
    assert stalls.worker.poll() is None


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize(("timeout", "each", "silent"), [(60, 1.0, 59), (60, 8.0, 79), (0, 1.0, 10000)])
def test_what_is_no_stall(stalls: Stalls, timeout: float, each: float, silent: float) -> None:
    watch = stalls.watch(stall_timeout=timeout)
    stalls.steps(watch, 4, each)
    stalls.clock += silent - each
    watch.look()
    assert stalls.events() == []


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_worker_is_ended_where_that_is_wished(stalls: Stalls) -> None:
    watch = stalls.watch(stall_restart=30)
    stalls.steps(watch, 1, each=1.0)
    stalls.clock += 28.0
    watch.look()
    assert stalls.worker.poll() is None
    stalls.clock += 2.0
    watch.look()
    assert stalls.worker.wait(10) == -signal.SIGKILL
    watch.look()
