"""`RoundJoiner`: brings this node into the group of each round; `GroupFormation`: proposes groups."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Hashable
from functools import partial

from elastic.agent import job_state_transitions
from elastic.agent.drain_request import DrainRequest
from elastic.agent.errors import LATE, Drained, JobSucceeded, RefusedError, TooFewNodesError, raise_if_failed
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_settings import LocalNode
from elastic.agent.job_state import Cause, JobOutcome, JobState, digest_of_contract
from elastic.agent.join_requests import ArrivalRequest, RankConfirmation
from elastic.agent.node_view import CROWD, JobSummary, NodeView, summarize
from elastic.agent.state_store import SMALL, StateStore, WriterLottery
from elastic.worker.worker_lease import Lease, lease_path

_HINT_POLLS = 5
"""Number of polls of the hint, a small key, between two reads of the state in a small job."""


class RoundJoiner:
    """Announces this node, confirms its rank in a group, and waits for its lease."""

    def __init__(self, node: LocalNode, store: StateStore, heartbeat: Heartbeat, drain: DrainRequest) -> None:
        self._node = node
        self._store = store
        self._heartbeat = heartbeat
        self._drain = drain
        self._was_member = False

    def join(self, cause: Cause | None) -> NodeView:
        """Wait until a group with this node runs under a lease; `cause` says why the node's last group ended.

        Raises:
            JobSucceeded: the job has succeeded without this node.
            Drained: this node was asked to leave.
            AgentError: the node can no longer join a group.
        """
        port, reservation = _reserve_port()
        formation = GroupFormation(self._node, self._store)
        entering = True
        with contextlib.closing(reservation):
            while True:
                self._raise_if_drained()
                view = self._store.ask(
                    partial(self._arrival_request, port=port, entering=entering, cause=cause),
                    self._heartbeat.latest_view,
                    formation.propose_if_complete,
                )
                self._raise_if_ended(view)
                entering = False
                if view.has_rank and view.phase == "proposed":
                    view = self._store.ask(
                        self._rank_confirmation, self._heartbeat.latest_view, use_last=True
                    )
                if view.has_rank and view.phase == "running" and self._has_lease(view):
                    return view
                formation.advance(view)
                self._pause(view)

    def _arrival_request(
        self, view: NodeView, port: int, entering: bool, cause: Cause | None
    ) -> ArrivalRequest | None:
        """Return an arrival request on entering, or if this node was removed or its new group has broken."""
        name, host = self._node.name, self._node.host
        if view.own_row is None:
            contract = self._node.job.contract()
            return ArrivalRequest(
                name,
                view.revision,
                view.round,
                None,
                host,
                port,
                liveness_port=self._node.liveness_port,
                contract_digest=digest_of_contract(contract),
                contract=contract,
            )
        member = view.own_row.member
        if not entering and (member.arrived or view.phase != "forming"):
            return None
        cause = cause if entering else None
        return ArrivalRequest(name, view.revision, view.round, member.join_order, host, port, cause)

    def _rank_confirmation(self, view: NodeView) -> RankConfirmation:
        return RankConfirmation(self._node.name, view.revision, view.round)

    def _has_lease(self, view: NodeView) -> bool:
        """Return whether workers may start; wait for the first heartbeat as a member if necessary."""
        lease = Lease(lease_path(self._node.folder, view.round), create=True)
        self._heartbeat.grant(lease)
        while True:
            time.sleep(self._node.settings.poll_interval / 16)
            if lease.valid:
                break
            self._heartbeat.raise_if_lost()
            self._raise_if_drained()
            current = self._heartbeat.view  # the heartbeat decides whether to renew the lease
            if current is None or current.revision < view.revision:
                continue
            if job_state_transitions.is_round_over(current, view.round) or current.own_row is None:
                return False
        self._heartbeat.begin_round()
        return True

    def _pause(self, view: NodeView) -> None:
        """Wait briefly, or in a small job or on standby, until the state changes."""
        is_waiting = view.phase == "running" and view.is_standby
        pause = self._node.settings.poll_interval / 2
        while True:
            if is_waiting or self._store.pages or view.present > SMALL:
                time.sleep(pause * (1 + min(view.present / CROWD, 1.0)))
            else:
                self._store.await_hint(view, pause, _HINT_POLLS)
            self._heartbeat.raise_if_lost()
            latest = self._heartbeat.view
            if (
                not is_waiting
                or self._drain.requested
                or (latest is not None and latest.revision > view.revision)
            ):
                return

    def _raise_if_drained(self) -> None:
        view = self._heartbeat.view
        if self._drain.requested or (view is not None and view.own_row is not None and view.own_row.leaving):
            raise Drained

    def _raise_if_ended(self, view: NodeView) -> None:
        self._heartbeat.raise_if_lost()
        raise_if_failed(view, came_late=not self._was_member)
        if view.outcome is not None:
            late = f"job `{self._node.run_id}` succeeded{LATE}"
            raise JobSucceeded("" if self._was_member else late)
        self._was_member = True


def _reserve_port() -> tuple[int, socket.socket]:
    """Reserve a free port for the workers' store, in case this node gets rank 0, until the socket is closed."""
    reservation = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reservation.bind(("", 0))
    port: int = reservation.getsockname()[1]
    return port, reservation


# `GroupFormation`: proposes a group once all expected nodes have arrived, or gives up after a timeout.


class GroupFormation:
    """A node's wait for a group, which the node itself proposes as soon as possible."""

    def __init__(self, node: LocalNode, store: StateStore) -> None:
        self._node = node
        self._job = node.job
        self._store = store
        self._last_call = LastCallTimer(node.settings.last_call_timeout)
        self._lottery = WriterLottery()
        """Lottery for the node that proposes the group of a large job, once it may be proposed."""
        self._deadline = self._next_deadline()

    def advance(self, view: NodeView) -> None:
        """Propose a group if possible.

        Raises:
            TooFewNodesError: no group has formed within `join_timeout`.
        """
        if view.phase != "forming":
            self._deadline = self._next_deadline()
            return
        self._try_to_propose(view)
        if time.monotonic() >= self._deadline:
            raise TooFewNodesError(self._why_too_few(self._store.read()))

    def propose_if_complete(self, state: JobState) -> JobState:
        """Return the state with a group if no more nodes are expected, which saves another change of a large job."""
        summary = summarize(state)
        if not summary.all_arrived or self._may_await_more_nodes(summary):
            return state
        try:
            return self._propose(state, summary.membership)
        except RefusedError:
            return state  # reported by `advance`

    def _next_deadline(self) -> float:
        return time.monotonic() + self._node.settings.join_timeout

    def _try_to_propose(self, view: NodeView) -> None:
        is_settled = self._last_call.has_passed(view.membership) or not self._may_await_more_nodes(view)
        if not view.all_arrived or view.own_row is None or not is_settled:
            self._lottery = WriterLottery()
            return
        try:
            is_admissible = self._job.size(view.present) is not None
            if is_admissible and self._is_chosen_to_write(view):
                self._store.update(partial(self._propose, membership=view.membership))
        except RefusedError as error:
            if self._is_chosen_to_write(view):
                outcome = JobOutcome("refused", str(error))
                self._store.update(
                    partial(job_state_transitions.close_job, node=self._node.name, outcome=outcome)
                )

    def _is_chosen_to_write(self, view: NodeView) -> bool:
        return not self._store.pages or self._lottery.draw(view.present)

    def _propose(self, state: JobState, membership: tuple[int, int, int]) -> JobState:
        summary = summarize(state)
        if not summary.all_arrived or summary.membership != membership or state.outcome:
            return state
        size = self._job.size(summary.present)
        return (
            state
            if size is None
            else job_state_transitions.propose_group(state, size, self._job.max_restarts)
        )

    def _may_await_more_nodes(self, view: JobSummary) -> bool:
        """Return whether to wait for more nodes; at the maximum or after a loss, waiting has no use."""
        return view.arrived < self._job.max_nodes and not view.group_present

    def _why_too_few(self, state: JobState) -> str:
        present, admissible = len(state.members), ", ".join(map(str, self._job.admissible()))
        late_nodes = [member.node for member in state.members if not member.arrived]
        missing = f"; not arrived: {', '.join(late_nodes)}" if late_nodes else ""
        prefix = f"no group formed in {self._node.settings.join_timeout:g} s"
        return f"{prefix}: {present} nodes present, expected one of [{admissible}]{missing}"


# `LastCallTimer`.

LONGEST = 10
"""Limit of the whole last call as a multiple of the wait for one node; a flapping node must not delay the others."""


class LastCallTimer:
    """Measures how long the set of nodes has not changed."""

    def __init__(self, wait: float) -> None:
        self._wait = wait
        self._nodes: Hashable = None
        self._since = self._began = time.monotonic()

    def has_passed(self, nodes: Hashable) -> bool:
        """Return whether the set of nodes, identified by `nodes`, has been stable, or the whole wait was too long."""
        time_ = time.monotonic()
        if nodes != self._nodes:
            self._nodes, self._since = nodes, time_
        return time_ - self._since >= self._wait or time_ - self._began >= LONGEST * self._wait
