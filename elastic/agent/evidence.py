"""What one node has seen of another, and whether it still counts.

An observer may be frozen between looking and writing, and the observed may have left, come back or shown
itself meanwhile: evidence names what exactly it is of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from elastic.agent.state import State


@dataclass(frozen=True, slots=True)
class Silence:
    """A member's heartbeat has not changed for long."""

    marks: ClassVar = "suspects"
    text: ClassVar = "lost: no heartbeat"

    node: str
    seat: int
    """Of the membership that was watched: a node that joins again gets another."""
    beat: int

    def holds(self, state: State) -> bool:
        """Whether it is of the member that is there, and not older than its last sign of life."""
        known = state.member(self.node)
        return known is not None and known.seat == self.seat and self.beat >= known.alive


@dataclass(frozen=True, slots=True)
class Delay:
    """A group that is being formed waits for a member."""

    marks: ClassVar = "expelled"
    text: ClassVar = "removed: did not come to the next round"

    node: str
    phase: str
    round: int

    def holds(self, state: State) -> bool:
        """Whether that group still waits for it."""
        same = (state.phase, state.round) == (self.phase, self.round)
        return same and self.node in state.holding_up


Evidence = Silence | Delay
