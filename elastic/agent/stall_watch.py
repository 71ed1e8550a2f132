"""`StallWatch`: detects stalled workers, logs their stacks, and kills them if enabled.

A step is a call of `session.check()`.  A hanging collective, or one slow worker, blocks the workers of all nodes, so
all agents log their stacks at about the same time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable

from elastic.agent.event_log import EventLog
from elastic.agent.job_settings import LocalNode
from elastic.worker.lease import lease_clock
from elastic.worker.progress import SHOW_STACKS, ReportedStep, progress_path, read_progress

FACTOR = 10
"""Factor over the longest recent step at which a step counts as stalled."""
_REMEMBERED = 20
_FEWEST = 3
"""Steps before the usual duration is known."""
_ANSWER = 0.2
"""Seconds that workers have to write their stacks."""


class StallWatch:
    """Watch the workers of one round after another."""

    def __init__(self, node: LocalNode, log: EventLog, clock: Callable[[], float] = lease_clock) -> None:
        self._node = node
        self._log = log
        self._clock = clock
        self.begin(0)

    def begin(self, round_: int) -> None:
        """Start watching when the workers of this round start; 0: there are none."""
        self._round = round_
        self._last: dict[int, ReportedStep] = {}
        self._durations: dict[int, deque[float]] = {}
        self._shown: dict[int, int] = {}

    def look(self) -> None:
        """Check the progress of the workers."""
        for local_rank in range(self._node.job.processes) if self._round else ():
            step = read_progress(self._path(local_rank))
            if step is not None:
                self._record_progress(local_rank, step)
                self._judge(local_rank, step)

    def _record_progress(self, local_rank: int, step: ReportedStep) -> None:
        last = self._last.get(local_rank, step)
        if step.number > last.number:
            durations = self._durations.setdefault(local_rank, deque(maxlen=_REMEMBERED))
            durations.append((step.at - last.at) / (step.number - last.number))
        self._last[local_rank] = step

    def _judge(self, local_rank: int, step: ReportedStep) -> None:
        settings, durations = self._node.settings, self._durations.get(local_rank, ())
        silent = self._clock() - step.at
        has_history = step.number >= _FEWEST and durations
        is_stalled = (
            settings.stall_timeout
            and has_history
            and silent >= max(settings.stall_timeout, FACTOR * max(durations))
        )
        if is_stalled and self._shown.get(local_rank) != step.number:
            self._log_stacks(local_rank, silent, max(durations))
        if settings.stall_restart and silent >= settings.stall_restart:
            self._log.write("stall-ended", round=self._round, local_rank=local_rank)
            with contextlib.suppress(ProcessLookupError):
                os.kill(step.process, signal.SIGKILL)

    def _log_stacks(self, local_rank: int, silent: float, longest: float) -> None:
        """Write the stacks of all workers of this node to the event log."""
        for step in self._last.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(step.process, SHOW_STACKS)
        time.sleep(_ANSWER)
        for rank, step in self._last.items():
            self._shown[rank] = step.number
            seconds = round(self._clock() - step.at)
            stacks = self._stacks(rank)
            self._log.write(
                "stalled",
                round=self._round,
                local_rank=rank,
                steps=step.number,
                seconds=seconds,
                stacks=stacks,
            )
        subject = f"worker {local_rank} of {self._node.name} has made no step for {silent:.0f} s"
        print(
            f"dsconfig: {subject} (the longest of the last steps took {longest:.1f} s); its stack is in the event log",
            file=sys.stderr,
            flush=True,
        )

    def _stacks(self, local_rank: int) -> str:
        with contextlib.suppress(OSError), open(f"{self._path(local_rank)}.stacks", errors="replace") as file:
            return file.read()
        return ""

    def _path(self, local_rank: int) -> str:
        return progress_path(self._node.folder, self._round, local_rank)
