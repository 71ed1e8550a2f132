"""Requests of nodes, such as to join a round, and the contract: settings on which all nodes must agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from operator import attrgetter

from elastic.agent import job_state_transitions
from elastic.agent.errors import RefusedError
from elastic.agent.job_state import Cause, JobMember, JobOutcome, JobState, digest_of_contract
from elastic.agent.node_view import NodeView
from elastic.json_files import Json

# Contract: the first node's contract is the job's.


def agree_on_contract(state: JobState, node: str, contract: Mapping[str, Json]) -> JobState:
    """Compare a node's contract with the job's, and return the resulting state.

    Before the first round, a different contract ends the job on all nodes. Later, only the node with the different
    contract raises `RefusedError`.
    """
    if not state.contract or (not state.members and state.round == 0):
        return replace(state, contract=contract)
    other = state.members[0].node if state.members else "the others"
    text = contract_difference(state.contract, contract, other, node)
    if text is None or state.outcome:
        return state
    if state.round == 0:
        return job_state_transitions.close_job(state, node, JobOutcome("refused", text))
    raise RefusedError(text)


def contract_difference(
    theirs: Mapping[str, Json], contract: Mapping[str, Json], other: str, node: str
) -> str | None:
    """Describe how two contracts differ, in the same words on every node, or return `None` if they are equal."""
    keys = [key for key in sorted({*theirs, *contract}) if theirs.get(key) != contract.get(key)]
    if not keys:
        return None
    parts = [
        f"`{key}` is {_format_setting(theirs, key)} on {other} and {_format_setting(contract, key)} on {node}"
        for key in keys
    ]
    digests = f"{digest_of_contract(theirs)} and {digest_of_contract(contract)}"
    advice = "use the same settings, then start with a new store or another `--rdzv-id`"
    return f"the nodes differ: {'; '.join(parts)} (digests {digests}); {advice}"


def _format_setting(contract: Mapping[str, Json], key: str) -> str:
    return json.dumps(contract.get(key))


# Another node may grant a request late, and more than once. So a request identifies the exact state of its node, and
# has no effect in any other.


@dataclass(frozen=True, slots=True)
class ArrivalRequest:
    """A request to join the next round, made by a node without running workers.

    Granting it in the node's own process raises `RefusedError` if the job has begun with another contract.
    """

    node: str
    revision: int
    """Revision of the job's state on which the request is based."""
    round: int
    join_order: int | None
    """Join order of the requesting member, or `None` if the node is not a member yet."""
    host: str
    port: int
    cause: Cause | None = None
    liveness_port: int = 0
    """Port that is open while any process of the node lives; 0 means none."""
    contract_digest: str = ""
    """Digest of the contract of a node that is not a member yet; empty for a member."""
    contract: Mapping[str, Json] | None = None
    """The contract itself, which only the node's own process knows."""

    def grant(self, state: JobState) -> JobState:
        """Return the state after the node's arrival, if its membership has not changed since the request."""
        member = state.member(self.node)
        if not self._is_current(member, state):
            return state
        if member is None:
            if self.contract is not None and not state.outcome:
                state = agree_on_contract(state, self.node, self.contract)
            if self.contract_digest != state.contract_digest:
                return state  # its own node knows the words for the difference
        return job_state_transitions.arrive_at_round(
            state, self.node, self.host, self.port, self.cause, self.liveness_port
        )

    def is_pending(self, view: NodeView) -> bool:
        """Return whether the request would still change the state that the node sees."""
        member = view.own_row.member if view.own_row is not None else None
        has_arrived = member is not None and member.arrived and member.port == self.port
        return self._is_current(member, view) and not has_arrived and view.outcome is None

    def rivals(self, view: NodeView) -> int | None:
        """Return how many nodes make the same request, or `None` if the node sees only members and is none itself."""
        if view.own_row is not None:
            return view.present - view.arrived
        return None if view.contract in ("", self.contract_digest) else 1  # no other node can grant it

    def _is_current(self, member: JobMember | None, state: JobState | NodeView) -> bool:
        """Return whether the membership of the node is the same as at the time of the request."""
        if member is not None:
            return (member.join_order, state.round) == (self.join_order, self.round)
        return self.join_order is None and self.revision >= state.removed_at


@dataclass(frozen=True, slots=True)
class RankConfirmation:
    """A node's confirmation of its rank in the group of a round."""

    node: str
    revision: int
    round: int

    def grant(self, state: JobState) -> JobState:
        """Return the state after the confirmation, if the group of that round still waits for it."""
        return job_state_transitions.confirm_rank(state, self.node) if state.round == self.round else state

    def is_pending(self, view: NodeView) -> bool:
        """Return whether the group that the node sees still waits for the confirmation."""
        row, proposed = view.own_row, (view.round, view.phase) == (self.round, "proposed")
        return proposed and row is not None and row.rank is not None and not row.acknowledged

    def rivals(self, view: NodeView) -> int:
        """Return how many members make the same request, as far as the node sees."""
        return view.group_size - view.group_confirmed


@dataclass(frozen=True, slots=True)
class FinishReport:
    """A node's report that all its workers have succeeded; the last one of a group completes the job."""

    node: str
    revision: int
    round: int

    def grant(self, state: JobState) -> JobState:
        """Return the state after the report, unless the job has ended or the node trains in no such round."""
        if state.outcome:
            return state
        finished = job_state_transitions.finish_workers(state, self.node, self.round)
        return (
            state if finished is state else job_state_transitions.succeed_job(finished, self.node, self.round)
        )

    def is_pending(self, view: NodeView) -> bool:
        """Return whether the report would still change the state that the node sees."""
        if view.own_row is None or view.own_row.rank is None or view.outcome is not None:
            return False
        return view.round == self.round and view.own_row.member.finished != self.round

    def rivals(self, view: NodeView) -> int:
        """Return how many members make the same request, as far as the node sees."""
        return view.group_size - view.group_finished


@dataclass(frozen=True, slots=True)
class DrainNotice:
    """A node's notice that it was asked to leave, which it does after the next checkpoint."""

    node: str
    revision: int
    round: int
    join_order: int

    def grant(self, state: JobState) -> JobState:
        """Return the state after the notice, provided that the node's membership has not changed since."""
        member = state.member(self.node)
        is_current = member is not None and member.join_order == self.join_order
        return job_state_transitions.ask_to_leave(state, self.node) if is_current else state

    def is_pending(self, view: NodeView) -> bool:
        """Return whether the notice would still change the state that the node sees."""
        row = view.own_row
        return row is not None and row.member.join_order == self.join_order and not row.leaving

    def rivals(self, view: NodeView) -> int:
        """Return how many members may make the same request, as far as the node sees."""
        return view.staying


@dataclass(frozen=True, slots=True)
class Departure:
    """A node's notice that it leaves the job now, so that no other node has to wait for its heartbeat."""

    node: str
    revision: int
    round: int
    join_order: int
    text: str
    """Description of the event, such as "left"."""

    def grant(self, state: JobState) -> JobState:
        """Return the state without the node, provided that its membership has not changed since."""
        member = state.member(self.node)
        is_current = member is not None and member.join_order == self.join_order
        return (
            job_state_transitions.remove_node(state, self.node, "change", self.text) if is_current else state
        )

    def is_pending(self, view: NodeView) -> bool:
        """Return whether the node is still the member that leaves, in the state that it sees."""
        return view.own_row is not None and view.own_row.member.join_order == self.join_order

    def rivals(self, view: NodeView) -> int:
        """Return how many members may make the same request, as far as the node sees."""
        return view.present


Request = ArrivalRequest | RankConfirmation | FinishReport | DrainNotice | Departure
_WIRE_NAMES: dict[type[Request], str] = {
    ArrivalRequest: "arrival",
    RankConfirmation: "rank",
    FinishReport: "finish",
    DrainNotice: "drain",
    Departure: "departure",
}
"""Names of the request classes in the store."""
_WIRE_FIELDS = {kind: [name for name in kind.__slots__ if name != "contract"] for kind in _WIRE_NAMES}


def encode_requests(requests: list[Request]) -> str:
    """Encode requests as JSON, without contracts and names of fields: a slot of a large job has dozens."""
    rows = [[_WIRE_NAMES[type(one)], *attrgetter(*_WIRE_FIELDS[type(one)])(one)] for one in requests]
    return json.dumps(rows, separators=(",", ":")) if rows else ""


def decode_requests(text: str | bytes) -> list[Request]:
    """Decode the result of `encode_requests`; an empty text stands for no requests.

    Raises:
        ValueError: the text is anything else.
    """
    kinds = {name: kind for kind, name in _WIRE_NAMES.items()}
    try:
        return [kinds[name](*values) for name, *values in json.loads(text or "[]")]
    except (TypeError, KeyError) as error:
        raise ValueError(f"not requests: {error}") from error
