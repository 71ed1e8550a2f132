"""Requests of nodes to join a round, and the contract: settings on which all nodes must agree."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from elastic.agent import job_state_transitions
from elastic.agent.errors import RefusedError
from elastic.agent.job_state import Cause, JobOutcome, JobState
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
    digests = f"{_digest_of_value(theirs)} and {_digest_of_value(contract)}"
    advice = "use the same settings, then start with a new store or another `--rdzv-id`"
    return f"the nodes differ: {'; '.join(parts)} (digests {digests}); {advice}"


def _digest_of_value(contract: Mapping[str, Json]) -> str:
    return sha256(json.dumps(contract, sort_keys=True).encode()).hexdigest()[:12]


def _format_setting(contract: Mapping[str, Json], key: str) -> str:
    return json.dumps(contract.get(key))


# Another node may grant a request late, and more than once. So a request identifies the exact state of its node, and
# has no effect in any other.


@dataclass(frozen=True, slots=True)
class ArrivalRequest:
    """A request to join the next round, made by a node without running workers."""

    node: str
    revision: int
    """Revision of the job's state on which the request is based."""
    round: int
    join_order: int | None
    """Join order of the requesting member, or `None` if the node is not a member yet."""
    host: str
    port: int
    cause: Cause | None = None
    contract: Mapping[str, Json] | None = None
    """Contract of a node that is not a member yet, or `None` for a member."""
    liveness_port: int = 0
    """Port that is open while any process of the node lives; 0 means none."""

    def grant(self, state: JobState) -> JobState:
        """Return the state after the node's arrival, if its membership has not changed since the request."""
        member = state.member(self.node)
        if member is not None:
            is_current = (member.join_order, state.round) == (self.join_order, self.round)
        else:
            is_current = self.join_order is None and self.revision >= state.removed_at
            if is_current and self.contract is not None and not state.outcome:
                try:
                    state = agree_on_contract(state, self.node, self.contract)
                except RefusedError:
                    return state  # reported on its own node
        return (
            job_state_transitions.arrive_at_round(
                state, self.node, self.host, self.port, self.cause, self.liveness_port
            )
            if is_current
            else state
        )


@dataclass(frozen=True, slots=True)
class RankConfirmation:
    """A node's confirmation of its rank in the group of a round."""

    node: str
    revision: int
    round: int

    def grant(self, state: JobState) -> JobState:
        """Return the state after the confirmation, if the group of that round still waits for it."""
        return job_state_transitions.confirm_rank(state, self.node) if state.round == self.round else state


Request = ArrivalRequest | RankConfirmation
_WIRE_NAMES: dict[type[Request], str] = {ArrivalRequest: "Arrival", RankConfirmation: "Acknowledgment"}
"""Names of the request classes in the store, which agents of different dsconfig versions share."""


def encode_requests(requests: list[Request]) -> str:
    """Encode requests as JSON."""
    return json.dumps([[_WIRE_NAMES[type(one)], asdict(one)] for one in requests], separators=(",", ":"))


def decode_requests(text: str | bytes) -> list[Request]:
    """Decode the result of `encode_requests`; an empty text stands for no requests.

    Raises:
        ValueError: the text is anything else.
    """
    kinds = {name: kind for kind, name in _WIRE_NAMES.items()}
    try:
        return [kinds[name](**fields) for name, fields in json.loads(text or "[]")]
    except (TypeError, KeyError) as error:
        raise ValueError(f"not requests: {error}") from error
