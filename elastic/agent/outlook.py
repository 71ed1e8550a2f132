"""`Outlook`: what a node whose workers run makes of the job's state.

Is its round over?  Should it stop for nodes that would enlarge the group?  And is a checkpoint wanted first:
where nodes come, or go in order, nothing needs to be done twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elastic.agent import moves
from elastic.agent.admission import Job
from elastic.agent.errors import RefusedError
from elastic.agent.settings import Settings
from elastic.agent.state import State
from elastic.worker.lease import now

LONGEST_SETTLING = 0.5
"""Seconds for which newcomers may follow one another at most, so that they cost one restart together."""


@dataclass(frozen=True, slots=True)
class View:
    """The judgement of one moment."""

    round: int
    over: bool = False
    """The group has broken, another has been formed, or this node is not a member."""
    joining: int = 0
    """Nodes that the group should stop for now."""
    save: bool = False
    """Whether a change waits for a checkpoint."""
    may_leave: bool = False
    """Whether this node, asked to leave, may go."""


class Outlook:
    """Looks at each new state from the thread of the pulse; `view` may be read by any."""

    def __init__(self, job: Job, node: str, settings: Settings, clock: Callable[[], float] = now) -> None:
        self._job = job
        self._node = node
        self._settings = settings
        self._clock = clock
        self._round = 0
        self._wanted: tuple[int, float] | None = None
        self._present: tuple[int, float] | None = None
        self.view = View(0)

    def begin(self, round_: int) -> None:
        """This node trains in the round; 0: it has no workers."""
        self._round, self._wanted = round_, None

    def look(self, state: State) -> None:
        """Judge a state; one that is older than the round says nothing of it."""
        round_ = self._round
        if round_ == 0 or state.round < round_ or state.outcome:
            self.view = View(round_)
        elif moves.is_over(state, round_) or state.member(self._node) is None:
            self.view = View(round_, over=True)
        else:
            self.view = self._while_it_runs(state)

    def _while_it_runs(self, state: State) -> View:
        joining = self._growth(state)
        leaving = any(node in state.group for node in state.leaving)
        saved = self._saved(state, wanted=joining > 0 or leaving)
        settled = self._settled(len(state.members), joining)
        return View(
            state.round,
            joining=joining if settled and saved else 0,
            save=not saved,
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

    def _saved(self, state: State, wanted: bool) -> bool:
        """Whether nothing is lost by a change now: there was a checkpoint since it is wanted.

        A job that has never committed one is not waited for, and no job for longer than `checkpoint_timeout`.
        """
        if not wanted:
            self._wanted = None
            return True
        if self._wanted is None or self._wanted[0] != state.changed_at:
            self._wanted = (state.changed_at, self._clock())
        late = self._clock() - self._wanted[1] >= self._settings.checkpoint_timeout
        return state.latest is None or state.commits > state.changed_at or late

    def _settled(self, present: int, joining: int) -> bool:
        if self._present is None or self._present[0] != present or not joining:
            self._present = (present, self._clock())
        quiet = self._clock() - self._present[1]
        full = present >= self._job.max_nodes
        return full or quiet >= min(LONGEST_SETTLING, self._settings.last_call_timeout)
