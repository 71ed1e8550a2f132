"""Who is found silent or late, which evidence counts, and the lease that ends before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from elastic.agent import job_state_transitions
from elastic.agent.failure_detector import (
    FailureDetector,
    FormationDelay,
    HeartbeatSilence,
)
from elastic.agent.job_state import JobMember, JobState
from elastic.agent.node_view import WATCHED, view_of
from elastic.worker.worker_lease import Lease, lease_clock, lease_path
from tests.agent.fakes import running, with_members


def watched_by(state: JobState, node: str) -> list[JobMember]:
    return [one.member for one in view_of(state, node).watched]


def test_every_member_is_watched() -> None:
    names = [f"n{i}" for i in range(9)]
    state = with_members(*names)
    views = [view_of(state, name) for name in names]
    assert {one.member.node for view in views for one in view.watched} == set(names)
    assert all(len(view.watched) == WATCHED for view in views)
    assert view_of(state, "stranger").watched == ()


def test_own_freeze_says_nothing_of_others() -> None:
    now = 0.0
    detector = FailureDetector(longest_step=0.5, clock=lambda: now)
    state = with_members("a", "b")
    for moment in (0.0, 0.25, 100.0):
        now = moment
        detector.observe(view_of(state, "a"), watched_by(state, "a"), {"b": 7})
    assert detector.silent_members(1.0) == []
    for _ in range(4):
        now += 0.25
        detector.observe(view_of(state, "a"), watched_by(state, "a"), {"b": 7})
    assert detector.silent_members(1.0) == [HeartbeatSilence("b", 1, 7)]
    detector.observe(view_of(state, "a"), watched_by(state, "a"), {"b": 8})
    assert detector.silent_members(0.1) == []


def test_the_late_are_those_for_whom_a_round_waits() -> None:
    now = 0.0
    detector = FailureDetector(longest_step=0.5, clock=lambda: now)
    state = job_state_transitions.arrive_at_round(running("a", "b"), "a", "host", 5)
    for _ in range(5):
        detector.observe(view_of(state, "a"), watched_by(state, "a"), {"b": 7})
        now += 0.25
    assert detector.late_members(1.0) == [FormationDelay("b", "forming", 1)]
    detector.observe(view_of(replace(state, round=9), "a"), watched_by(state, "a"), {"b": 7})
    assert detector.late_members(1.0) == []


def test_old_evidence_neither_marks_nor_removes() -> None:
    """Two observers that were frozen between looking and writing, and a node that has shown itself since."""
    old, fresh = HeartbeatSilence("b", 1, 4, 0), HeartbeatSilence("b", 1, 4, 1)
    state = job_state_transitions.mark_member(running("a", "b"), old)
    assert state.suspects == ("b",)
    state = job_state_transitions.clear_suspicion(state, "b")
    assert job_state_transitions.clear_suspicion(state, "b") is state, "not marked"
    assert job_state_transitions.mark_member(state, old) is state
    again = job_state_transitions.mark_member(state, fresh)
    assert again.suspects == ("b",)
    assert job_state_transitions.remove_marked_member(again, old) is again
    gone = job_state_transitions.remove_marked_member(again, fresh)
    assert gone.member("b") is None
    assert job_state_transitions.remove_marked_member(state, fresh) is state, "not marked"
    back = job_state_transitions.arrive_at_round(gone, "b", "host", 1)
    assert job_state_transitions.mark_member(back, fresh) is back, "of its former membership"


def test_who_comes_late_but_comes_stays() -> None:
    state = job_state_transitions.arrive_at_round(running("a", "b"), "a", "host", 2)
    delay = FormationDelay("b", "forming", 1)
    late = job_state_transitions.mark_member(state, delay)
    assert job_state_transitions.remove_marked_member(late, delay).member("b") is None
    came = job_state_transitions.arrive_at_round(late, "b", "host", 2)
    assert came.expelled == ()
    assert job_state_transitions.mark_member(came, delay) is came
    assert job_state_transitions.remove_marked_member(came, delay) is came
    proposed = job_state_transitions.mark_member(
        job_state_transitions.propose_group(came, 2, 3), FormationDelay("b", "proposed", 2)
    )
    assert proposed.expelled == ("b",)
    assert job_state_transitions.remove_marked_member(proposed, delay) is proposed, "of another round"
    assert job_state_transitions.confirm_rank(proposed, "b").expelled == ()


def test_an_ended_lease_can_be_asked_and_is_not_renewed(tmp_path: Path) -> None:
    """The heartbeat may still hold it when the round ends."""
    path = lease_path(str(tmp_path), 1)
    mine = Lease(path, create=True)
    mine.renew(lease_clock() + 60)
    theirs = Lease(path)
    assert theirs.remaining() > 0
    mine.end()
    mine.renew(lease_clock() + 60)
    mine.ask_for_checkpoint(True)
    assert mine.remaining() < 0
    assert (mine.revoked, theirs.revoked, theirs.checkpoint_wanted) == (True, True, False)
