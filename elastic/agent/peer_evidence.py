"""What one node has seen of another, and whether it still counts.

An observer may be frozen between looking and writing, and the observed node may have left, come back or shown
itself in the meantime: so evidence names exactly what it was seen of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from elastic.agent.state import Phase, State

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
