"""`RoundJoiner`: brings this node into the group of each round; `GroupFormation`: proposes groups."""

from __future__ import annotations

import contextlib
import socket
import time
from functools import partial

from elastic.agent import job_state_transitions
from elastic.agent.drain_request import DrainRequest
from elastic.agent.errors import LATE, Drained, JobSucceeded, RefusedError, TooFewNodesError, raise_if_failed
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_settings import LocalNode
from elastic.agent.job_state import Cause, JobOutcome, JobState
from elastic.agent.join_requests import ArrivalRequest, RankConfirmation, agree_on_contract
from elastic.agent.state_store import CROWD, SMALL, StateStore
from elastic.worker.worker_lease import Lease, lease_path

_CALM = 4
"""Largest factor by which a node slows down its polls of the state while a large group forms."""
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

    def join(self, cause: Cause | None) -> JobState:
        """Wait until a group with this node runs under a lease; `cause` says why the node's last group ended.

        Raises:
            JobSucceeded: the job has succeeded without this node.
            Drained: this node was asked to leave.
            AgentError: the node can no longer join a group.
        """
        name = self._node.name
        port, reservation = _reserve_port()
        formation = GroupFormation(self._node, self._store)
        entering = True
        with contextlib.closing(reservation):
            while True:
                self._raise_if_drained()
                state = self._store.ask(
                    partial(self._arrival_request, port=port, entering=entering, cause=cause)
                )
                self._raise_if_ended(state)
                entering = False
                if name in state.group and state.phase == "proposed":
                    state = self._store.ask(self._rank_confirmation, use_last=True)
                if name in state.group and state.phase == "running" and self._has_lease(state):
                    return state
                formation.advance(state)
                self._pause(state)

    def _arrival_request(
        self, state: JobState, port: int, entering: bool, cause: Cause | None
    ) -> ArrivalRequest | None:
        """Return an arrival request on entering, or if this node was removed or its new group has broken."""
        name, host = self._node.name, self._node.host
        member = state.member(name)
        if member is None:
            contract = self._node.job.contract()
            agree_on_contract(
                state, name, contract
            )  # raises here instead of on the node that grants the request
            return ArrivalRequest(
                name,
                state.revision,
                state.round,
                None,
                host,
                port,
                contract=contract,
                liveness_port=self._node.liveness_port,
            )
        if not entering and (member.arrived or state.phase != "forming"):
            return None
        cause = cause if entering else None
        return ArrivalRequest(name, state.revision, state.round, member.join_order, host, port, cause)

    def _rank_confirmation(self, state: JobState) -> RankConfirmation:
        return RankConfirmation(self._node.name, state.revision, state.round)

    def _has_lease(self, state: JobState) -> bool:
        """Return whether workers may start; wait for the first heartbeat as a member if necessary."""
        lease = Lease(lease_path(self._node.folder, state.round), create=True)
        self._heartbeat.grant(lease)
        while True:
            time.sleep(self._node.settings.poll_interval / 16)
            if lease.valid:
                break
            self._heartbeat.raise_if_lost()
            self._raise_if_drained()
            current = self._heartbeat.state  # the heartbeat decides whether to renew the lease
            if current is None or current.revision < state.revision:
                continue
            if (
                job_state_transitions.is_round_over(current, state.round)
                or current.member(self._node.name) is None
            ):
                return False
        self._heartbeat.begin_round()
        return True

    def _pause(self, state: JobState) -> None:
        """Wait briefly, or in a small job or on standby, until the state changes."""
        is_standby = state.phase == "running" and self._node.name in state.standby
        pause = self._node.settings.poll_interval / 2 * (1 + min(len(state.members) / CROWD, _CALM))
        while True:
            if is_standby or len(state.members) > SMALL:
                time.sleep(pause)
            else:
                self._store.await_hint(state, pause, _HINT_POLLS)
            self._heartbeat.raise_if_lost()
            latest = self._heartbeat.state
            if (
                not is_standby
                or self._drain.requested
                or (latest is not None and latest.revision > state.revision)
            ):
                return

    def _raise_if_drained(self) -> None:
        state = self._heartbeat.state
        if self._drain.requested or (state is not None and self._node.name in state.leaving):
            raise Drained

    def _raise_if_ended(self, state: JobState) -> None:
        self._heartbeat.raise_if_lost()
        raise_if_failed(state, came_late=not self._was_member)
        if state.outcome is not None:
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
        self._deadline = self._next_deadline()

    def advance(self, state: JobState) -> None:
        """Propose a group if possible.

        Raises:
            TooFewNodesError: no group has formed within `join_timeout`.
        """
        if state.phase != "forming":
            self._deadline = self._next_deadline()
            return
        self._try_to_propose(state)
        if time.monotonic() >= self._deadline:
            raise TooFewNodesError(self._why_too_few(state))

    def _next_deadline(self) -> float:
        return time.monotonic() + self._node.settings.join_timeout

    def _try_to_propose(self, state: JobState) -> None:
        arrived = [member.node for member in state.members if member.arrived]
        is_settled = self._last_call.has_passed(tuple(arrived)) or not self._may_await_more_nodes(
            state, len(arrived)
        )
        if len(arrived) < len(state.members) or not is_settled or self._node.name not in arrived:
            return
        try:
            self._store.update(partial(self._propose, arrived=arrived))
        except RefusedError as error:
            outcome = JobOutcome("refused", str(error))
            self._store.update(
                partial(job_state_transitions.close_job, node=self._node.name, outcome=outcome)
            )

    def _propose(self, state: JobState, arrived: list[str]) -> JobState:
        members = [member.node for member in state.members]
        if state.phase != "forming" or members != arrived or state.outcome:
            return state
        size = self._job.size(len(arrived))
        return (
            state
            if size is None
            else job_state_transitions.propose_group(state, size, self._job.max_restarts)
        )

    def _may_await_more_nodes(self, state: JobState, arrived: int) -> bool:
        """Return whether to wait for more nodes; at the maximum or after a loss, waiting has no use."""
        return arrived < self._job.max_nodes and not {one.node for one in state.members}.intersection(
            state.group
        )

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
        self._nodes: tuple[str, ...] | None = None
        self._since = self._began = time.monotonic()

    def has_passed(self, nodes: tuple[str, ...]) -> bool:
        """Return whether the set of nodes has been stable long enough, or the whole wait has taken too long."""
        time_ = time.monotonic()
        if nodes != self._nodes:
            self._nodes, self._since = nodes, time_
        return time_ - self._since >= self._wait or time_ - self._began >= LONGEST * self._wait
