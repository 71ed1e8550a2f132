"""`State`: what all nodes of a job agree on, one JSON document in the job's store.

A *member* is a node that is present; it *arrives* when it has no workers running and wants the next round.
A *group* is the members that train in a *round*; the others are on standby.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Phase = Literal["forming", "proposed", "running", "closed"]
"""forming: waiting for arrivals; proposed: a group is named, its members confirm; running; closed."""

Cause = Literal["failure", "change", "lost"]
"""Why the last group broke: a worker failed, a node asked to join or left in order, a node was lost."""

EVENTS_KEPT = 12


@dataclass(frozen=True, slots=True)
class Member:
    """A node that is present."""

    node: str
    seat: int
    """Order of joining: survivors keep their order, so ranks move as little as possible."""
    host: str
    port: int
    """Where the workers' own store listens, should this node get rank 0."""
    arrived: bool = True
    finished: int = 0
    """The round in which all of its workers ended well; 0 is none."""
    alive: int = 0
    """Its heartbeat when it last took a suspicion away: an older one is no evidence any more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the job ended."""

    kind: Literal["succeeded", "failed", "refused"]
    text: str = ""


@dataclass(frozen=True, slots=True)
class Happening:
    """One of the last events, for the status view."""

    time: float
    node: str
    text: str


@dataclass(frozen=True, slots=True)
class State:
    """The document; every change makes a new one with the next revision."""

    incarnation: int
    """Names the life of the store: microseconds since 1970 when this document was made."""
    revision: int = 0
    writer: str = ""
    contract: Mapping[str, Any] = field(default_factory=dict)
    round: int = 0
    phase: Phase = "forming"
    group: tuple[str, ...] = ()
    """Nodes of the last group in the order of their ranks."""
    acked: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    next_seat: int = 0
    suspects: tuple[str, ...] = ()
    """Members that seem silent: one that is not clears the mark before its lease is renewed."""
    expelled: tuple[str, ...] = ()
    """Members that hold up a round; they may not renew their lease any more."""
    leaving: tuple[str, ...] = ()
    """Members that were asked to go: they train on until the next checkpoint and come to no other round."""
    broken: Cause | None = None
    restarts: int = 0
    start: str | None = None
    """What was `latest` when the round was proposed: all of its ranks begin with the same checkpoint."""
    latest: str | None = None
    """The last committed checkpoint."""
    commits: int = 0
    changed_at: int = 0
    """`commits` when a node last came or was asked to leave: nothing is lost where it has grown since."""
    outcome: Outcome | None = None
    events: tuple[Happening, ...] = ()

    def member(self, node: str) -> Member | None:
        """The member of that name, where it is one."""
        return next((member for member in self.members if member.node == node), None)

    @property
    def standby(self) -> tuple[str, ...]:
        """Members that are present and not in the group."""
        return tuple(member.node for member in self.members if member.node not in self.group)

    @property
    def intact(self) -> bool:
        """Whether all of the group are still present."""
        return all(self.member(node) is not None for node in self.group)

    @property
    def holding_up(self) -> list[str]:
        """Members for which a group that is being formed waits."""
        if self.phase == "forming":
            return [member.node for member in self.members if not member.arrived]
        if self.phase == "proposed":
            return [node for node in self.group if node not in self.acked]
        return []

    @property
    def finishing(self) -> bool:
        """Whether all workers of some node have ended well in this round."""
        return any(member.finished == self.round for member in self.members if member.node in self.group)

    def encode(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self), separators=(",", ":"))


def decode(text: str | bytes) -> State:
    """The state that `State.encode` wrote.  Raises `ValueError` for anything else."""
    try:
        read = json.loads(text)
        for name in ("group", "acked", "suspects", "expelled", "leaving"):
            read[name] = tuple(read[name])
        read["members"] = tuple(Member(**member) for member in read["members"])
        read["events"] = tuple(Happening(**event) for event in read["events"])
        read["outcome"] = read["outcome"] and Outcome(**read["outcome"])
        return State(**read)
    except (TypeError, KeyError, AttributeError) as error:
        raise ValueError(f"not the state of a job: {error}") from error
