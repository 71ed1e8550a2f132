"""`NodeView`: the part of a `JobState` that one node needs; `encode_pages`: the views of a large job, as pages.

If each node of a large job read the whole state after each change, the bytes that a forming group reads would grow with
the square of its size. So the node that changes the state also writes *pages*, and every other node reads its own.

Nodes are ordered on a *ring* by the CRC-32 of their names. Page i of p has the i-th part of the ring, and the members
that the nodes of this part watch, which are the next ones on the ring.  A node knows its page before it is a member.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from operator import attrgetter
from types import NoneType
from typing import get_args

from elastic.agent.job_state import (
    Cause,
    JobMember,
    JobOutcome,
    JobState,
    Phase,
    compress_text,
    decompress_text,
)
from elastic.json_files import Json

WATCHED = 4
"""Number of members that each node of a job watches."""
CROWD = 128
"""Minimum number of nodes that a job must admit to have pages, requests in a mailbox, and few readers of its state."""
NODES_PER_PAGE = 16
"""Number of nodes that share a page in a job with as many nodes as it admits."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """The part of a job's state that concerns all nodes and does not grow with their number."""

    incarnation: int
    revision: int
    contract: str
    """Digest of the job's contract, or an empty text before the first node has joined."""
    round: int
    phase: Phase
    broken: Cause | None
    restarts: int
    start: str | None
    latest: str | None
    commits: int
    changed_at: int
    next_join_order: int
    removed_at: int
    present: int
    """Number of members."""
    arrived: int
    """Number of members that have arrived."""
    staying: int
    """Number of members that were not asked to leave."""
    group_size: int
    """Number of nodes in the last group, including those that have left the job since."""
    group_present: int
    """Number of nodes in the last group that are still members."""
    group_confirmed: int
    """Number of nodes in the last group that have confirmed their rank."""
    group_leaving: int
    """Number of nodes in the last group that were asked to leave."""
    group_finished: int
    """Number of nodes in the last group whose workers have all succeeded in the current round."""
    master: tuple[str, int] | None
    """Address and port of the node with rank 0, or `None` if it is not a member."""
    outcome: JobOutcome | None

    @property
    def membership(self) -> tuple[int, int, int]:
        """Value that is different for each set of members, and for each number of them that have arrived."""
        return self.next_join_order, self.removed_at, self.arrived

    @property
    def all_arrived(self) -> bool:
        """Whether a group that forms waits for none of the members."""
        return self.phase == "forming" and self.arrived == self.present


@dataclass(frozen=True, slots=True)
class RingMember:
    """A member of the job with what the state says about it elsewhere."""

    member: JobMember
    rank: int | None
    """Rank in the last group, or `None` on standby."""
    acknowledged: bool
    """Whether the member has confirmed its rank."""
    suspected: bool
    expelled: bool
    leaving: bool

    def is_awaited(self, phase: Phase) -> bool:
        """Return whether a group that is forming or proposed waits for the member."""
        if phase == "forming":
            return not self.member.arrived
        return phase == "proposed" and self.rank is not None and not self.acknowledged


@dataclass(frozen=True, slots=True)
class NodeView(JobSummary):
    """One revision of the job's state, as far as it concerns the node `node`."""

    node: str
    own_row: RingMember | None
    """The node itself, or `None` if it is not a member."""
    watched: tuple[RingMember, ...]
    """The members that the node watches, which are the next ones on the ring."""

    @property
    def awaited(self) -> list[str]:
        """Names of the members for which the group waits, among the node itself and those that it watches."""
        known = self.watched if self.own_row is None else (self.own_row, *self.watched)
        return [one.member.node for one in known if one.is_awaited(self.phase)]

    @property
    def has_rank(self) -> bool:
        """Whether the node belongs to the last group."""
        return self.own_row is not None and self.own_row.rank is not None

    @property
    def is_standby(self) -> bool:
        """Whether the node is a member outside the group."""
        return self.own_row is not None and self.own_row.rank is None


def summarize(state: JobState) -> JobSummary:
    """Return the summary of a state."""
    group, leaving = {*state.group}, {*state.leaving}
    in_group = [one for one in state.members if one.node in group]
    first = next((one for one in in_group if one.node == state.group[0]), None)
    return JobSummary(
        incarnation=state.incarnation,
        revision=state.revision,
        contract=state.contract_digest,
        round=state.round,
        phase=state.phase,
        broken=state.broken,
        restarts=state.restarts,
        start=state.start,
        latest=state.latest,
        commits=state.commits,
        changed_at=state.changed_at,
        next_join_order=state.next_join_order,
        removed_at=state.removed_at,
        present=len(state.members),
        arrived=sum(one.arrived for one in state.members),
        staying=sum(one.node not in leaving for one in state.members),
        group_size=len(state.group),
        group_present=len(in_group),
        group_confirmed=len(state.acknowledged),
        group_leaving=len(group & leaving),
        group_finished=sum(one.finished == state.round for one in in_group),
        master=(first.host, first.port) if first is not None else None,
        outcome=state.outcome,
    )


def ring_position(node: str) -> int:
    """Return the position of a node on the ring, from 0 to 2**32 - 1."""
    return zlib.crc32(node.encode())


def ring_members(state: JobState) -> list[RingMember]:
    """Return the members of the job in the order of the ring."""
    ranks = {node: rank for rank, node in enumerate(state.group)}
    acknowledged, suspects = {*state.acknowledged}, {*state.suspects}
    expelled, leaving = {*state.expelled}, {*state.leaving}
    return [
        RingMember(
            one,
            ranks.get(one.node),
            one.node in acknowledged,
            one.node in suspects,
            one.node in expelled,
            one.node in leaving,
        )
        for one in sorted(state.members, key=lambda one: (ring_position(one.node), one.node))
    ]


def view_of(state: JobState, node: str) -> NodeView:
    """Return the view of a node, which need not be a member."""
    return _view_on_ring(summarize(state), ring_members(state), node)


def _view_on_ring(summary: JobSummary, ring: Sequence[RingMember], node: str) -> NodeView:
    """Return the view of a node from the whole ring, or a part of it that has the members that the node watches."""
    index = next((number for number, one in enumerate(ring) if one.member.node == node), None)
    row, watched = None, tuple[RingMember, ...]()
    if index is not None:
        row = ring[index]
        before = ring[:index] if len(ring) == summary.present else ()
        watched = (*ring[index + 1 : index + 1 + WATCHED], *before)[:WATCHED]
    values = {name: getattr(summary, name) for name in _SUMMARY_TYPES}
    return NodeView(**values, node=node, own_row=row, watched=watched)


# Pages.


def page_count(contract: Mapping[str, Json]) -> int:
    """Return the number of pages of a job with this contract, which is 0 for a small job."""
    text = contract.get("nnodes")
    most = text.rpartition(":")[2] if isinstance(text, str) else ""
    nodes = int(most) if most.isascii() and most.isdecimal() else 0
    return -(-nodes // NODES_PER_PAGE) if nodes >= CROWD else 0


def page_key(number: int, pages: int) -> str:
    """Return the key of a page; jobs whose contracts differ have no key in common."""
    return f"page/{pages}/{number}"


def page_key_of_node(node: str, pages: int) -> str:
    """Return the key of the page that has the view of a node."""
    return page_key(ring_position(node) * pages >> 32, pages)


def encode_pages(state: JobState) -> dict[str, str]:
    """Return all pages of a state by their keys; a small job has none."""
    pages = page_count(state.contract)
    if not pages:
        return {}
    ring = ring_members(state)
    starts = [0] * (pages + 1)
    for one in ring:
        starts[(ring_position(one.member.node) * pages >> 32) + 1] += 1
    for number in range(pages):
        starts[number + 1] += starts[number]
    summary = [*attrgetter(*_SUMMARY_TYPES)(summarize(state))]
    summary[-1] = state.outcome and attrgetter(*JobOutcome.__slots__)(state.outcome)
    rows = [_row_of_member(one) for one in ring]
    rows_twice = rows + rows  # the part of a page may reach beyond the end of the ring
    return {
        page_key(number, pages): compress_text(
            json.dumps(
                [summary, rows_twice[start : min(end + WATCHED, start + len(rows))] if end > start else []],
                separators=(",", ":"),
            )
        )
        for number, (start, end) in enumerate(pairwise(starts))
    }


def decode_page(text: str | bytes, node: str) -> NodeView:
    """Return the view of a node from its page.

    Raises:
        ValueError: the text is no page.
    """
    try:
        values, rows = json.loads(decompress_text(text))
        summary = _parse_summary(values)
        return _view_on_ring(summary, [_parse_row(row) for row in rows], node)
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"invalid page of a job: {error}") from error


_TEXT_OR_NONE = (str, NoneType)
_SUMMARY_TYPES: dict[str, tuple[type, ...]] = {
    one.name: {
        "contract": (str,),
        "phase": (str,),
        "broken": _TEXT_OR_NONE,
        "start": _TEXT_OR_NONE,
        "latest": _TEXT_OR_NONE,
        "master": (list, NoneType),
        "outcome": (list, NoneType),
    }.get(one.name, (int,))
    for one in fields(JobSummary)
}
_MEMBER_TYPES = (str, int, str, int, int, bool, int, int)
_MARK_TYPES = (bool, bool, bool, bool)


def _parse_summary(values: list[Json]) -> JobSummary:
    """Return a summary; rounds and names end up in paths and environment variables, so their types are verified."""
    document = dict(zip(_SUMMARY_TYPES, values, strict=True))
    master, outcome = document["master"], document["outcome"]
    if (
        any(type(document[name]) not in types for name, types in _SUMMARY_TYPES.items())
        or document["phase"] not in get_args(Phase)
        or (master is not None and tuple(map(type, master)) != (str, int))
        or (outcome is not None and tuple(map(type, outcome)) != (str, str))
    ):
        raise ValueError("a field has the wrong type")
    document["master"] = master and tuple(master)
    document["outcome"] = outcome and JobOutcome(*outcome)
    return JobSummary(**document)


def _row_of_member(one: RingMember) -> tuple[object, ...]:
    marks = (one.acknowledged, one.suspected, one.expelled, one.leaving)
    return *attrgetter(*JobMember.__slots__)(one.member), one.rank, *marks


def _parse_row(row: list[Json]) -> RingMember:
    member, rank, marks = row[: len(_MEMBER_TYPES)], row[len(_MEMBER_TYPES)], row[len(_MEMBER_TYPES) + 1 :]
    if (*map(type, member), *map(type, marks)) != (*_MEMBER_TYPES, *_MARK_TYPES) or type(rank) not in (
        int,
        NoneType,
    ):
        raise ValueError("a member has a value of the wrong type")
    return RingMember(JobMember(*member), rank, *marks)
