"""`State`: what all nodes of a job agree on, one JSON document in the job's store, packed where it is long."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import NoneType
from typing import Any, Literal, TypeVar, get_args

from elastic.json_types import Json

# `State`: what all nodes of a job agree on, one JSON document in the job's store.
#
# A *member* is a node that is present. It has *arrived* when it has no workers running and wants the next
# round. A *group* is the members that train in a *round*; the other members are on standby.

_Row = TypeVar("_Row", "Member", "Outcome", "Event")

Phase = Literal["forming", "proposed", "running", "closed"]
"""forming: waiting for arrivals; proposed: a group is named, its members confirm; running; closed."""

Cause = Literal["failure", "change", "lost"]
"""Why the last group broke: a worker failed, a node asked to join or left in order, a node was lost."""

EVENTS_KEPT = 12


@dataclass(frozen=True, slots=True)
class Member:
    """A node that is present."""

    node: str
    """Its name: host, process id and a few random digits."""
    join_order: int
    """Its place by time of joining: survivors keep theirs, so that ranks move as little as possible."""
    host: str
    """The address at which the other nodes reach it."""
    port: int
    """Where the workers' own store listens, should this node get rank 0."""
    arrived: bool = True
    """Whether it is waiting for the next round, with no workers running."""
    finished: int = 0
    """The last round in which all of its workers ended well; 0 is none."""
    cleared: int = 0
    """How often it has cleared a suspicion: evidence from before no longer counts."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the job ended."""

    kind: Literal["succeeded", "failed", "refused"]
    """failed: the restarts are used up; refused: no worker may start, because of the config or the policy."""
    text: str = ""
    """Why, in one line that every node shows; empty after success."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened lately, for the status view."""

    time: float
    """Seconds since 1970, by the clock of the node that wrote it."""
    node: str
    """The node that it happened to."""
    text: str
    """What happened, such as "joined"."""


@dataclass(frozen=True, slots=True)
class State:
    """The document; every change makes a new one with the next revision."""

    incarnation: int
    """Names the life of the store: microseconds since 1970 when this document was first written."""
    revision: int = 0
    """Changes made since then."""
    writer: str = ""
    """The node that wrote this revision; with the revision it makes each document unique."""
    contract: Mapping[str, Json] = field(default_factory=dict)
    """What must be the same on all nodes (`Job.contract`), as the first node brought it."""
    round: int = 0
    """The number of the last round that was proposed; 0 before the first."""
    phase: Phase = "forming"
    """What the members are doing together."""
    group: tuple[str, ...] = ()
    """Nodes of the last group, in the order of their ranks."""
    acknowledged: tuple[str, ...] = ()
    """Nodes of a proposed group that have confirmed; the round runs when all have."""
    members: tuple[Member, ...] = ()
    """Every node that is present, in the order of joining."""
    next_join_order: int = 0
    """The `join_order` of the next node that joins."""
    removed_at: int = 0
    """The revision at which a member last went: who asked to become one before it may have been that one."""
    suspects: tuple[str, ...] = ()
    """Members that seem silent: one that is alive clears the mark before it renews its lease."""
    expelled: tuple[str, ...] = ()
    """Members that keep a round waiting; they may not renew their lease any more."""
    leaving: tuple[str, ...] = ()
    """Members that were asked to go: they train until the next checkpoint and join no other round."""
    broken: Cause | None = None
    """Why the last group no longer trains; `None` while it does."""
    restarts: int = 0
    """Worker failures that the job has survived."""
    start: str | None = None
    """What `latest` was when the round was proposed: all of its ranks begin with the same checkpoint."""
    latest: str | None = None
    """The last committed checkpoint."""
    commits: int = 0
    """Checkpoints committed since the store began."""
    changed_at: int = 0
    """`commits` when a node last joined or was asked to leave: once it has grown, a change loses no work."""
    outcome: Outcome | None = None
    """How the job ended; `None` while it goes on."""
    events: tuple[Event, ...] = ()
    """The last few events, for the status view."""

    def member(self, node: str) -> Member | None:
        """The member of that name, if there is one."""
        return next((member for member in self.members if member.node == node), None)

    @property
    def standby(self) -> tuple[str, ...]:
        """Members that are not in the group."""
        group = {*self.group}
        return tuple(member.node for member in self.members if member.node not in group)

    @property
    def awaited(self) -> list[str]:
        """Members that a forming or proposed group is waiting for."""
        if self.phase == "forming":
            return [member.node for member in self.members if not member.arrived]
        if self.phase == "proposed":
            acknowledged = {*self.acknowledged}
            return [node for node in self.group if node not in acknowledged]
        return []

    @property
    def finishing(self) -> bool:
        """Whether all workers of some node have ended well in this round."""
        return any(member.finished == self.round and member.node in self.group for member in self.members)

    def encode(self) -> str:
        """As JSON, packed where there are many nodes: each name stands there once, the rest are places."""
        place = {member.node: number for number, member in enumerate(self.members)}
        read: dict[str, object] = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("group", "acknowledged"):
            read[name] = [place.get(node, node) for node in getattr(self, name)]
        read["members"] = [_values(member) for member in self.members]
        read["events"] = [_values(event) for event in self.events]
        read["outcome"] = self.outcome and _values(self.outcome)
        return pack(json.dumps(read, separators=(",", ":")))


_MEMBER_TYPES = (str, int, str, int, bool, int, int)


def _values(row: Member | Outcome | Event) -> tuple[object, ...]:
    values: tuple[object, ...] = attrgetter(*row.__slots__)(row)
    return values


def _row(kind: type[_Row], values: list[Any]) -> _Row:
    return kind(**dict(zip(kind.__slots__, values, strict=True)))


def _names(places: list[int | str], members: tuple[Member, ...]) -> tuple[str, ...]:
    """Of nodes that are there by their place among the members; those that have gone keep their name."""
    if not all(type(one) is str or (type(one) is int and 0 <= one < len(members)) for one in places):
        raise ValueError("no member has that place")
    return tuple(place if isinstance(place, str) else members[place].node for place in places)


def _typed(state: State) -> State:
    """The state, all of whose fields have their types: rounds and names become paths and variables.

    Raises `ValueError` for any other.
    """
    numbers = ("incarnation", "revision", "round", "next_join_order", "removed_at", "restarts", "commits")
    names = (*state.group, *state.acknowledged, *state.suspects, *state.expelled, *state.leaving)
    events = [(event.node, event.text) for event in state.events]
    texts = (state.writer, *names, *(text for event in events for text in event))
    if state.outcome is not None:
        texts = (*texts, state.outcome.kind, state.outcome.text)
    if (
        {type(getattr(state, name)) for name in (*numbers, "changed_at")} != {int}
        or not {type(text) for text in texts} <= {str}
        or not {type(text) for text in (state.start, state.latest)} <= {str, NoneType}
        or not {type(event.time) for event in state.events} <= {int, float}
        or any(tuple(map(type, _values(member))) != _MEMBER_TYPES for member in state.members)
        or state.phase not in get_args(Phase)
        or not isinstance(state.contract, dict)
    ):
        raise ValueError("a field is of another type")
    return state


def decode(text: str | bytes) -> State:
    """The state that `State.encode` wrote.  Raises `ValueError` for anything else."""
    try:
        read = json.loads(unpack(text))
        members = read["members"] = tuple(_row(Member, values) for values in read["members"])
        for name in ("group", "acknowledged"):
            read[name] = _names(read[name], members)
        for name in ("suspects", "expelled", "leaving"):
            read[name] = tuple(read[name])
        read["events"] = tuple(_row(Event, values) for values in read["events"])
        read["outcome"] = read["outcome"] and _row(Outcome, read["outcome"])
        return _typed(State(**read))
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"not the state of a job: {error}") from error


# Long texts packed for the store, which takes text: zlib in base64; short ones stay readable.

SHORT = 4096
"""Characters of a text that is left as it is; it does not begin with the mark."""
LONGEST = 1 << 26
"""Characters of a text that is unpacked: a few bytes can stand for any number."""
_MARK = "z"
_LEVEL = 1
"""A tenth larger than at 6, in a small part of its time: all nodes that form a group wait for it."""


def pack(text: str) -> str:
    """The text as it is kept; `text` is ASCII."""
    if len(text) < SHORT:
        return text
    return _MARK + base64.b64encode(zlib.compress(text.encode("ascii"), _LEVEL)).decode("ascii")


def unpack(packed: str | bytes) -> str:
    """What `pack` was given.  Raises `ValueError` for anything else."""
    kept = packed.decode("ascii") if isinstance(packed, bytes) else packed
    if not kept.startswith(_MARK):
        return kept
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(base64.b64decode(kept[len(_MARK) :], validate=True), LONGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof or unpacker.unused_data or len(text) < SHORT:
        raise ValueError("it was cut short, or is longer than any job's")
    return text.decode("ascii")
