"""`JobState`: the state that all nodes of a job share, one JSON document in the store, compressed if it is long."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from operator import attrgetter
from types import NoneType
from typing import Any, Literal, TypeVar, get_args

from elastic.json_files import Json

# A *member* is a node that is present. It has *arrived* if it has no running workers and waits for the next round. A
# *group* consists of the members that train in a *round*; the other members are on standby.

_Row = TypeVar("_Row", "JobMember", "JobOutcome", "JobEvent")

Phase = Literal["forming", "proposed", "running", "closed"]
"""forming: waiting for arrivals; proposed: the members of a group confirm; running; closed."""

Cause = Literal["failure", "change", "lost"]
"""Why the last group broke: a worker failed, a node asked to join or left cleanly, a node was lost."""

EVENTS_KEPT = 12


@dataclass(frozen=True, slots=True)
class JobMember:
    """Node that is present."""

    node: str
    """Name: host, process id and a few random digits."""
    join_order: int
    """Order of joining: survivors keep theirs, so that ranks change as little as possible."""
    host: str
    """Address at which the other nodes reach it."""
    port: int
    """Port of the workers' own store, if this node gets rank 0."""
    liveness_port: int = 0
    """Port that is open while any process of this node lives (`elastic.agent.liveness_port`); 0: none."""
    arrived: bool = True
    """Whether it waits for the next round, with no running workers."""
    finished: int = 0
    """Last round in which all of its workers succeeded; 0 is none."""
    cleared: int = 0
    """Number of suspicions that it has cleared: earlier evidence no longer counts."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Outcome of the job."""

    kind: Literal["succeeded", "failed", "refused"]
    """`failed`: the restarts are used up. `refused`: the config is rejected, or the policy lets no worker start."""
    text: str = ""
    """Reason in one line, shown on every node; empty after success."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """Recent event, for the status view."""

    time: float
    """Seconds since 1970, by the clock of the node that wrote it."""
    node: str
    """Node of the event."""
    text: str
    """Description, such as "joined"."""


@dataclass(frozen=True, slots=True)
class JobState:
    """State document; every change creates a new one with the next revision."""

    incarnation: int
    """Identifies the store's lifetime: microseconds since 1970 when this document was first written."""
    revision: int = 0
    """Number of changes since then."""
    writer: str = ""
    """Node that wrote this revision; with the revision, it makes each document unique."""
    contract: Mapping[str, Json] = field(default_factory=dict)
    """Settings that must be the same on all nodes (`ElasticJob.contract`), from the first node."""
    round: int = 0
    """Number of the last proposed round; 0 before the first."""
    phase: Phase = "forming"
    """Phase of the job."""
    group: tuple[str, ...] = ()
    """Nodes of the last group, in the order of their ranks."""
    acknowledged: tuple[str, ...] = ()
    """Nodes of a proposed group that have confirmed; the round runs when all have."""
    members: tuple[JobMember, ...] = ()
    """Present nodes in the order of joining."""
    next_join_order: int = 0
    """`join_order` of the next node that joins."""
    removed_at: int = 0
    """Revision at which a member was last removed: an older request to join may come from that member."""
    suspects: tuple[str, ...] = ()
    """Members that seem silent; a live member clears the mark before it renews its lease."""
    expelled: tuple[str, ...] = ()
    """Members that delay a round; they may not renew their lease any more."""
    leaving: tuple[str, ...] = ()
    """Members that were asked to leave: they train until the next checkpoint and join no other round."""
    broken: Cause | None = None
    """Why the last group stopped training; `None` while it trains."""
    restarts: int = 0
    """Worker failures that the job has survived."""
    start: str | None = None
    """Value of `latest` when the round was proposed: all of its ranks start from the same checkpoint."""
    latest: str | None = None
    """Last committed checkpoint."""
    commits: int = 0
    """Checkpoints committed since the store was created."""
    changed_at: int = 0
    """Value of `commits` when a node last joined or was asked to leave: after another commit, a change is free."""
    outcome: JobOutcome | None = None
    """Outcome of the job; `None` while it runs."""
    events: tuple[JobEvent, ...] = ()
    """Last few events, for the status view."""

    def member(self, node: str) -> JobMember | None:
        """Member of that name, if present."""
        return next((member for member in self.members if member.node == node), None)

    @property
    def standby(self) -> tuple[str, ...]:
        """Members outside of the group."""
        group = {*self.group}
        return tuple(member.node for member in self.members if member.node not in group)

    @property
    def awaited(self) -> list[str]:
        """Members for which a forming or proposed group waits."""
        if self.phase == "forming":
            return [member.node for member in self.members if not member.arrived]
        if self.phase == "proposed":
            acknowledged = {*self.acknowledged}
            return [node for node in self.group if node not in acknowledged]
        return []

    @property
    def finishing(self) -> bool:
        """Whether all workers of some node have succeeded in this round."""
        return any(member.finished == self.round and member.node in self.group for member in self.members)

    def encode(self) -> str:
        """Encode as JSON, where nodes are indices into the members."""
        index = {member.node: number for number, member in enumerate(self.members)}
        document: dict[str, object] = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("group", "acknowledged"):
            document[name] = [index.get(node, node) for node in getattr(self, name)]
        document["members"] = [_row_values(member) for member in self.members]
        document["events"] = [_row_values(event) for event in self.events]
        document["outcome"] = self.outcome and _row_values(self.outcome)
        return compress_text(json.dumps(document, separators=(",", ":")))


_MEMBER_TYPES = (str, int, str, int, int, bool, int, int)


def _row_values(row: JobMember | JobOutcome | JobEvent) -> tuple[object, ...]:
    values: tuple[object, ...] = attrgetter(*row.__slots__)(row)
    return values


def _parse_row(kind: type[_Row], values: list[Any]) -> _Row:
    return kind(**dict(zip(kind.__slots__, values, strict=True)))


def _node_names(references: list[int | str], members: tuple[JobMember, ...]) -> tuple[str, ...]:
    """Node names for member indices; nodes that have left are stored by name."""
    if not all(
        type(place) is str or (type(place) is int and 0 <= place < len(members)) for place in references
    ):
        raise ValueError("no member has this index")
    return tuple(
        reference if isinstance(reference, str) else members[reference].node for reference in references
    )


def _validate_types(state: JobState) -> JobState:
    """Validate the types of all fields, since rounds and names become paths and variables.

    Raises `ValueError`.
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
        or any(tuple(map(type, _row_values(member))) != _MEMBER_TYPES for member in state.members)
        or state.phase not in get_args(Phase)
        or not isinstance(state.contract, dict)
    ):
        raise ValueError("a field has the wrong type")
    return state


def decode_state(text: str | bytes) -> JobState:
    """Decode the result of `JobState.encode`.  Raises `ValueError` for anything else."""
    try:
        document = json.loads(decompress_text(text))
        members = document["members"] = tuple(_parse_row(JobMember, values) for values in document["members"])
        for name in ("group", "acknowledged"):
            document[name] = _node_names(document[name], members)
        for name in ("suspects", "expelled", "leaving"):
            document[name] = tuple(document[name])
        document["events"] = tuple(_parse_row(JobEvent, values) for values in document["events"])
        document["outcome"] = document["outcome"] and _parse_row(JobOutcome, document["outcome"])
        return _validate_types(JobState(**document))
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError) as error:
        raise ValueError(f"invalid state of a job: {error}") from error


# Compression of long texts: zlib in base64, since the store accepts text; short texts stay readable.

SHORT = 4096
"""Length in characters below which a text is not compressed; such a text does not start with the mark."""
LONGEST = 1 << 26
"""Limit of an unpacked text in characters, against decompression bombs."""
_MARK = "z"
_LEVEL = 1
"""Result is a tenth larger than at level 6, but much faster: all nodes that form a group wait for it."""


def compress_text(text: str) -> str:
    """Compress a long ASCII text."""
    if len(text) < SHORT:
        return text
    return _MARK + base64.b64encode(zlib.compress(text.encode("ascii"), _LEVEL)).decode("ascii")


def decompress_text(packed: str | bytes) -> str:
    """Decompress the result of `pack`.  Raises `ValueError` for anything else."""
    data = packed.decode("ascii") if isinstance(packed, bytes) else packed
    if not data.startswith(_MARK):
        return data
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(base64.b64decode(data[len(_MARK) :], validate=True), LONGEST)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not unpacker.eof or unpacker.unused_data or len(text) < SHORT:
        raise ValueError("the text is truncated, or too long")
    return text.decode("ascii")
