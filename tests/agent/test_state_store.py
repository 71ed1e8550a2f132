"""The state in its store, and how it is shown."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from elastic.agent import transitions
from elastic.agent.errors import StoreLostError
from elastic.agent.state import State
from elastic.agent.state_store import StateStore
from tests.agent.fakes import DictStore, job_of, running


def test_a_lost_compare_and_set_is_tried_again() -> None:
    store = DictStore()
    one, two = StateStore(store, "job", "one"), StateStore(store, "job", "two")
    one.create()
    two.create()

    def late(state: State) -> State:
        if state.next_join_order == 0:
            two.update(partial(transitions.arrive, node="two", host="h", port=2))
        return transitions.arrive(state, "one", "h", 1)

    assert [member.node for member in one.update(late).members] == ["two", "one"]
    assert one.read().revision == 2


def test_a_lost_store_is_one_line() -> None:
    store = DictStore()
    connection = StateStore(store, "job", "one")
    connection.create()
    store.down = True
    with pytest.raises(StoreLostError, match=r"does not answer: Broken pipe$"):
        connection.read()


def test_status_is_readable() -> None:
    from dsconfig.cli.elastic.status import lines

    state = transitions.commit(running("a", "b", "c", size=2), "a", 1, "step-5")
    shown = "\n".join(lines(replace(state, contract=job_of().contract())))
    for part in (
        "round        1",
        "restarts     0 of 3",
        "step-5 (1 commits)",
        "16 = 4 x 2 x 2",
        "rank 1",
        "standby",
    ):
        assert part in shown
    assert "round        0" in lines(State(1))[1]


def test_the_published_names_of_the_state_stay() -> None:
    from dsconfig.cli.elastic.status import published

    shown = published(replace(running("a"), contract=job_of().contract()))
    assert " ".join(shown) == (
        "incarnation revision writer contract round phase group acked members next_seat removed_at suspects "
        "expelled leaving broken restarts start latest commits changed_at outcome events"
    )
    assert " ".join(shown["members"][0]) == "node seat host port arrived finished alive"
    assert shown["contract"]["nproc-per-node"] == 1
