"""Requests that other nodes grant: once, in the state that they are about, and all that are there."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from elastic.agent import job_state_transitions
from elastic.agent.errors import RefusedError
from elastic.agent.job_state import JobState, digest_of_contract
from elastic.agent.join_requests import (
    ArrivalRequest,
    RankConfirmation,
    Request,
    decode_requests,
    encode_requests,
)
from elastic.agent.node_view import view_of
from elastic.agent.state_store import Mailbox, StateStore, WriterLottery
from tests.agent.fakes import DictStore, job_of, running, with_members

CONTRACT = job_of().contract()


def arrival(state: JobState, node: str) -> ArrivalRequest:
    member = state.member(node)
    order = member.join_order if member else None
    if member:
        return ArrivalRequest(node, state.revision, state.round, order, "h", 1)
    digest = digest_of_contract(CONTRACT)
    return ArrivalRequest(
        node, state.revision, state.round, None, "h", 1, contract_digest=digest, contract=CONTRACT
    )


def test_what_is_written_is_read() -> None:
    requests: list[Request] = [
        arrival(JobState(1), "a"),
        arrival(with_members("b"), "b"),
        RankConfirmation("c", 4, 2),
    ]
    assert decode_requests(encode_requests(requests)) == [replace(requests[0], contract=None), *requests[1:]]
    assert decode_requests("") == []
    for text in ("{", "1", '[["other", "a"]]', '[["arrival", "a"]]', '["arrival"]', "[[]]"):
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
    contract = {**CONTRACT, "processes": 8}
    other = replace(arrival(first, "b"), contract=contract, contract_digest=digest_of_contract(contract))
    refused = other.grant(first)
    assert refused.outcome is not None
    assert refused.outcome.kind == "refused"
    trains = replace(running("a"), contract=CONTRACT)
    assert replace(other, contract=None).grant(trains) is trains, "its own node says so"
    assert replace(other, contract=None).grant(first) is first
    with pytest.raises(RefusedError, match="`processes` is null on a and 8 on b"):
        other.grant(trains)


def test_whoever_changes_the_state_grants_all_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastic.agent.state_store._FEWEST_SLOTS", 1)
    monkeypatch.setattr("elastic.agent.state_store._SLOTS_PER_PAGE", 0)
    store = DictStore()
    one, mailbox = StateStore(store, "job", "one", pages=9), Mailbox(store, "dsconfig/job/", 1)
    assert mailbox.grant_all(JobState(1)) == JobState(1), "nobody has left anything, or created the slots"
    one.create()
    before = one.read()
    assert mailbox.post(arrival(before, "two"), view_of(before, "two")) == 1
    view = one.ask(lambda _: arrival(before, "one"), lambda: None)
    assert view.own_row is not None
    state = one.read()
    assert sorted(member.node for member in state.members) == ["one", "two"]
    assert state.revision == 1, "one change for both"
    assert one.ask(lambda _: None, lambda: None) == view
    later = replace(state, round=1)
    mailbox.post(arrival(later, "three"), view_of(later, "three"))
    assert [one.node for one in decode_requests(store.data["dsconfig/job/mailbox/0"])] == ["three"], (
        "requests for an earlier round are swept out"
    )


def test_a_long_slot_is_swept_by_the_node_that_grants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastic.agent.state_store._LONG_SLOT", 2)
    store = DictStore()
    mailbox = Mailbox(store, "dsconfig/job/", 1)
    mailbox.create()
    state = replace(with_members("a"), contract=CONTRACT)
    posts = [mailbox.post(arrival(state, node), view_of(state, node)) for node in ("b", "c")]
    assert [member.node for member in mailbox.grant_all(state).members] == ["a", "b", "c"]
    posts.append(mailbox.post(arrival(state, "d"), view_of(state, "d")))
    assert posts == [1, 2, 3]
    assert [member.node for member in mailbox.grant_all(state).members] == ["a", "b", "c", "d"]
    assert store.data["dsconfig/job/mailbox/0"] == ""


@pytest.mark.parametrize("rivals", [1, 7, 2000])
def test_few_nodes_win_a_lottery_and_soon(rivals: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastic.agent.state_store.random", Random(rivals))
    lotteries = [WriterLottery() for _ in range(rivals)]
    winners = [sum(lottery.draw(rivals) for lottery in lotteries) for _ in range(4)]
    assert next(number for number in winners if number) <= 12
    last = [WriterLottery() for _ in range(3)]
    draws = [next(count for count in range(20) if lottery.draw(rivals)) for lottery in last]
    assert max(draws) <= 11, "whoever is left alone writes in the end, whatever number it assumes"
