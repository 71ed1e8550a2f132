"""Requests that other nodes grant: once, in the state that they are about, and all that are there."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elastic.agent import job_state_transitions
from elastic.agent.job_state import JobState
from elastic.agent.join_requests import (
    ArrivalRequest,
    RankConfirmation,
    Request,
    decode_requests,
    encode_requests,
)
from elastic.agent.state_store import Mailbox, StateStore
from tests.agent.fakes import DictStore, job_of, running, with_members

CONTRACT = job_of().contract()


def arrival(state: JobState, node: str) -> ArrivalRequest:
    member = state.member(node)
    order = member.join_order if member else None
    return ArrivalRequest(
        node, state.revision, state.round, order, "h", 1, contract=None if member else CONTRACT
    )


def test_what_is_written_is_read() -> None:
    requests: list[Request] = [
        arrival(JobState(1), "a"),
        arrival(with_members("b"), "b"),
        RankConfirmation("c", 4, 2),
    ]
    assert decode_requests(encode_requests(requests)) == requests
    assert decode_requests("") == []
    for text in ("{", "1", '[["Other", {}]]', '[["Arrival", {"node": "a"}]]'):
        with pytest.raises(ValueError, match=r"."):
            decode_requests(text)


def test_granted_late_or_twice() -> None:
    joins = arrival(JobState(1), "a")
    state = joins.grant(JobState(1))
    assert [member.node for member in state.members] == ["a"]
    assert joins.grant(state) is state
    gone = job_state_transitions.remove_node(state, "a", "lost", "lost")
    assert joins.grant(gone) is gone, "it had been granted before"
    assert arrival(replace(gone, revision=1), "a").grant(gone).members
    comes = arrival(with_members("a", "b"), "a")
    trains = running("a", "b")
    assert comes.grant(trains) is trains, "the round that it wanted"
    acknowledges = RankConfirmation("a", 0, 1)
    proposed = job_state_transitions.propose_group(with_members("a", "b"), 2, 3)
    assert acknowledges.grant(proposed).acknowledged == ("a",)
    assert acknowledges.grant(trains) is trains
    assert RankConfirmation("a", 0, 2).grant(proposed) is proposed


def test_another_contract_joins_nothing() -> None:
    first = arrival(JobState(1), "a").grant(JobState(1))
    other = replace(arrival(first, "b"), contract={**CONTRACT, "processes": 8})
    refused = other.grant(first)
    assert refused.outcome is not None
    assert refused.outcome.kind == "refused"
    trains = replace(running("a"), contract=CONTRACT)
    assert other.grant(trains) is trains, "its own node says so"


def test_whoever_changes_the_state_grants_all_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastic.agent.state_store.CROWD", 0)
    store = DictStore()
    one, mailbox = StateStore(store, "job", "one"), Mailbox(store, "dsconfig/job/", "two")
    one.create()
    assert mailbox.grant_all(JobState(1)) == JobState(1), "nobody has left anything"
    mailbox.post(arrival(one.read(), "two"), one.read())
    state = one.ask(lambda requests: arrival(requests, "one"))
    assert sorted(member.node for member in state.members) == ["one", "two"]
    assert one.read().revision == 1, "one change for both"
    assert one.ask(lambda _: None) == state
    mailbox.post(arrival(state, "three"), state)
    requests = [text for key, text in store.data.items() if "/mailbox/" in key and "three" in text]
    assert not any("two" in text for text in requests), "what was granted is swept out"
