"""`StallWatch`: notices workers that make no steps, shows where they are, and ends them if that is wished.

A step is a call of `session.check()`.  A collective that hangs, or one slow worker, holds up the workers of
all nodes: each agent shows its own, at about the same time.
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
from elastic.agent.job import LocalNode
from elastic.worker.lease import now
from elastic.worker.progress import SHOW_STACKS, Step, progress_path, read_progress

FACTOR = 10
"""A step must take so many times as long as the longest of the last ones."""
_REMEMBERED = 20
_FEWEST = 3
"""Steps before which nothing is known of how long one takes."""
_ANSWER = 0.2
"""Seconds that workers get to write their stacks."""


class StallWatch:
    """Looks at the workers of one round after the other."""

    def __init__(self, node: LocalNode, log: EventLog, clock: Callable[[], float] = now) -> None:
        self._node = node
        self._log = log
        self._clock = clock
        self.begin(0)

    def begin(self, round_: int) -> None:
        """Workers of this round start; 0: there are none."""
        self._round = round_
        self._last: dict[int, Step] = {}
        self._took: dict[int, deque[float]] = {}
        self._shown: dict[int, int] = {}

    def look(self) -> None:
        """Once in a while, while workers run."""
        for local_rank in range(self._node.job.processes) if self._round else ():
            step = read_progress(self._path(local_rank))
            if step is not None:
                self._note(local_rank, step)
                self._judge(local_rank, step)

    def _note(self, local_rank: int, step: Step) -> None:
        last = self._last.get(local_rank, step)
        if step.number > last.number:
            took = self._took.setdefault(local_rank, deque(maxlen=_REMEMBERED))
            took.append((step.at - last.at) / (step.number - last.number))
        self._last[local_rank] = step

    def _judge(self, local_rank: int, step: Step) -> None:
        settings, took = self._node.settings, self._took.get(local_rank, ())
        silent = self._clock() - step.at
        known = step.number >= _FEWEST and took
        slow = settings.stall_timeout and known and silent >= max(settings.stall_timeout, FACTOR * max(took))
        if slow and self._shown.get(local_rank) != step.number:
            self._show(local_rank, silent, max(took))
        if settings.stall_restart and silent >= settings.stall_restart:
            self._log.write("stall-ended", round=self._round, local_rank=local_rank)
            with contextlib.suppress(ProcessLookupError):
                os.kill(step.process, signal.SIGKILL)

    def _show(self, local_rank: int, silent: float, longest: float) -> None:
        """Write the stacks of all workers of this node to the event log."""
        for step in self._last.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(step.process, SHOW_STACKS)
        time.sleep(_ANSWER)
        for one, step in self._last.items():
            self._shown[one] = step.number
            seconds = round(self._clock() - step.at)
            stacks = self._stacks(one)
            self._log.write(
                "stalled",
                round=self._round,
                local_rank=one,
                steps=step.number,
                seconds=seconds,
                stacks=stacks,
            )
        what = f"worker {local_rank} of {self._node.name} has made no step for {silent:.0f} s"
        print(
            f"dsconfig: {what}, and the last ones took {longest:.1f} s at most; the event log has the stacks",
            file=sys.stderr,
            flush=True,
        )

    def _stacks(self, local_rank: int) -> str:
        with contextlib.suppress(OSError), open(f"{self._path(local_rank)}.stacks", errors="replace") as file:
            return file.read()
        return ""

    def _path(self, local_rank: int) -> str:
        return progress_path(self._node.folder, self._round, local_rank)
