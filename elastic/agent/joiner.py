"""`Joiner`: brings this node into a group, once for each round."""

from __future__ import annotations

import contextlib
import socket
import time
from functools import partial

from elastic.agent import transitions
from elastic.agent.drain import Drain
from elastic.agent.exit_reasons import LATE, Drained, JobSucceeded, raise_if_failed
from elastic.agent.group_formation import GroupFormation
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_contract import agree
from elastic.agent.local_node import LocalNode
from elastic.agent.requests import Acknowledgement, Arrival
from elastic.agent.state import Cause, State
from elastic.agent.state_store import CROWD, StateStore
from elastic.worker.lease import Lease, lease_path

_CALM = 4
"""How many times slower, at most, a node looks at the state while a large group forms."""


class Joiner:
    """Arrives, confirms its rank in a group, and waits for its lease."""

    def __init__(self, node: LocalNode, store: StateStore, heartbeat: Heartbeat, drain: Drain) -> None:
        self._node = node
        self._store = store
        self._heartbeat = heartbeat
        self._drain = drain
        self._was_member = False

    def join(self, cause: Cause | None) -> State:
        """Wait until a group with this node in it runs, under a lease; `cause` is why its last one ended.

        Raises `JobSucceeded`, `Drained`, and an `AgentError` where that cannot happen any more.
        """
        name = self._node.name
        port, reserved = _reserve_port()
        formation = GroupFormation(self._node, self._store)
        entering = True
        with contextlib.closing(reserved):
            while True:
                self._raise_if_drained()
                state = self._store.ask(partial(self._arrival, port=port, entering=entering, cause=cause))
                self._raise_if_ended(state)
                entering = False
                if name in state.group and state.phase == "proposed":
                    state = self._store.ask(self._acknowledgement, held=True)
                if name in state.group and state.phase == "running" and self._has_lease(state):
                    return state
                formation.advance(state)
                self._pause(state)

    def _arrival(self, state: State, port: int, entering: bool, cause: Cause | None) -> Arrival | None:
        """Wanted on entering, and again if this node was removed meanwhile or its new group broke."""
        name, host = self._node.name, self._node.host
        member = state.member(name)
        if member is None:
            contract = self._node.job.contract()
            agree(state, name, contract)  # raises here, not where another node grants it
            return Arrival(name, state.revision, state.round, None, host, port, contract=contract)
        if not entering and (member.arrived or state.phase != "forming"):
            return None
        cause = cause if entering else None
        return Arrival(name, state.revision, state.round, member.join_order, host, port, cause)

    def _acknowledgement(self, state: State) -> Acknowledgement:
        return Acknowledgement(self._node.name, state.revision, state.round)

    def _has_lease(self, state: State) -> bool:
        """Whether workers may start; the first heartbeat as a member may be still to come."""
        lease = Lease(lease_path(self._node.folder, state.round), create=True)
        self._heartbeat.grant(lease)
        while True:
            time.sleep(self._node.settings.poll_interval / 4)
            if lease.valid:
                break
            self._heartbeat.raise_if_lost()
            self._raise_if_drained()
            current = self._heartbeat.state  # it is the heartbeat that renews the lease, or not
            if current is None or current.revision < state.revision:
                continue
            if transitions.is_over(current, state.round) or current.member(self._node.name) is None:
                return False
        self._heartbeat.begin_round()
        return True

    def _pause(self, state: State) -> None:
        """Wait a moment; on standby, until the heartbeat has seen a change."""
        standby = state.phase == "running" and self._node.name in state.standby
        while True:
            time.sleep(self._node.settings.poll_interval / 2 * (1 + min(len(state.members) / CROWD, _CALM)))
            self._heartbeat.raise_if_lost()
            seen = self._heartbeat.state
            if not standby or self._drain.asked or (seen is not None and seen.revision > state.revision):
                return

    def _raise_if_drained(self) -> None:
        state = self._heartbeat.state
        if self._drain.asked or (state is not None and self._node.name in state.leaving):
            raise Drained

    def _raise_if_ended(self, state: State) -> None:
        self._heartbeat.raise_if_lost()
        raise_if_failed(state, came_late=not self._was_member)
        if state.outcome is not None:
            late = f"job `{self._node.run_id}` has succeeded{LATE}"
            raise JobSucceeded("" if self._was_member else late)
        self._was_member = True


def _reserve_port() -> tuple[int, socket.socket]:
    """A free port, reserved until the socket is closed, for the workers' store if this node gets rank 0."""
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.bind(("", 0))
    port: int = reserved.getsockname()[1]
    return port, reserved
