"""What must be the same on all nodes of a job: the first node's contract is the job's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256

from elastic.agent import transitions
from elastic.agent.errors import RefusedError
from elastic.agent.state import Outcome, State
from elastic.json_types import Json


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
