"""What a node asks of the job's state: to be counted in, by its own change or by another node's.

Another node may grant a request long after it was made, and more than once: so it names exactly the state
of its maker that it is about, and does nothing in any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from elastic.agent import transitions
from elastic.agent.errors import RefusedError
from elastic.agent.job_contract import agree
from elastic.agent.state import Cause, State
from elastic.json_types import Json


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
