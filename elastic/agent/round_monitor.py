"""`RoundMonitor`: decides when workers restart and this node may leave; `StallWatch`: detects stalled workers.

`StallWatch` logs the stacks of stalled workers, and kills them if enabled. A step is a call of `session.check()`. A
hanging collective or a slow worker blocks the workers of all nodes, so all agents log their stacks at about the same
time.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable

from elastic.agent.drain_request import DrainRequest
from elastic.agent.errors import Drained, raise_if_failed
from elastic.agent.event_log import EventLog
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_settings import LocalNode
from elastic.agent.job_state import Cause
from elastic.agent.join_requests import DrainNotice
from elastic.agent.node_view import NodeView
from elastic.agent.resize_policy import ResizePolicy
from elastic.agent.state_store import StateStore
from elastic.worker.worker_lease import lease_clock
from elastic.worker.worker_progress import SHOW_STACKS, ReportedStep, progress_path, read_progress

FACTOR = 10
"""Multiple of the longest recent step at which a step counts as stalled."""
_REMEMBERED = 20
_FEWEST = 3
"""Number of steps after which a worker's usual step duration is known."""
_ANSWER = 0.2
"""Seconds that workers have to write their stacks after the signal."""


class StallWatch:
    """Watches for stalled workers, one round at a time."""

    def __init__(self, node: LocalNode, log: EventLog, clock: Callable[[], float] = lease_clock) -> None:
        self._node = node
        self._log = log
        self._clock = clock
        self.begin(0)

    def begin(self, round_: int) -> None:
        """Start watching when the workers of this round start; a `round_` of 0 means that there are none."""
        self._round = round_
        self._last: dict[int, ReportedStep] = {}
        self._durations: dict[int, deque[float]] = {}
        self._shown: dict[int, int] = {}

    def look(self) -> None:
        """Check whether this node's workers have made progress."""
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
        """Write the stacks of all workers on this node to the event log."""
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


class RoundMonitor:
    """Monitors the rounds in which this node trains, one at a time."""

    def __init__(
        self,
        node: LocalNode,
        store: StateStore,
        heartbeat: Heartbeat,
        policy: ResizePolicy,
        drain: DrainRequest,
        log: EventLog,
    ) -> None:
        self._node = node
        self._store = store
        self._heartbeat = heartbeat
        self._policy = policy
        self._drain = drain
        self._log = log
        self._stalls = StallWatch(node, log)
        self._cause: Cause | None = None
        self._leave_requested = False
        self.round: int | None = None
        """Number of the round of this node's workers, or `None` while the node has none."""

    def begin(self, round_: int) -> None:
        """Start monitoring when the workers of `round_` start."""
        self.round = round_
        # If torch's agent restarts workers without calling `num_nodes_waiting`, they have failed.
        self._cause = "failure"
        self._policy.begin(round_)
        self._stalls.begin(round_)

    def end(self) -> Cause | None:
        """Stop monitoring after this node's workers have ended; return why they ended, or `None` if unknown."""
        cause, self._cause, self.round = self._cause, None, None
        lease = self._heartbeat.lease
        if cause == "failure" and lease is not None:
            if lease.revoked:
                cause = None  # the round was over before its workers ended
            elif self._heartbeat.lapsed or lease.remaining() <= 0:
                cause = "change"  # this host or the store was frozen, which is not a worker failure
        self._heartbeat.grant(None)
        self._policy.begin(0)
        self._stalls.begin(0)
        return cause

    def num_nodes_waiting(self) -> int:
        """Return the number of nodes whose arrival requires the workers to restart, or 1 if the round is over.

        The method uses the last view of the heartbeat, because a hanging store must not block torch's agent.
        """
        self._heartbeat.raise_if_lost()
        view, decision = self._heartbeat.view, self._policy.decision
        if view is not None:
            raise_if_failed(view)
        if self.round is None or decision.round != self.round:
            return 0  # the heartbeat has not run since the round began
        self._stalls.look()
        if self._drain.requested:
            self._ask_to_leave()
        if (self._drain.requested and decision.over) or decision.may_leave:
            raise Drained
        if not (decision.over or decision.joining):
            return 0
        self._cause = None if decision.over else "change"
        broken = view.broken if view is not None and decision.over else None
        self._log.write("restart", round=decision.round, broken=broken, joining=decision.joining or None)
        return decision.joining or 1

    def _ask_to_leave(self) -> None:
        if not self._leave_requested:
            self._leave_requested = True
            self._log.write("asked-to-leave")
            self._store.ask(self._drain_notice, self._heartbeat.latest_view)

    def _drain_notice(self, view: NodeView) -> DrainNotice | None:
        if view.own_row is None:
            return None
        return DrainNotice(self._node.name, view.revision, view.round, view.own_row.member.join_order)
