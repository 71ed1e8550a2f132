"""The state in its store, and how it is shown."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest

from elastic.agent import job_state_transitions
from elastic.agent.errors import StoreLostError, TrainingFailedError, raise_if_failed
from elastic.agent.job_state import JobEvent, JobOutcome, JobState, decode_state
from elastic.agent.state_store import StateStore
from tests.agent.fakes import DictStore, job_of, running


def test_a_lost_compare_and_set_is_tried_again() -> None:
    store = DictStore()
    one, two = StateStore(store, "job", "one"), StateStore(store, "job", "two")
    one.create()
    two.create()

    def late(state: JobState) -> JobState:
        if state.next_join_order == 0:
            two.update(partial(job_state_transitions.arrive_at_round, node="two", host="h", port=2))
        return job_state_transitions.arrive_at_round(state, "one", "h", 1)

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
    from dsconfig.cli.elastic.status import state_as_text

    state = job_state_transitions.commit_checkpoint(running("a", "b", "c", size=2), "a", 1, "step-5")
    output = "\n".join(state_as_text(replace(state, contract=job_of().contract())))
    for part in (
        "round        1",
        "restarts     0 of 3",
        "step-5 (1 commits)",
        "16 = 4 x 2 x 2",
        "rank 1",
        "standby",
    ):
        assert part in output
    assert "round        0" in state_as_text(JobState(1))[1]


def test_the_published_names_of_the_state_stay() -> None:
    from dsconfig.cli.elastic.status import state_as_json

    output = state_as_json(replace(running("a"), contract=job_of().contract()))
    assert " ".join(output) == (
        "incarnation revision writer contract round phase group acked members next_seat removed_at suspects "
        "expelled leaving broken restarts start latest commits changed_at outcome events"
    )
    assert " ".join(output["members"][0]) == "node seat host port liveness_port arrived finished alive"
    assert output["contract"]["nproc-per-node"] == 1


ESCAPES = "\x1b]0;owned\x07\x1b[2J\r\u202e"


def test_status_writes_out_what_would_act_on_a_terminal() -> None:
    from dsconfig.cli.elastic.status import state_as_text

    state = running(f"a{ESCAPES}", "b", size=2)
    event = JobEvent(1.0, f"c{ESCAPES}", f"joined{ESCAPES}")
    members = (replace(state.members[0], host=f"h{ESCAPES}"), *state.members[1:])
    output = "\n".join(
        state_as_text(
            replace(state, contract=job_of().contract(), members=members, events=(event,), latest=ESCAPES)
        )
    )
    assert output.replace("\n", "").isprintable()
    assert r"a\x1b]0;owned" in output


def test_errors_of_the_agent_write_out_what_other_nodes_say() -> None:
    state = replace(JobState(1), outcome=JobOutcome("failed", f"because{ESCAPES}"))
    with pytest.raises(TrainingFailedError) as raised:
        raise_if_failed(state)
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    "field",
    [
        {"round": "../../x"},
        {"incarnation": "../../x"},
        {"restarts": "1"},
        {"start": 3},
        {"latest": ["a"]},
        {"phase": "other"},
        {"suspects": [3]},
        {"members": [["a", 0, "h", "port", True, 0, 0]]},
        {"events": [["now", "a", "joined"]]},
        {"contract": []},
    ],
    ids=lambda field: next(iter(field)),
)
def test_a_state_with_fields_of_other_types_is_refused(field: dict[str, object]) -> None:
    encoded = json.loads(JobState(1).encode())
    assert decode_state(json.dumps(encoded)) == JobState(1)
    with pytest.raises(ValueError, match="invalid state of a job"):
        decode_state(json.dumps(encoded | field))
