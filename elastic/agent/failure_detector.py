"""`FailureDetector`: members that seem lost by this node's own clock, and the evidence for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from elastic.agent.state import Member, Phase, State
from elastic.worker.lease import now

# `FailureDetector`: which of the other members seem lost, judged by this node's own clock alone.
#
# A node watches the next few members in the order of joining, as on a ring: every member is watched, and
# removing lost ones closes the ring, however many there are.

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


# What one node has seen of another, and whether it still counts.
#
# An observer may be frozen between looking and writing, and the observed node may have left, come back or
# shown itself in the meantime: so evidence names exactly what it was seen of.

Mark = Literal["suspects", "expelled", "leaving"]
"""A field of `State` that lists the members so marked."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A member's heartbeat has not changed for a long time."""

    mark: ClassVar[Mark] = "suspects"
    text: ClassVar[str] = "lost: no heartbeat"

    node: str
    join_order: int
    """Of the membership that was watched: a node that joins again gets another."""
    heartbeat: int
    """The count at which it stopped."""
    cleared: int = 0
    """How often it had cleared a suspicion when it was watched."""

    def holds(self, state: State) -> bool:
        """Whether this member is still the one there, and has not shown itself since."""
        member = state.member(self.node)
        return member is not None and (member.join_order, member.cleared) == (self.join_order, self.cleared)


@dataclass(frozen=True, slots=True)
class Delay:
    """A group that is being formed is waiting for a member."""

    mark: ClassVar[Mark] = "expelled"
    text: ClassVar[str] = "removed: did not come to the next round"

    node: str
    phase: Phase
    round: int

    def holds(self, state: State) -> bool:
        """Whether that group is still waiting for it."""
        same = (state.phase, state.round) == (self.phase, self.round)
        return same and self.node in state.awaited


Evidence = Silence | Delay
