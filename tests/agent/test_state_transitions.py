"""The transitions of a job's state, without processes."""

from __future__ import annotations

import base64
import json
import zlib
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elastic.agent import job_state_transitions
from elastic.agent.failure_detector import FormationDelay, HeartbeatSilence
from elastic.agent.job_state import LONGEST, JobOutcome, JobState, decode_state
from tests.agent.fakes import job_of, running, with_members


def test_encoding_is_lossless() -> None:
    state = job_state_transitions.mark_member(running("a", "b", "c", size=2), HeartbeatSilence("b", 1, 7))
    state = job_state_transitions.close_job(state, "a", JobOutcome("failed", "why"))
    assert decode_state(state.encode()) == state
    with pytest.raises(ValueError, match="invalid state"):
        decode_state('{"group": 1}')


def test_many_nodes_are_packed() -> None:
    names = [f"gpu-{number}.cluster.example-{number * 7919}" for number in range(512)]
    state = job_state_transitions.remove_node(running(*names, size=500), names[7], "lost", "lost")
    text = state.encode()
    assert len(text) < 50 * 512
    assert decode_state(text) == decode_state(text.encode()) == state
    for other in (text[:-8], f"{text}AAAA", text.replace("z", "z*", 1), "z", f"z{text}"):
        with pytest.raises(ValueError, match="invalid state"):
            decode_state(other)
    bomb = base64.b64encode(zlib.compress(b" " * (LONGEST + 1))).decode()
    with pytest.raises(ValueError, match="too long"):
        decode_state(f"z{bomb}")


@pytest.mark.parametrize("place", [-1, 2, True, 0.5, None, []])
def test_a_place_that_no_member_has(place: object) -> None:
    read = json.loads(running("a", "b").encode())
    with pytest.raises(ValueError, match="invalid state"):
        decode_state(json.dumps(read | {"group": [place]}))


def test_a_round_from_arrival_to_success() -> None:
    state = running("a", "b", "c", size=2)
    assert (state.round, state.group, state.standby) == (1, ("a", "b"), ("c",))
    state = job_state_transitions.finish_workers(job_state_transitions.finish_workers(state, "a", 1), "b", 1)
    assert job_state_transitions.all_workers_finished(state, 1)
    assert not job_state_transitions.all_workers_finished(state, 2)


def test_only_worker_failures_are_counted() -> None:
    failed = job_state_transitions.arrive_at_round(running("a", "b"), "a", "host", 2, "failure")
    assert failed.phase == "forming"
    both = job_state_transitions.arrive_at_round(failed, "b", "host", 2, "failure")
    assert job_state_transitions.propose_group(both, 2, 3).restarts == 1
    lost = job_state_transitions.remove_node(failed, "b", "lost", "lost")
    assert job_state_transitions.propose_group(lost, 1, 3).restarts == 0
    joined = job_state_transitions.arrive_at_round(running("a"), "a", "host", 2, "change")
    assert job_state_transitions.propose_group(joined, 1, 3).restarts == 0
    too_late = job_state_transitions.arrive_at_round(failed, "b", "host", 2, "change")
    assert job_state_transitions.propose_group(too_late, 2, 3).restarts == 0, (
        "the workers of a failed of b's change"
    )
    followed = job_state_transitions.arrive_at_round(failed, "b", "host", 2)
    assert job_state_transitions.propose_group(followed, 2, 3).restarts == 1


def test_all_ranks_of_a_round_begin_with_the_same_checkpoint() -> None:
    state = job_state_transitions.commit_checkpoint(running("a", "b"), "a", 1, "one")
    state = job_state_transitions.propose_group(
        job_state_transitions.arrive_at_round(
            job_state_transitions.arrive_at_round(state, "a", "h", 2), "b", "h", 2
        ),
        2,
        3,
    )
    state = job_state_transitions.commit_checkpoint(state, "a", 2, "two")
    assert (state.start, state.latest) == ("one", "two")


def test_a_node_that_was_asked_to_leave() -> None:
    state = job_state_transitions.ask_to_leave(running("a", "b"), "b")
    assert state.leaving == ("b",)
    assert job_state_transitions.ask_to_leave(state, "b") is state
    assert job_state_transitions.ask_to_leave(state, "stranger") is state
    assert job_state_transitions.remove_node(state, "b", "change", "left").leaving == ()


def test_restarts_run_out() -> None:
    state = job_state_transitions.arrive_at_round(running("a"), "a", "host", 2, "failure")
    ended = job_state_transitions.propose_group(state, 1, 0)
    assert ended.outcome == JobOutcome("failed", "training failed on a: no restarts allowed")
    assert job_state_transitions.propose_group(state, 1, None).outcome is None


def test_a_proposal_is_only_running_when_all_confirm() -> None:
    state = job_state_transitions.propose_group(with_members("a", "b"), 2, 3)
    one_of_two = job_state_transitions.confirm_rank(state, "a")
    assert one_of_two.phase == "proposed"
    assert job_state_transitions.confirm_rank(one_of_two, "x") is one_of_two
    assert job_state_transitions.remove_node(one_of_two, "b", "lost", "lost").phase == "forming"


def test_only_the_newest_round_commits() -> None:
    state = job_state_transitions.commit_checkpoint(running("a", "b"), "a", 1, "one")
    assert (state.latest, state.commits) == ("one", 1)
    newer = job_state_transitions.propose_group(
        job_state_transitions.arrive_at_round(state, "a", "host", 3), 1, 3
    )
    assert job_state_transitions.commit_checkpoint(newer, "a", 1, "stale") is newer
    assert job_state_transitions.commit_checkpoint(state, "stranger", 1, "stale") is state


def test_survivors_keep_their_order() -> None:
    state = running("a", "b", "c")
    state = job_state_transitions.remove_node(state, "a", "lost", "lost")
    for name in ("c", "b", "d"):
        state = job_state_transitions.arrive_at_round(state, name, "host", 9)
    assert job_state_transitions.propose_group(state, 3, 3).group == ("b", "c", "d")


TRANSITIONS = st.sampled_from(
    ["arrive", "fail", "lose", "propose", "ack", "suspect", "expel", "leave", "commit"]
)


@given(st.lists(st.tuples(TRANSITIONS, st.sampled_from("abcd")), max_size=60))
def test_rounds_only_grow_and_groups_are_members(steps: list[tuple[str, str]]) -> None:
    job, state = job_of(), JobState(1)
    for name, node in steps:
        before = state
        if name == "propose":
            size = job.size(sum(member.arrived for member in state.members))
            state = (
                job_state_transitions.propose_group(state, size, None)
                if size and state.phase == "forming"
                else state
            )
        else:
            state = {
                "arrive": partial(job_state_transitions.arrive_at_round, node=node, host="h", port=1),
                "fail": partial(
                    job_state_transitions.arrive_at_round, node=node, host="h", port=2, cause="failure"
                ),
                "lose": partial(job_state_transitions.remove_node, node=node, cause="lost", text="lost"),
                "ack": partial(job_state_transitions.confirm_rank, node=node),
                "suspect": partial(job_state_transitions.mark_member, evidence=HeartbeatSilence(node, 1, 1)),
                "expel": partial(
                    job_state_transitions.mark_member, evidence=FormationDelay(node, state.phase, state.round)
                ),
                "leave": partial(job_state_transitions.ask_to_leave, node=node),
                "commit": partial(
                    job_state_transitions.commit_checkpoint, node=node, round_=state.round, checkpoint="c"
                ),
            }[name](state)
        assert state.round in (before.round, before.round + 1)
        if state.phase == "running":
            assert set(state.group) <= {member.node for member in state.members}
            assert len(state.group) in job.admissible()
        assert decode_state(state.encode()) == state


def test_a_job_ends_with_all_of_its_group_and_by_its_newest_round() -> None:
    state = running("a", "b")
    one_of_two = job_state_transitions.finish_workers(state, "a", 1)
    assert one_of_two.finishing
    assert job_state_transitions.succeed_job(one_of_two, "a", 1) is one_of_two
    assert job_state_transitions.finish_workers(one_of_two, "b", 2) is one_of_two
    done = job_state_transitions.succeed_job(job_state_transitions.finish_workers(one_of_two, "b", 1), "b", 1)
    assert done.outcome == JobOutcome("succeeded")
    newer = job_state_transitions.propose_group(
        job_state_transitions.arrive_at_round(state, "a", "host", 3), 1, 3
    )
    assert job_state_transitions.fail_job(newer, "b", 1, "why") is newer
    assert job_state_transitions.fail_job(newer, "a", 2, "why").outcome == JobOutcome("failed", "why")
