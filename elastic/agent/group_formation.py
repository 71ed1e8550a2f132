"""`GroupFormation`: proposes a group once all that may come have come, or gives up after a while."""

from __future__ import annotations

import time
from functools import partial

from elastic.agent import transitions
from elastic.agent.errors import RefusedError, TooFewNodesError
from elastic.agent.last_call import LastCall
from elastic.agent.local_node import LocalNode
from elastic.agent.state import Outcome, State
from elastic.agent.state_store import StateStore


class GroupFormation:
    """One wait for a group, by one of the nodes that wait."""

    def __init__(self, node: LocalNode, store: StateStore) -> None:
        self._node = node
        self._job = node.job
        self._store = store
        self._last_call = LastCall(node.settings.last_call_timeout)
        self._deadline = self._next_deadline()

    def advance(self, state: State) -> None:
        """Propose a group if it can be.  Raises `TooFewNodesError` after `join_timeout` without one."""
        if state.phase != "forming":
            self._deadline = self._next_deadline()
            return
        self._try_to_propose(state)
        if time.monotonic() >= self._deadline:
            raise TooFewNodesError(self._why_too_few(state))

    def _next_deadline(self) -> float:
        return time.monotonic() + self._node.settings.join_timeout

    def _try_to_propose(self, state: State) -> None:
        arrived = [member.node for member in state.members if member.arrived]
        settled = self._last_call.has_passed(tuple(arrived)) or not self._awaits_more(state, len(arrived))
        if len(arrived) < len(state.members) or not settled or self._node.name not in arrived:
            return
        try:
            self._store.update(partial(self._propose, arrived=arrived))
        except RefusedError as error:
            refused = Outcome("refused", str(error))
            self._store.update(partial(transitions.close, node=self._node.name, outcome=refused))

    def _propose(self, state: State, arrived: list[str]) -> State:
        members = [member.node for member in state.members]
        if state.phase != "forming" or members != arrived or state.outcome:
            return state
        size = self._job.size(len(arrived))
        return state if size is None else transitions.propose(state, size, self._job.max_restarts)

    def _awaits_more(self, state: State, arrived: int) -> bool:
        """Nobody waits for more nodes than may train, nor after a loss for nodes that nobody knows."""
        return arrived < self._job.max_nodes and not {one.node for one in state.members}.intersection(
            state.group
        )

    def _why_too_few(self, state: State) -> str:
        have, need = len(state.members), ", ".join(map(str, self._job.admissible()))
        late = [member.node for member in state.members if not member.arrived]
        which = f"; not arrived: {', '.join(late)}" if late else ""
        waited = f"no group formed in {self._node.settings.join_timeout:g} s"
        return f"{waited}: have {have} nodes, need one of [{need}]{which}"
