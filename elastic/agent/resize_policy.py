"""`ResizePolicy`: decide when a running round should stop.

The policy answers three questions: is the round over; should the workers stop for nodes that would enlarge the group;
and is a checkpoint needed first, so that no work is lost when nodes join or leave cleanly?
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from elastic.agent import job_state_transitions
from elastic.agent.errors import RefusedError
from elastic.agent.job_settings import ElasticJob, RendezvousSettings
from elastic.agent.node_view import NodeView
from elastic.worker.worker_lease import lease_clock

LONGEST_SETTLING = 0.3
"""Maximum time in seconds for which joining nodes are collected so that together they cost a single restart."""


@dataclass(frozen=True, slots=True)
class ResizeDecision:
    """A node's decision about its round, based on one state of the job."""

    round: int
    """Number of the round that the decision is about; 0 means none."""
    over: bool = False
    """Whether the group has broken, another one has formed, or this node is no longer a member."""
    joining: int = 0
    """Number of joining nodes for which the group should stop now."""
    checkpoint_wanted: bool = False
    """Whether nodes that join or leave are waiting for the group's next checkpoint."""
    may_leave: bool = False
    """Whether this node was asked to leave the job and may do so now."""


class ResizePolicy:
    """Evaluates each new state in the heartbeat thread; any thread may read `decision`."""

    def __init__(
        self,
        job: ElasticJob,
        settings: RendezvousSettings,
        clock: Callable[[], float] = lease_clock,
    ) -> None:
        self._job = job
        self._settings = settings
        self._clock = clock
        self._round = 0
        self._waiting: tuple[int, float] | None = None
        """Change that waits for a checkpoint, identified by `JobState.changed_at`, and the start time of the wait."""
        self._present: tuple[int, float] | None = None
        """Number of members, and the time since which that number has not changed."""
        self.decision = ResizeDecision(0)

    def begin(self, round_: int) -> None:
        """Start a round of this node; a `round_` of 0 means that the node has no workers."""
        self._round, self._waiting = round_, None

    def decide(self, view: NodeView) -> ResizeDecision:
        """Evaluate this node's view of a state; states older than the current round are ignored."""
        round_ = self._round
        if round_ == 0 or view.round < round_ or view.outcome:
            self.decision = ResizeDecision(round_)
        elif job_state_transitions.is_round_over(view, round_) or view.own_row is None:
            self.decision = ResizeDecision(round_, over=True)
        else:
            self.decision = self._decide_while_round_runs(view, is_leaving=view.own_row.leaving)
        return self.decision

    def _decide_while_round_runs(self, view: NodeView, *, is_leaving: bool) -> ResizeDecision:
        joining = self._possible_growth(view)
        saved = self._is_work_saved(view, changing=joining > 0 or view.group_leaving > 0)
        settled = self._has_node_set_settled(view.present, joining)
        return ResizeDecision(
            view.round,
            joining=joining if settled and saved else 0,
            checkpoint_wanted=not saved,
            may_leave=saved and is_leaving,
        )

    def _possible_growth(self, view: NodeView) -> int:
        """Return the number of nodes by which the group could grow, or 0 if the job is about to end."""
        if view.group_finished:
            return 0
        try:
            size = self._job.size(view.staying) or 0
        except RefusedError:
            return 0  # policy `fail`: an extra node must not end a healthy group
        return max(0, size - view.group_size)

    def _is_work_saved(self, view: NodeView, changing: bool) -> bool:
        """Return whether the group can change now without losing work, because of a recent checkpoint.

        In a job that has never committed a checkpoint, a change does not wait, and it never waits longer than
        `checkpoint_timeout`.
        """
        if not changing:
            self._waiting = None
            return True
        if self._waiting is None or self._waiting[0] != view.changed_at:
            self._waiting = (view.changed_at, self._clock())
        timed_out = self._clock() - self._waiting[1] >= self._settings.checkpoint_timeout
        return view.latest is None or view.commits > view.changed_at or timed_out

    def _has_node_set_settled(self, present: int, joining: int) -> bool:
        if self._present is None or self._present[0] != present or not joining:
            self._present = (present, self._clock())
        unchanged = self._clock() - self._present[1]
        is_full = present >= self._job.max_nodes
        return is_full or unchanged >= min(LONGEST_SETTLING, self._settings.last_call_timeout)
