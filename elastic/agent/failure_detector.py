"""`FailureDetector`: find the members that seem lost by this node's clock, with the evidence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from elastic.agent.job_state import JobMember, JobState, Phase
from elastic.agent.node_view import NodeView
from elastic.worker.worker_lease import lease_clock

# A node watches the next few members on the ring (`elastic.agent.node_view`). So every member is watched, and removing
# lost members closes the ring again.


class FailureDetector:
    """Measures how long each watched member has been silent or has delayed a round."""

    def __init__(self, longest_step: float, clock: Callable[[], float] = lease_clock) -> None:
        self._clock = clock
        # A longer step means that this process was frozen, and says nothing about other nodes.
        self._longest_step = longest_step
        self._last = clock()
        self._silent: dict[HeartbeatSilence, float] = {}
        self._late: dict[FormationDelay, float] = {}

    def observe(self, view: NodeView, watched: Sequence[JobMember], heartbeats: Mapping[str, int]) -> None:
        """Record the heartbeats of the watched members, and the members that a group waits for.

        `watched` is from the view before the heartbeats were read; `view` may be newer.
        """
        time = self._clock()
        elapsed = min(time - self._last, self._longest_step)
        self._last = time
        observed = [
            HeartbeatSilence(member.node, member.join_order, heartbeats[member.node], member.cleared)
            for member in watched
        ]
        # A new observation starts at zero seconds.
        self._silent = {one: self._silent[one] + elapsed if one in self._silent else 0.0 for one in observed}
        delays = [FormationDelay(node, view.phase, view.round) for node in view.awaited]
        self._late = {one: self._late.get(one, 0.0) + elapsed for one in delays}

    def silent_members(self, at_least: float) -> list[HeartbeatSilence]:
        """Return the watched members whose heartbeat has not changed for at least `at_least` seconds."""
        return [one for one, seconds in self._silent.items() if seconds >= at_least]

    def late_members(self, at_least: float) -> list[FormationDelay]:
        """Return the members that have delayed the same round for at least `at_least` seconds."""
        return [one for one, seconds in self._late.items() if seconds >= at_least]


# An observer may be frozen between observing and writing, and the observed node may have left, rejoined or sent a
# heartbeat in the meantime. So evidence identifies the exact membership that was observed.

Mark = Literal["suspects", "expelled", "leaving"]
"""Name of the `JobState` field that lists members with this mark."""


@dataclass(frozen=True, slots=True)
class HeartbeatSilence:
    """Evidence that a member's heartbeat has stopped changing."""

    mark: ClassVar[Mark] = "suspects"
    text: ClassVar[str] = "lost: no heartbeat"

    node: str
    join_order: int
    """Join order of the observed membership; a node that rejoins gets a new one."""
    heartbeat: int
    """Heartbeat count at which the member fell silent."""
    cleared: int = 0
    """Number of suspicions that the member had cleared at the time of the observation."""

    def holds(self, state: JobState) -> bool:
        """Return whether the member is still the same, and has not cleared the suspicion since the observation."""
        return _is_same_membership(state, self)


@dataclass(frozen=True, slots=True)
class ProcessExit:
    """Evidence that all processes of a member have ended (`elastic.agent.liveness_port`)."""

    mark: ClassVar[Mark] = "suspects"
    text: ClassVar[str] = "lost: its processes ended"

    node: str
    join_order: int
    """Join order of the observed membership; a node that rejoins gets a new one."""
    cleared: int
    """Number of suspicions that the member had cleared at the time of the observation."""

    def holds(self, state: JobState) -> bool:
        """Return whether the member is still the same, and has not cleared the suspicion since the observation."""
        return _is_same_membership(state, self)


def _is_same_membership(state: JobState, evidence: HeartbeatSilence | ProcessExit) -> bool:
    """Return whether the observed member has neither left nor cleared a suspicion since the observation."""
    member = state.member(evidence.node)
    return member is not None and (member.join_order, member.cleared) == (
        evidence.join_order,
        evidence.cleared,
    )


@dataclass(frozen=True, slots=True)
class FormationDelay:
    """Evidence that a member delays a group that is forming or proposed."""

    mark: ClassVar[Mark] = "expelled"
    text: ClassVar[str] = "removed: did not come to the next round"

    node: str
    phase: Phase
    round: int

    def holds(self, state: JobState) -> bool:
        """Return whether the same group is still waiting for the member."""
        is_same_round = (state.phase, state.round) == (self.phase, self.round)
        return is_same_round and self.node in state.awaited


Evidence = HeartbeatSilence | ProcessExit | FormationDelay
