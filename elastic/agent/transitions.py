"""The transitions of a job: pure functions from a `State` to the next one.

Each returns its argument unchanged where there is nothing to do, so that a caller may repeat it after losing
a compare-and-set.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import get_args

from elastic.agent.failure_detector import Evidence, Mark
from elastic.agent.state import EVENTS_KEPT, Cause, Event, Member, Outcome, State

_WORKER_FAILED = "worker failed"


def record(state: State, node: str, text: str) -> State:
    """With one more event."""
    events = (*state.events, Event(round(time.time(), 3), node, text))
    return replace(state, events=events[-EVENTS_KEPT:])


def arrive(state: State, node: str, host: str, port: int, cause: Cause | None = None) -> State:
    """The node has no workers running and wants the next round.

    `cause` is why it ended its last one: `failure` of its workers, `change` where it was the first to see
    newcomers; `None` where the round was over anyway.
    """
    member = state.member(node)
    if state.outcome or (member and member.arrived and member.port == port):
        return state
    if member:
        state = _with_member(state, replace(member, arrived=True, port=port))
        state = _without("expelled", state, node)  # it has come after all
    else:
        state = _join(state, node, host, port)
    if node not in state.group:
        return state
    if state.phase in ("proposed", "running"):
        state = _break(state, cause or "change")
        return record(state, node, _WORKER_FAILED) if cause == "failure" else state
    # Workers of other nodes may fail because of the change before the node that makes it has arrived.
    return _break(state, cause) if cause == "change" and state.broken else state


def _join(state: State, node: str, host: str, port: int) -> State:
    newcomer = Member(node, state.next_join_order, host, port)
    state = replace(
        state,
        members=(*state.members, newcomer),
        next_join_order=state.next_join_order + 1,
        changed_at=state.commits,
    )
    return record(state, node, "joined")


def remove(state: State, node: str, cause: Cause, text: str) -> State:
    """The node is gone: it left in order (`change`) or was found dead (`lost`)."""
    if state.member(node) is None:
        return state
    members = tuple(member for member in state.members if member.node != node)
    state = replace(state, members=members, removed_at=state.revision + 1)
    for mark_ in get_args(Mark):
        state = _without(mark_, state, node)
    if state.outcome:
        return state
    return record(_break(state, cause) if node in state.group else state, node, text)


def propose(state: State, size: int, max_restarts: int | None) -> State:
    """Name the next group, the first `size` arrived members; or close a job that has failed too often."""
    restarts = state.restarts + (state.broken == "failure")
    if max_restarts is not None and restarts > max_restarts:
        return _fail_for_good(state, max_restarts)
    ready = sorted((one for one in state.members if one.arrived), key=lambda member: member.join_order)
    group = tuple(member.node for member in ready[:size])
    chosen = {*group}
    state = replace(
        state,
        round=state.round + 1,
        phase="proposed",
        group=group,
        acknowledged=(),
        members=tuple(replace(one, arrived=one.arrived and one.node not in chosen) for one in state.members),
        broken=None,
        restarts=restarts,
        start=state.latest,
    )
    text = f"round {state.round}: {len(group)} train, {len(state.standby)} on standby"
    return record(state, group[0], text)


def _fail_for_good(state: State, max_restarts: int) -> State:
    used = f"{max_restarts} restarts used up" if max_restarts else "no restarts allowed"
    failing = (event.node for event in reversed(state.events) if event.text == _WORKER_FAILED)
    node = next(failing, "a node")
    return close(state, node, Outcome("failed", f"training failed on {node}: {used}"))


def acknowledge(state: State, node: str) -> State:
    """The node confirms its rank in the proposed group; the last one to do so sets the round running."""
    if state.phase != "proposed" or node not in state.group or node in state.acknowledged:
        return state
    state = _without("expelled", state, node)
    acknowledged = (*state.acknowledged, node)
    complete = len(acknowledged) == len(state.group)
    return replace(state, acknowledged=acknowledged, phase="running" if complete else "proposed")


def finish(state: State, node: str, round_: int) -> State:
    """All workers of the node ended well in this round."""
    member = state.member(node)
    if member is None or state.round != round_ or node not in state.group:
        return state
    return _with_member(state, replace(member, finished=round_))


def all_finished(state: State, round_: int) -> bool:
    """Whether all workers of that round's group ended well."""
    finished = {member.node for member in state.members if member.finished == round_}
    return state.round == round_ and finished.issuperset(state.group)


def is_over(state: State, round_: int) -> bool:
    """Whether the round has ended; a state that is older than the round says nothing of it."""
    return state.round > round_ or (state.round == round_ and state.phase == "forming")


def succeed(state: State, node: str, round_: int) -> State:
    """The job has succeeded, if all of the round's group have finished."""
    return close(state, node, Outcome("succeeded")) if all_finished(state, round_) else state


def fail(state: State, node: str, round_: int, text: str) -> State:
    """The job has failed, unless another round has begun."""
    return close(state, node, Outcome("failed", text)) if state.round == round_ else state


def close(state: State, node: str, outcome: Outcome) -> State:
    """The job has ended."""
    if state.outcome:
        return state
    state = replace(state, phase="closed", outcome=outcome)
    return record(state, node, outcome.kind if not outcome.text else f"{outcome.kind}: {outcome.text}")


def commit(state: State, node: str, round_: int, checkpoint: str) -> State:
    """`checkpoint` becomes the latest one; only the newest round may do that.

    The pointer and the round are one document, so that no newer round can begin in between.
    """
    if state.round != round_ or state.outcome or state.member(node) is None:
        return state
    return replace(state, latest=checkpoint, commits=state.commits + 1)


def mark(state: State, evidence: Evidence) -> State:
    """Announce that a member is about to be removed."""
    if evidence.node in _marked(state, evidence.mark) or not evidence.holds(state):
        return state
    return _with_marks(evidence.mark, state, (*_marked(state, evidence.mark), evidence.node))


def remove_marked(state: State, evidence: Evidence) -> State:
    """Remove a member that bears the mark, if the evidence still counts."""
    if evidence.node not in _marked(state, evidence.mark) or not evidence.holds(state):
        return state
    return remove(state, evidence.node, "lost", evidence.text)


def ask_to_leave(state: State, node: str) -> State:
    """The node goes after the group's next checkpoint."""
    if node in state.leaving or state.member(node) is None:
        return state
    state = replace(state, leaving=(*state.leaving, node), changed_at=state.commits)
    return record(state, node, "asked to leave")


def clear_suspicion(state: State, node: str) -> State:
    """The node says itself that it is not silent."""
    member = state.member(node)
    if member is None or node not in state.suspects:
        return state
    return _without("suspects", _with_member(state, replace(member, cleared=member.cleared + 1)), node)


def _marked(state: State, mark_: Mark) -> tuple[str, ...]:
    nodes: tuple[str, ...] = getattr(state, mark_)
    return nodes


def _without(mark_: Mark, state: State, node: str) -> State:
    return _with_marks(mark_, state, tuple(name for name in _marked(state, mark_) if name != node))


def _with_marks(mark_: Mark, state: State, nodes: tuple[str, ...]) -> State:
    if mark_ == "suspects":
        return replace(state, suspects=nodes)
    if mark_ == "expelled":
        return replace(state, expelled=nodes)
    return replace(state, leaving=nodes)


def _with_member(state: State, member: Member) -> State:
    members = tuple(member if one.node == member.node else one for one in state.members)
    return replace(state, members=members)


def _break(state: State, cause: Cause) -> State:
    """The group trains no more.  A lost node is the stronger reason: failures follow from it."""
    order: tuple[Cause | None, ...] = (None, "failure", "change", "lost")
    worst = max(state.broken, cause, key=order.index)
    return replace(state, phase="forming", broken=worst, acknowledged=())
