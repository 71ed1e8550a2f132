"""`FailureDetector`: which of the other members seem lost, judged by this node's own clock alone.

A node watches the next few members in the order of joining, as on a ring: every member is watched, and
removing lost ones closes the ring, however many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from elastic.agent.peer_evidence import Delay, Silence
from elastic.agent.state import Member, State
from elastic.worker.lease import now

WATCHED = 4
"""Members that each node watches."""


class FailureDetector:
    """Counts for how long each watched member has been silent, or has kept the others waiting."""

    def __init__(self, longest_step: float, clock: Callable[[], float] = now) -> None:
        self._clock = clock
        # A longer step means that we were frozen ourselves: it says nothing about the others.
        self._longest_step = longest_step
        self._last = clock()
        self._silent: dict[Silence, float] = {}
        self._late: dict[Delay, float] = {}

    def observe(self, state: State, watched: list[Member], heartbeats: Mapping[str, int]) -> None:
        """Take in the heartbeats of the watched members, and who has arrived."""
        moment = self._clock()
        step = min(moment - self._last, self._longest_step)
        self._last = moment
        seen = [
            Silence(member.node, member.join_order, heartbeats[member.node], member.cleared)
            for member in watched
        ]
        # What is seen for the first time has lasted for no time.
        self._silent = {one: self._silent[one] + step if one in self._silent else 0.0 for one in seen}
        late = [Delay(node, state.phase, state.round) for node in state.awaited]
        self._late = {one: self._late.get(one, 0.0) + step for one in late}

    def silent(self, at_least: float) -> list[Silence]:
        """Watched members whose heartbeat has not changed for so many seconds."""
        return [one for one, seconds in self._silent.items() if seconds >= at_least]

    def late(self, at_least: float) -> list[Delay]:
        """Members that have kept the same round waiting for so many seconds."""
        return [one for one, seconds in self._late.items() if seconds >= at_least]


def watched_by(state: State, node: str) -> list[Member]:
    """The members that `node` watches."""
    names = [member.node for member in state.members]
    if node not in names:
        return []
    at = names.index(node)
    return [*state.members[at + 1 :], *state.members[:at]][:WATCHED]
