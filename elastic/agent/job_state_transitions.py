"""Transitions of a job, as pure functions from one `JobState` to the next.

Each function returns its argument unchanged if there is nothing to do, so that a caller may repeat the transition
after a failed compare-and-set.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import get_args

from elastic.agent.failure_detector import Evidence, Mark
from elastic.agent.job_state import EVENTS_KEPT, Cause, JobEvent, JobMember, JobOutcome, JobState
from elastic.agent.node_view import JobSummary

_WORKER_FAILED = "worker failed"


def record_event(state: JobState, node: str, text: str) -> JobState:
    """Return the state with one more event."""
    events = (*state.events, JobEvent(round(time.time(), 3), node, text))
    return replace(state, events=events[-EVENTS_KEPT:])


def arrive_at_round(
    state: JobState, node: str, host: str, port: int, cause: Cause | None = None, liveness_port: int = 0
) -> JobState:
    """Return the state after the node has stopped its workers, so that it waits for the next round.

    `cause` says why the node ended its last round: `failure` of its workers, `change` if it was the first to see nodes
    that want to join, or `None` if the round was over anyway.
    """
    member = state.member(node)
    if state.outcome or (member and member.arrived and member.port == port):
        return state
    if member:
        state = _with_member(state, replace(member, arrived=True, port=port))
        state = _without_node("expelled", state, node)  # it has arrived after all
    else:
        state = _add_member(state, JobMember(node, state.next_join_order, host, port, liveness_port))
    if node not in state.group:
        return state
    if state.phase in ("proposed", "running"):
        state = _break_group(state, cause or "change")
        return record_event(state, node, _WORKER_FAILED) if cause == "failure" else state
    # The change may make workers of other nodes fail before the node that caused it has arrived.
    return _break_group(state, cause) if cause == "change" and state.broken else state


def _add_member(state: JobState, newcomer: JobMember) -> JobState:
    state = replace(
        state,
        members=(*state.members, newcomer),
        next_join_order=state.next_join_order + 1,
        changed_at=state.commits,
    )
    return record_event(state, newcomer.node, "joined")


def remove_node(state: JobState, node: str, cause: Cause, text: str) -> JobState:
    """Return the state without a node that has left cleanly (`change`) or is lost (`lost`)."""
    if state.member(node) is None:
        return state
    members = tuple(member for member in state.members if member.node != node)
    state = replace(state, members=members, removed_at=state.revision + 1)
    for mark_ in get_args(Mark):
        state = _without_node(mark_, state, node)
    if state.outcome:
        return state
    return record_event(_break_group(state, cause) if node in state.group else state, node, text)


def propose_group(state: JobState, size: int, max_restarts: int | None) -> JobState:
    """Return the state with a group of the first `size` nodes to arrive, or closed after too many failures."""
    restarts = state.restarts + (state.broken == "failure")
    if max_restarts is not None and restarts > max_restarts:
        return _fail_job_for_good(state, max_restarts)
    arrived = sorted((one for one in state.members if one.arrived), key=lambda member: member.join_order)
    group = tuple(member.node for member in arrived[:size])
    group_set = {*group}
    state = replace(
        state,
        round=state.round + 1,
        phase="proposed",
        group=group,
        acknowledged=(),
        members=tuple(
            replace(one, arrived=one.arrived and one.node not in group_set) for one in state.members
        ),
        broken=None,
        restarts=restarts,
        start=state.latest,
    )
    text = f"round {state.round}: {len(group)} train, {len(state.standby)} on standby"
    return record_event(state, group[0], text)


def _fail_job_for_good(state: JobState, max_restarts: int) -> JobState:
    limit = f"{max_restarts} restarts used up" if max_restarts else "no restarts allowed"
    failed_nodes = (event.node for event in reversed(state.events) if event.text == _WORKER_FAILED)
    node = next(failed_nodes, "a node")
    return close_job(state, node, JobOutcome("failed", f"training failed on {node}: {limit}"))


def confirm_rank(state: JobState, node: str) -> JobState:
    """Return the state after the node has confirmed its rank; the last confirmation starts the round."""
    if state.phase != "proposed" or node not in state.group or node in state.acknowledged:
        return state
    state = _without_node("expelled", state, node)
    acknowledged = (*state.acknowledged, node)
    complete = len(acknowledged) == len(state.group)
    return replace(state, acknowledged=acknowledged, phase="running" if complete else "proposed")


def finish_workers(state: JobState, node: str, round_: int) -> JobState:
    """Return the state after all workers of the node have succeeded in this round."""
    member = state.member(node)
    if member is None or member.finished == round_ or state.round != round_ or node not in state.group:
        return state
    return _with_member(state, replace(member, finished=round_))


def all_workers_finished(state: JobState, round_: int) -> bool:
    """Return whether all workers of the group in this round have succeeded."""
    finished = {member.node for member in state.members if member.finished == round_}
    return state.round == round_ and finished.issuperset(state.group)


def is_round_over(state: JobState | JobSummary, round_: int) -> bool:
    """Return whether the round has ended; False for a state older than the round, which does not show it."""
    return state.round > round_ or (state.round == round_ and state.phase == "forming")


def succeed_job(state: JobState, node: str, round_: int) -> JobState:
    """Return the state of a successful job, if all nodes in the round's group have finished."""
    return close_job(state, node, JobOutcome("succeeded")) if all_workers_finished(state, round_) else state


def fail_job(state: JobState, node: str, round_: int, text: str) -> JobState:
    """Return the state of a failed job, unless a new round has begun."""
    return close_job(state, node, JobOutcome("failed", text)) if state.round == round_ else state


def close_job(state: JobState, node: str, outcome: JobOutcome) -> JobState:
    """Return the state of a job that has ended with this outcome."""
    if state.outcome:
        return state
    state = replace(state, phase="closed", outcome=outcome)
    return record_event(state, node, outcome.kind if not outcome.text else f"{outcome.kind}: {outcome.text}")


def commit_checkpoint(state: JobState, node: str, round_: int, checkpoint: str) -> JobState:
    """Return the state with `checkpoint` as the latest; only the newest round may commit.

    The pointer and the round are in the same document, so no newer round can begin in between.
    """
    if state.round != round_ or state.outcome or state.member(node) is None:
        return state
    return replace(state, latest=checkpoint, commits=state.commits + 1)


def mark_member(state: JobState, evidence: Evidence) -> JobState:
    """Return the state in which a member is marked for removal."""
    if evidence.node in _marked_nodes(state, evidence.mark) or not evidence.holds(state):
        return state
    return _with_marks(evidence.mark, state, (*_marked_nodes(state, evidence.mark), evidence.node))


def remove_marked_member(state: JobState, evidence: Evidence) -> JobState:
    """Return the state without the marked member, if the evidence still holds."""
    if evidence.node not in _marked_nodes(state, evidence.mark) or not evidence.holds(state):
        return state
    return remove_node(state, evidence.node, "lost", evidence.text)


def ask_to_leave(state: JobState, node: str) -> JobState:
    """Return the state in which the node is asked to leave after the next checkpoint of its group."""
    if node in state.leaving or state.member(node) is None:
        return state
    state = replace(state, leaving=(*state.leaving, node), changed_at=state.commits)
    return record_event(state, node, "asked to leave")


def clear_suspicion(state: JobState, node: str) -> JobState:
    """Return the state after a live node has cleared the suspicion against it."""
    member = state.member(node)
    if member is None or node not in state.suspects:
        return state
    return _without_node("suspects", _with_member(state, replace(member, cleared=member.cleared + 1)), node)


def _marked_nodes(state: JobState, mark_: Mark) -> tuple[str, ...]:
    nodes: tuple[str, ...] = getattr(state, mark_)
    return nodes


def _without_node(mark_: Mark, state: JobState, node: str) -> JobState:
    return _with_marks(mark_, state, tuple(name for name in _marked_nodes(state, mark_) if name != node))


def _with_marks(mark_: Mark, state: JobState, nodes: tuple[str, ...]) -> JobState:
    if mark_ == "suspects":
        return replace(state, suspects=nodes)
    if mark_ == "expelled":
        return replace(state, expelled=nodes)
    return replace(state, leaving=nodes)


def _with_member(state: JobState, member: JobMember) -> JobState:
    members = tuple(member if one.node == member.node else one for one in state.members)
    return replace(state, members=members)


def _break_group(state: JobState, cause: Cause) -> JobState:
    """Return the state with its group broken; a lost node outranks other causes, which it may have triggered."""
    order: tuple[Cause | None, ...] = (None, "failure", "change", "lost")
    strongest = max(state.broken, cause, key=order.index)
    return replace(state, phase="forming", broken=strongest, acknowledged=())
