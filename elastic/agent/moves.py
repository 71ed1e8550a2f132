"""The moves of a job: pure functions from a `State` to the next one.

Each returns its argument unchanged where there is nothing to do, so that a caller may repeat it after a lost
compare-and-set.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from elastic.agent.evidence import Evidence
from elastic.agent.state import EVENTS_KEPT, Cause, Happening, Member, Outcome, State


def note(state: State, node: str, text: str) -> State:
    """With one more event."""
    events = (*state.events, Happening(round(time.time(), 3), node, text))
    return replace(state, events=events[-EVENTS_KEPT:])


def arrive(state: State, node: str, host: str, port: int, cause: Cause | None = None) -> State:
    """The node has no workers running and wants the next round.

    `cause` is why it ended its last one: `failure` of its workers, `change` where it saw newcomers first;
    none where the round was over anyway.
    """
    known = state.member(node)
    if state.outcome or (known and known.arrived and known.port == port):
        return state
    if known:
        state = _with_member(state, replace(known, arrived=True, port=port))
        state = _without("expelled", state, node)  # it has come after all
    else:
        newcomer = Member(node, state.next_seat, host, port)
        state = replace(state, members=(*state.members, newcomer), next_seat=state.next_seat + 1)
        state = replace(state, changed_at=state.commits)
        state = note(state, node, "joined")
    if node not in state.group:
        return state
    if state.phase in ("proposed", "running"):
        state = _break(state, cause or "change")
        return note(state, node, "worker failed") if cause == "failure" else state
    # Workers of another node may fail of the change before the node that makes it has arrived.
    return _break(state, cause) if cause == "change" and state.broken else state


def remove(state: State, node: str, cause: Cause, text: str) -> State:
    """The node is gone: it left in order (`change`) or was found dead (`lost`)."""
    if state.member(node) is None:
        return state
    members = tuple(member for member in state.members if member.node != node)
    state = unmark(replace(state, members=members), node)
    if state.outcome:
        return state
    return note(_break(state, cause) if node in state.group else state, node, text)


def propose(state: State, size: int, max_restarts: int | None) -> State:
    """Name the next group: the first `size` arrived members by seat; or close a job that failed too often."""
    restarts = state.restarts + (state.broken == "failure")
    if max_restarts is not None and restarts > max_restarts:
        used = f"{max_restarts} restarts used up" if max_restarts else "no restarts allowed"
        failing = next((e.node for e in reversed(state.events) if e.text == "worker failed"), "a node")
        return close(state, failing, Outcome("failed", f"training failed on {failing}: {used}"))
    ready = sorted((m for m in state.members if m.arrived), key=lambda member: member.seat)
    group = tuple(member.node for member in ready[:size])
    members = tuple(replace(m, arrived=m.arrived and m.node not in group) for m in state.members)
    state = replace(state, round=state.round + 1, phase="proposed", group=group, acked=(), members=members)
    state = replace(state, broken=None, restarts=restarts, start=state.latest)
    return note(state, group[0], f"round {state.round}: {len(group)} train, {len(state.standby)} on standby")


def acknowledge(state: State, node: str) -> State:
    """The node takes its place in the proposed group; the last one to do so sets it running."""
    if state.phase != "proposed" or node not in state.group or node in state.acked:
        return state
    acked = (*state.acked, node)
    state = _without("expelled", state, node)
    return replace(state, acked=acked, phase="running" if len(acked) == len(state.group) else "proposed")


def finish(state: State, node: str, round_: int) -> State:
    """All workers of the node ended well in this round."""
    known = state.member(node)
    if known is None or state.round != round_ or node not in state.group:
        return state
    return _with_member(state, replace(known, finished=round_))


def all_finished(state: State, round_: int) -> bool:
    """Whether all workers of that round's group ended well."""
    members = [state.member(node) for node in state.group]
    return state.round == round_ and all(member and member.finished == round_ for member in members)


def is_over(state: State, round_: int) -> bool:
    """Whether the round has ended; a state that is older than the round says nothing of it."""
    return state.round > round_ or (state.round == round_ and state.phase == "forming")


def succeed(state: State, node: str, round_: int) -> State:
    """The job has ended well, where all of the round's group have."""
    return close(state, node, Outcome("succeeded")) if all_finished(state, round_) else state


def fail(state: State, node: str, round_: int, text: str) -> State:
    """The job has failed, unless another round has begun."""
    return close(state, node, Outcome("failed", text)) if state.round == round_ else state


def close(state: State, node: str, outcome: Outcome) -> State:
    """The job has ended."""
    if state.outcome:
        return state
    state = replace(state, phase="closed", outcome=outcome)
    return note(state, node, outcome.kind if not outcome.text else f"{outcome.kind}: {outcome.text}")


def commit(state: State, node: str, round_: int, checkpoint: str) -> State:
    """`checkpoint` becomes the latest one; only the newest round may do that.

    The pointer and the round are one document, so that no newer round can begin in between.
    """
    if state.round != round_ or state.outcome or state.member(node) is None:
        return state
    return replace(state, latest=checkpoint, commits=state.commits + 1)


def mark(state: State, evidence: Evidence) -> State:
    """Announce that a member is about to be removed."""
    marked: tuple[str, ...] = getattr(state, evidence.marks)
    if evidence.node in marked or not evidence.holds(state):
        return state
    return _with_marks(evidence.marks, state, (*marked, evidence.node))


def remove_marked(state: State, evidence: Evidence) -> State:
    """Remove a member that bears the mark, where the evidence still counts."""
    if evidence.node not in getattr(state, evidence.marks) or not evidence.holds(state):
        return state
    return remove(state, evidence.node, "lost", evidence.text)


def ask_to_leave(state: State, node: str) -> State:
    """The node goes after the group's next checkpoint."""
    if node in state.leaving or state.member(node) is None:
        return state
    state = replace(state, leaving=(*state.leaving, node), changed_at=state.commits)
    return note(state, node, "asked to leave")


def clear_suspicion(state: State, node: str, beat: int) -> State:
    """The node is not silent: `beat` is its heartbeat now."""
    known = state.member(node)
    if known is None:
        return state
    return _without("suspects", _with_member(state, replace(known, alive=beat)), node)


def unmark(state: State, node: str) -> State:
    """Without any mark on the node."""
    for marks in ("suspects", "expelled", "leaving"):
        state = _without(marks, state, node)
    return state


def _without(marks: str, state: State, node: str) -> State:
    names: tuple[str, ...] = getattr(state, marks)
    return _with_marks(marks, state, tuple(name for name in names if name != node))


def _with_marks(marks: str, state: State, nodes: tuple[str, ...]) -> State:
    changes: dict[str, Any] = {marks: nodes}
    return replace(state, **changes)


def _with_member(state: State, member: Member) -> State:
    members = tuple(member if known.node == member.node else known for known in state.members)
    return replace(state, members=members)


def _break(state: State, cause: Cause) -> State:
    """The group trains no more.  A lost node is the stronger reason: failures follow from it."""
    order: tuple[Cause | None, ...] = (None, "failure", "change", "lost")
    worst = max(state.broken, cause, key=order.index)
    return replace(state, phase="forming", broken=worst, acked=())
