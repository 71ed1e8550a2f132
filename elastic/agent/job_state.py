"""`JobState`: the state that all nodes of a job share, stored as one JSON document, compressed if it is long."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from hashlib import sha256
from operator import attrgetter
from types import NoneType
from typing import Any, Literal, TypeVar, get_args

from elastic.json_files import Json

# A *member* is a node that is present. It has *arrived* if it has no running workers and waits for the next round. A
# *group* consists of the members that train in a *round*; the other members are on standby.

_Row = TypeVar("_Row", "JobMember", "JobOutcome", "JobEvent")

Phase = Literal["forming", "proposed", "running", "closed"]
"""Phase of a job: `forming` waits for arrivals, `proposed` for confirmations of ranks; then `running`, `closed`."""

Cause = Literal["failure", "change", "lost"]
"""Why the last group broke: `failure` of a worker, `change` by a node that asked to join or left, or a node `lost`."""

EVENTS_KEPT = 12


@dataclass(frozen=True, slots=True)
class JobMember:
    """A node that takes part in the job."""

    node: str
    """Name of the node: host, process ID and a few random digits."""
    join_order: int
    """Position in the order of joining, which survivors keep so that ranks change as little as possible."""
    host: str
    """Address at which the other nodes reach this node."""
    port: int
    """Port of the workers' own store, used if this node gets rank 0."""
    liveness_port: int = 0
    """Port that is open while any process of the node lives (`elastic.agent.liveness_port`); 0 means none."""
    arrived: bool = True
    """Whether the node has no running workers and waits for the next round."""
    finished: int = 0
    """Number of the last round in which all workers of the node succeeded; 0 means none."""
    cleared: int = 0
    """Number of suspicions that the node has cleared; earlier evidence no longer counts."""


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """Whether a job succeeded, failed or was rejected, and why."""

    kind: Literal["succeeded", "failed", "refused"]
    """Kind of outcome: `failed` if no restarts are left; `refused` if the config or policy lets no worker start."""
    text: str = ""
    """Reason in one line, shown on every node; empty if the job succeeded."""


@dataclass(frozen=True, slots=True)
class JobEvent:
    """A recent event of a job, for display by `dsconfig elastic status`."""

    time: float
    """Seconds since 1970, by the clock of the node that wrote the event."""
    node: str
    """Name of the node that the event is about."""
    text: str
    """Description of the event, such as "joined"."""


@dataclass(frozen=True, slots=True)
class JobState:
    """The state of a job. It is immutable; every change creates a new instance with the next revision."""

    incarnation: int
    """Identifier of the store's lifetime: microseconds since 1970 when the job's first state was written."""
    revision: int = 0
    """Number of changes since the job's first state was written."""
    writer: str = ""
    """Name of the node that wrote this revision, which together with the revision makes each document unique."""
    contract: Mapping[str, Json] = field(default_factory=dict)
    """Settings that must be the same on all nodes (`ElasticJob.contract`), taken from the first node."""
    round: int = 0
    """Number of the last proposed round; 0 before the first one."""
    phase: Phase = "forming"
    """Current phase of the job."""
    group: tuple[str, ...] = ()
    """Names of the nodes in the last group, in the order of their ranks."""
    acknowledged: tuple[str, ...] = ()
    """Names of the nodes that have confirmed their rank in a proposed group; the round runs when all have."""
    members: tuple[JobMember, ...] = ()
    """Nodes that take part in the job, in the order of joining."""
    next_join_order: int = 0
    """`join_order` of the next node that joins."""
    removed_at: int = 0
    """Revision at which a member was last removed; an older request to join may come from that member."""
    suspects: tuple[str, ...] = ()
    """Names of members that seem silent; a live member clears the mark before it renews its lease."""
    expelled: tuple[str, ...] = ()
    """Names of members that delay a round and may no longer renew their lease."""
    leaving: tuple[str, ...] = ()
    """Names of members that were asked to leave; they train until the next checkpoint and join no further round."""
    broken: Cause | None = None
    """Why the last group stopped training, or `None` while the group trains."""
    restarts: int = 0
    """Number of worker failures that the job has survived."""
    start: str | None = None
    """Value of `latest` when the round was proposed, so that all ranks start from the same checkpoint."""
    latest: str | None = None
    """Name of the last committed checkpoint, or `None` before the first commit."""
    commits: int = 0
    """Number of checkpoints committed since the store was created."""
    changed_at: int = 0
    """Value of `commits` when a node last joined or was asked to leave; after a new commit, a change loses no work."""
    outcome: JobOutcome | None = None
    """Outcome of the job, or `None` while the job runs."""
    events: tuple[JobEvent, ...] = ()
    """Last few events of the job, for the status view."""

    def member(self, node: str) -> JobMember | None:
        """Return the member with the name `node`, or `None` if it is not in the job."""
        return next((member for member in self.members if member.node == node), None)

    @property
    def standby(self) -> tuple[str, ...]:
        """Names of the members outside the group."""
        group = {*self.group}
        return tuple(member.node for member in self.members if member.node not in group)

    @property
    def awaited(self) -> list[str]:
        """Names of the members for which a group that is forming or proposed still waits."""
        if self.phase == "forming":
            return [member.node for member in self.members if not member.arrived]
        if self.phase == "proposed":
            acknowledged = {*self.acknowledged}
            return [node for node in self.group if node not in acknowledged]
        return []

    @property
    def finishing(self) -> bool:
        """Whether all workers of at least one node have succeeded in the current round."""
        return any(member.finished == self.round and member.node in self.group for member in self.members)

    @property
    def contract_digest(self) -> str:
        """Digest by which a node compares its contract with the job's; empty before the first node has joined."""
        return digest_of_contract(self.contract) if self.contract else ""

    def encode(self) -> str:
        """Encode the state as JSON; groups refer to nodes by their index among the members."""
        index = {member.node: number for number, member in enumerate(self.members)}
        document: dict[str, object] = {one.name: getattr(self, one.name) for one in fields(self)}
        for name in ("group", "acknowledged"):
            document[name] = [index.get(node, node) for node in getattr(self, name)]
        document["members"] = [_row_values(member) for member in self.members]
        document["events"] = [_row_values(event) for event in self.events]
        document["outcome"] = self.outcome and _row_values(self.outcome)
        return compress_text(json.dumps(document, separators=(",", ":")))


def digest_of_contract(contract: Mapping[str, Json]) -> str:
    """Return a short digest of the settings in a contract."""
    return sha256(json.dumps(contract, sort_keys=True).encode()).hexdigest()[:12]


_MEMBER_TYPES = (str, int, str, int, int, bool, int, int)


def _row_values(row: JobMember | JobOutcome | JobEvent) -> tuple[object, ...]:
    values: tuple[object, ...] = attrgetter(*row.__slots__)(row)
    return values


def _parse_row(kind: type[_Row], values: list[Any]) -> _Row:
    return kind(**dict(zip(kind.__slots__, values, strict=True)))


def _node_names(references: list[int | str], members: tuple[JobMember, ...]) -> tuple[str, ...]:
    """Resolve member indices to node names; nodes that have left are stored by name and returned unchanged."""
    if not all(
        type(place) is str or (type(place) is int and 0 <= place < len(members)) for place in references
    ):
        raise ValueError("no member has this index")
    return tuple(
        reference if isinstance(reference, str) else members[reference].node for reference in references
    )


def _validate_types(state: JobState) -> JobState:
    """Validate the types of a state's fields, because rounds and names become paths and environment variables.

    Raises:
        ValueError: a field has the wrong type.
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
    """Decode the result of `JobState.encode`.

    Raises:
        ValueError: the text is anything else.
    """
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
"""Length in characters below which a text is not compressed; such a text never starts with the compression mark."""
LONGEST = 1 << 26
"""Maximum length of a decompressed text in characters, as a protection against decompression bombs."""
_MARK = "z"
_LEVEL = 1
"""Compression level of zlib: much faster than level 6, while all nodes wait, for a result that is a tenth larger."""


def compress_text(text: str) -> str:
    """Compress an ASCII text if it is long; a short text is returned unchanged."""
    if len(text) < SHORT:
        return text
    return _MARK + base64.b64encode(zlib.compress(text.encode("ascii"), _LEVEL)).decode("ascii")


def decompress_text(packed: str | bytes) -> str:
    """Decompress the result of `compress_text`.

    Raises:
        ValueError: the text is anything else.
    """
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
