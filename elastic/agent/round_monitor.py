"""`RoundMonitor`: when the workers of a round should restart, and when this node may leave."""

from __future__ import annotations

from functools import partial

from elastic.agent import job_state_transitions
from elastic.agent.drain import DrainRequest
from elastic.agent.errors import Drained, raise_if_failed
from elastic.agent.event_log import EventLog
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_settings import LocalNode
from elastic.agent.job_state import Cause
from elastic.agent.resize_policy import ResizePolicy
from elastic.agent.stall_watch import StallWatch
from elastic.agent.state_store import StateStore


class RoundMonitor:
    """Monitor one round after another for the node that trains in them."""

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
        """Round of this node's workers; `None` while it has none."""

    def begin(self, round_: int) -> None:
        """Start monitoring when the workers of this round start."""
        self.round = round_
        # If torch's agent restarts workers without calling `num_nodes_waiting`, they have failed.
        self._cause = "failure"
        self._policy.begin(round_)
        self._stalls.begin(round_)

    def end(self) -> Cause | None:
        """Stop monitoring when this node has no workers any more; return why, if this node knows."""
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
        """Number of nodes for which this node's workers should restart; 1 if their round is over.

        Uses the last state of the heartbeat: a store that hangs must not block torch's agent.
        """
        self._heartbeat.raise_if_lost()
        state, decision = self._heartbeat.state, self._policy.decision
        if state is not None:
            raise_if_failed(state)
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
        broken = state.broken if state is not None and decision.over else None
        self._log.write("restart", round=decision.round, broken=broken, joining=decision.joining or None)
        return decision.joining or 1

    def _ask_to_leave(self) -> None:
        if not self._leave_requested:
            self._leave_requested = True
            self._log.write("asked-to-leave")
            self._store.update(partial(job_state_transitions.ask_to_leave, node=self._node.name))
