"""Requests of a node to be counted in, and the contract that must be the same on all nodes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256

from elastic.agent import transitions
from elastic.agent.errors import RefusedError
from elastic.agent.state import Cause, Outcome, State
from elastic.json_types import Json

# What must be the same on all nodes of a job: the first node's contract is the job's.


def agree(state: State, node: str, ours: Mapping[str, Json]) -> State:
    """The state once `node` has compared its contract with the job's.

    Another contract is refused on all nodes before the first round; after it `RefusedError` is raised on this
    node alone.
    """
    if not state.contract or (not state.members and state.round == 0):
        return replace(state, contract=ours)
    them = state.members[0].node if state.members else "the others"
    text = difference(state.contract, ours, them, node)
    if text is None or state.outcome:
        return state
    if state.round == 0:
        return transitions.close(state, node, Outcome("refused", text))
    raise RefusedError(text)


def difference(theirs: Mapping[str, Json], ours: Mapping[str, Json], them: str, us: str) -> str | None:
    """How two contracts differ, in words that are the same wherever it is said; `None` if they do not."""
    keys = [key for key in sorted({*theirs, *ours}) if theirs.get(key) != ours.get(key)]
    if not keys:
        return None
    parts = [f"`{key}` is {_show(theirs, key)} on {them} and {_show(ours, key)} on {us}" for key in keys]
    digests = f"{_digest(theirs)} and {_digest(ours)}"
    again = "make them the same, then start with a new store or another `--rdzv-id`"
    return f"the nodes differ: {'; '.join(parts)} (digests {digests}); {again}"


def _digest(contract: Mapping[str, Json]) -> str:
    return sha256(json.dumps(contract, sort_keys=True).encode()).hexdigest()[:12]


def _show(contract: Mapping[str, Json], key: str) -> str:
    return json.dumps(contract.get(key))


# What a node asks of the job's state: to be counted in, by its own change or by another node's.
#
# Another node may grant a request long after it was made, and more than once: so it names exactly the state
# of its maker that it is about, and does nothing in any other.


@dataclass(frozen=True, slots=True)
class Arrival:
    """A node has no workers running and wants the next round."""

    node: str
    seen: int
    """The revision of the state in which it wanted that."""
    round: int
    join_order: int | None
    """Of the membership that arrives; `None`: it is to become a member."""
    host: str
    port: int
    cause: Cause | None = None
    contract: Mapping[str, Json] | None = None
    """Of who is to become a member: what must be the same on all nodes."""

    def grant(self, state: State) -> State:
        """With the node arrived, if it is still the member that it was, or was removed no later than seen."""
        member = state.member(self.node)
        if member is not None:
            same = (member.join_order, state.round) == (self.join_order, self.round)
        else:
            same = self.join_order is None and self.seen >= state.removed_at
            if same and self.contract is not None and not state.outcome:
                try:
                    state = agree(state, self.node, self.contract)
                except RefusedError:
                    return state  # its own node says so
        return transitions.arrive(state, self.node, self.host, self.port, self.cause) if same else state


@dataclass(frozen=True, slots=True)
class Acknowledgement:
    """A node confirms its rank in the group of this round."""

    node: str
    seen: int
    round: int

    def grant(self, state: State) -> State:
        """With the rank confirmed, if that group still waits for it."""
        return transitions.acknowledge(state, self.node) if state.round == self.round else state


Request = Arrival | Acknowledgement


def encode_all(requests: list[Request]) -> str:
    """As JSON."""
    return json.dumps([[type(one).__name__, asdict(one)] for one in requests], separators=(",", ":"))


def decode_all(text: str | bytes) -> list[Request]:
    """What `encode_all` wrote; nothing is none.  Raises `ValueError` for anything else."""
    kinds = {kind.__name__: kind for kind in (Arrival, Acknowledgement)}
    try:
        return [kinds[name](**fields) for name, fields in json.loads(text or "[]")]
    except (TypeError, KeyError) as error:
        raise ValueError(f"not requests: {error}") from error
