"""`ResizePolicy`: what the job's state means for a node whose workers run.

Is its round over?  Should it stop for nodes that would enlarge the group?  And is a checkpoint wanted first:
where nodes come, or go in order, nothing needs to be trained twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elastic.agent import transitions
from elastic.agent.errors import RefusedError
from elastic.agent.job import Job
from elastic.agent.settings import RendezvousSettings
from elastic.agent.state import State
from elastic.worker.lease import now

LONGEST_SETTLING = 0.5
"""Seconds for which newcomers may keep following one another, so that together they cost one restart."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What follows from the state of one moment."""

    round: int
    """The round that it is about; 0 is none."""
    over: bool = False
    """Whether the group has broken, another has been formed, or this node is no longer a member."""
    joining: int = 0
    """Nodes that the group should stop for now."""
    checkpoint_wanted: bool = False
    """Whether a change is waiting for a checkpoint."""
    may_leave: bool = False
    """Whether this node, which was asked to leave, may go."""


class ResizePolicy:
    """Decides on each new state in the heartbeat's thread; any thread may read `decision`."""

    def __init__(
        self, job: Job, node: str, settings: RendezvousSettings, clock: Callable[[], float] = now
    ) -> None:
        self._job = job
        self._node = node
        self._settings = settings
        self._clock = clock
        self._round = 0
        self._waiting: tuple[int, float] | None = None
        """The change that waits for a checkpoint, by `State.changed_at`, and since when."""
        self._present: tuple[int, float] | None = None
        """How many members there are, and since when."""
        self.decision = Decision(0)

    def begin(self, round_: int) -> None:
        """This node trains in the round; 0: it has no workers."""
        self._round, self._waiting = round_, None

    def decide(self, state: State) -> Decision:
        """What follows from a state; one that is older than the round says nothing of it."""
        round_ = self._round
        if round_ == 0 or state.round < round_ or state.outcome:
            self.decision = Decision(round_)
        elif transitions.is_over(state, round_) or state.member(self._node) is None:
            self.decision = Decision(round_, over=True)
        else:
            self.decision = self._while_it_runs(state)
        return self.decision

    def _while_it_runs(self, state: State) -> Decision:
        joining = self._growth(state)
        leaving = any(node in state.group for node in state.leaving)
        saved = self._is_saved(state, changing=joining > 0 or leaving)
        settled = self._has_settled(len(state.members), joining)
        return Decision(
            state.round,
            joining=joining if settled and saved else 0,
            checkpoint_wanted=not saved,
            may_leave=saved and self._node in state.leaving,
        )

    def _growth(self, state: State) -> int:
        """By how many nodes the group would grow; nobody joins one that is about to end."""
        if state.finishing:
            return 0
        staying = [member for member in state.members if member.node not in state.leaving]
        try:
            size = self._job.size(len(staying)) or 0
        except RefusedError:
            return 0  # policy `fail`: a node too many is no reason to end a healthy group
        return max(0, size - len(state.group))

    def _is_saved(self, state: State, changing: bool) -> bool:
        """Whether a change now loses nothing: there was a checkpoint since it came up.

        Nobody waits for a job that has never committed one, nor for longer than `checkpoint_timeout`.
        """
        if not changing:
            self._waiting = None
            return True
        if self._waiting is None or self._waiting[0] != state.changed_at:
            self._waiting = (state.changed_at, self._clock())
        late = self._clock() - self._waiting[1] >= self._settings.checkpoint_timeout
        return state.latest is None or state.commits > state.changed_at or late

    def _has_settled(self, present: int, joining: int) -> bool:
        if self._present is None or self._present[0] != present or not joining:
            self._present = (present, self._clock())
        unchanged = self._clock() - self._present[1]
        full = present >= self._job.max_nodes
        return full or unchanged >= min(LONGEST_SETTLING, self._settings.last_call_timeout)
