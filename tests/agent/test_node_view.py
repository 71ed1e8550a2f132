"""A node's page says the same as the whole state, and is written, restored and refused as it should be."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from elastic.agent import job_state_transitions as transitions
from elastic.agent.errors import SettingsError
from elastic.agent.failure_detector import FormationDelay, HeartbeatSilence
from elastic.agent.job_state import Cause, JobState
from elastic.agent.join_requests import (
    ArrivalRequest,
    Departure,
    DrainNotice,
    FinishReport,
    RankConfirmation,
    Request,
)
from elastic.agent.node_view import (
    NodeView,
    decode_page,
    encode_pages,
    page_count,
    page_key_of_node,
    view_of,
)
from elastic.agent.state_store import StateStore
from tests.agent.fakes import DictStore, job_of, running

CONTRACT = {**job_of().contract(), "nnodes": "1:512"}
CAUSES: tuple[Cause | None, ...] = (None, "failure", "change")
NAMES = [f"gpu-{number}" for number in range(40)]


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elastic.agent.node_view.NODES_PER_PAGE", 64)


def histories(seed: int, steps: int) -> Iterator[JobState]:
    """States of a job to which everything happens that may happen, in any order."""
    random = Random(seed)
    state = JobState(1, contract=CONTRACT)
    for revision in range(1, steps):
        state = replace(_anything(state, random), revision=revision)
        yield state
    yield transitions.fail_job(state, NAMES[0], state.round, "because")


def _anything(state: JobState, random: Random) -> JobState:
    node = random.choice(NAMES[: random.choice((3, 40))])
    member = state.member(node)
    order, cleared = (member.join_order, member.cleared) if member else (0, 0)
    is_complete = state.phase == "forming" and state.members and all(one.arrived for one in state.members)
    size, port, cause = random.randint(1, len(state.members) or 1), random.randrange(3), random.choice(CAUSES)
    steps: dict[Callable[[], JobState], int] = {
        lambda: transitions.arrive_at_round(state, node, "h", port, cause): 9,
        lambda: _everybody(transitions.arrive_at_round, state, NAMES, "h", port): 1,
        lambda: transitions.remove_node(state, node, "lost", "gone"): 2,
        lambda: transitions.propose_group(state, size, None) if is_complete else state: 12,
        lambda: transitions.confirm_rank(state, node): 3,
        lambda: _everybody(transitions.confirm_rank, state, state.group): 3,
        lambda: transitions.finish_workers(state, node, state.round): 1,
        lambda: transitions.mark_member(state, HeartbeatSilence(node, order, 1, cleared)): 1,
        lambda: transitions.mark_member(state, FormationDelay(node, state.phase, state.round)): 1,
        lambda: transitions.clear_suspicion(state, node): 1,
        lambda: transitions.ask_to_leave(state, node): 1,
        lambda: transitions.commit_checkpoint(state, node, state.round, f"step-{port}"): 1,
    }
    return random.choices([*steps], [*steps.values()])[0]()


def _everybody(
    transition: Callable[..., JobState], state: JobState, nodes: Iterable[str], *rest: Any
) -> JobState:
    for node in nodes:
        state = transition(state, node, *rest)
    return state


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.usefixtures("small_pages")
def test_a_page_and_the_state_give_the_same_view(seed: int) -> None:
    pages = page_count(CONTRACT)
    assert pages == 8
    for state in histories(seed, 80):
        written = encode_pages(state)
        assert len(written) == pages
        for node in (*NAMES[::3], "stranger"):
            assert decode_page(written[page_key_of_node(node, pages)], node) == view_of(state, node)


def test_the_histories_reach_every_phase() -> None:
    phases = {state.phase for seed in range(4) for state in histories(seed, 80)}
    assert phases == {"forming", "proposed", "running", "closed"}


@pytest.mark.parametrize("seed", range(4))
def test_a_node_sees_whether_its_request_is_still_pending(seed: int) -> None:
    """What a node sees of its page decides as the state itself would."""
    random, requests, answers = Random(seed), list[Request](), set[bool]()
    for state in histories(seed, 100):
        node = random.choice(NAMES)
        member = state.member(node)
        order, digest = (None, state.contract_digest) if member is None else (member.join_order, "")
        requests = [
            *requests[-25:],
            ArrivalRequest(node, state.revision, state.round, order, "h", 1, contract_digest=digest),
            RankConfirmation(node, state.revision, state.round),
            FinishReport(node, state.revision, state.round),
            DrainNotice(node, state.revision, state.round, order or 0),
            Departure(node, state.revision, state.round, order or 0, "left"),
        ]
        for request in requests:
            answers.add(request.is_pending(view_of(state, request.node)))
            assert request.is_pending(view_of(state, request.node)) == (request.grant(state) is not state)
    assert answers == {True, False}


def test_every_member_of_a_small_ring_watches_all_others() -> None:
    state = replace(running("a", "b", "c"), contract=CONTRACT)
    pages = encode_pages(state)
    for node in ("a", "b", "c"):
        view = decode_page(pages[page_key_of_node(node, page_count(CONTRACT))], node)
        assert sorted(one.member.node for one in view.watched) == sorted({"a", "b", "c"} - {node})


def test_only_a_large_job_has_pages() -> None:
    counts = {
        nodes: page_count({"nnodes": nodes}) for nodes in ("1:127", "1:128", "64:2048", 7, "x", "1:", None)
    }
    assert counts == {"1:127": 0, "1:128": 8, "64:2048": 128, 7: 0, "x": 0, "1:": 0, None: 0}
    assert page_count({}) == 0
    assert encode_pages(running("a")) == {}


def _page_of(state: JobState, node: str) -> list[Any]:
    page: list[Any] = json.loads(encode_pages(state)[page_key_of_node(node, page_count(CONTRACT))])
    return page


@pytest.mark.parametrize("place", [(0, 0), (0, 3), (0, 4), (1, 0), (1, 1), (1, 5), (1, 8), (1, 12)])
@pytest.mark.parametrize("value", [{}, ["../../x"], 2.5])
def test_a_page_with_values_of_other_types_is_refused(place: tuple[int, int], value: object) -> None:
    page = _page_of(replace(running("a"), contract=CONTRACT), "a")
    assert decode_page(json.dumps(page), "a").own_row is not None
    part, number = place
    row = page[0] if part == 0 else page[1][0]
    row[number] = value
    with pytest.raises(ValueError, match="invalid page of a job"):
        decode_page(json.dumps(page), "a")


@pytest.mark.parametrize("text", ["", "1", "[]", "[[], []]", "z", "zAAAA", '{"a": 1}', "[" * 100_000])
def test_another_text_is_no_page(text: str) -> None:
    with pytest.raises(ValueError, match="invalid page of a job"):
        decode_page(text, "a")


def test_another_release_in_a_page_is_named() -> None:
    store = DictStore()
    connection = StateStore(store, "job", "a", pages=page_count(CONTRACT))
    assert connection.read_page() is None
    connection.create()
    connection.update(lambda state: replace(state, contract=CONTRACT))
    assert isinstance(connection.read_page(), NodeView)
    store.data.update(dict.fromkeys((key for key in store.data if "/page/" in key), "[[1], []]"))
    with pytest.raises(SettingsError, match="run the same release of dsconfig on every node"):
        connection.read_page()
