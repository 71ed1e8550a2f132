"""`Watch`: which of the other members seem lost, judged by this node's own clock alone.

A node watches the next few members in the order of their seats, as on a ring: every member is watched, and
removing the lost ones closes the ring over any number of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from elastic.agent.lease import now
from elastic.agent.state import State

WATCHED = 4
"""Members that each node watches."""


class Watch:
    """Counts for how long each watched member has been silent, or has held up the others."""

    def __init__(self, node: str, longest_step: float, clock: Callable[[], float] = now) -> None:
        self._node = node
        self._clock = clock
        # A step longer than this means that we were frozen ourselves: it says nothing of the others.
        self._longest_step = longest_step
        self._last = clock()
        self._beats: dict[str, int] = {}
        self._silent: dict[str, float] = {}
        self._late: dict[tuple[str, str, int], float] = {}

    def look(self, state: State, beats: Mapping[str, int]) -> None:
        """Take in the heartbeats of the watched, and the arrivals, of this moment."""
        moment = self._clock()
        step = min(moment - self._last, self._longest_step)
        self._last = moment
        self._silent = {
            node: self._silent.get(node, 0.0) + step if self._beats.get(node) == beat else 0.0
            for node, beat in beats.items()
        }
        self._beats = dict(beats)
        self._late = {
            (node, state.phase, state.round): self._late.get((node, state.phase, state.round), 0.0) + step
            for node in holding_up(state)
        }

    def silent(self, longer_than: float) -> dict[str, int]:
        """Watched members whose heartbeat has not changed for so many seconds, with that heartbeat."""
        return {node: self._beats[node] for node, seconds in self._silent.items() if seconds >= longer_than}

    def late(self, longer_than: float) -> list[str]:
        """Members that have held up the same round for so many seconds."""
        return [node for (node, _, _), seconds in self._late.items() if seconds >= longer_than]


def ring(state: State, node: str) -> list[str]:
    """The members that `node` watches."""
    names = [member.node for member in state.members]
    if node not in names:
        return []
    at = names.index(node)
    return (names[at + 1 :] + names[:at])[:WATCHED]


def holding_up(state: State) -> list[str]:
    """Members for which a group that is being formed waits."""
    if state.phase == "forming":
        return [member.node for member in state.members if not member.arrived]
    if state.phase == "proposed":
        return [node for node in state.group if node not in state.acked]
    return []
