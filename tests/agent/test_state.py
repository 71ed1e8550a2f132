"""The agreed state and its transitions, without processes."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import elastic
from elastic.agent import transitions
from elastic.agent.contract import difference
from elastic.agent.errors import RefusedError, SettingsError, StoreLostError
from elastic.agent.evidence import Delay, Silence
from elastic.agent.failure_detector import WATCHED, FailureDetector, watched_by
from elastic.agent.job import Job
from elastic.agent.settings import RendezvousSettings, read_settings
from elastic.agent.state import Outcome, State, decode
from elastic.agent.state_store import StateStore
from elastic.worker.lease import Lease, lease_path, now
from tests.agent.cluster import POWERS


class DictStore:
    """A store in this process."""

    def __init__(self) -> None:
        self.data: dict[str, str] = {}
        self.down = False
        self._lock = threading.Lock()

    def set(self, key: str, value: str, /) -> None:
        self.data[key] = value

    def get(self, key: str, /) -> bytes:
        if self.down:
            raise RuntimeError("Broken pipe\nand a stack")
        return self.data[key].encode()

    def multi_get(self, keys: list[str], /) -> list[bytes]:
        return [self.get(key) for key in keys]

    def compare_set(self, key: str, expected: str, desired: str, /) -> bytes:
        with self._lock:
            if self.data.get(key, "") == expected:
                self.data[key] = desired
            return self.data.get(key, expected).encode()

    def check(self, keys: list[str], /) -> bool:
        return all(key in self.data for key in keys)


def job_of(policy: Any = "standby", nodes: tuple[int, int] = (1, 4), processes: int = 1) -> Job:
    config = {"elasticity": {"enabled": True, **POWERS}}
    return Job(config, elastic.plan(config), *nodes, processes, policy)


def with_members(*names: str) -> State:
    state = State(1)
    for name in names:
        state = transitions.arrive(state, name, "host", 1)
    return state


def running(*names: str, size: int | None = None) -> State:
    state = transitions.propose(with_members(*names), size or len(names), 3)
    for name in state.group:
        state = transitions.acknowledge(state, name)
    assert state.phase == "running"
    return state


def test_encoding_is_lossless() -> None:
    state = transitions.mark(running("a", "b", "c", size=2), Silence("b", 1, 7))
    state = transitions.close(state, "a", Outcome("failed", "why"))
    assert decode(state.encode()) == state
    with pytest.raises(ValueError, match="not the state"):
        decode('{"group": 1}')


def test_a_round_from_arrival_to_success() -> None:
    state = running("a", "b", "c", size=2)
    assert (state.round, state.group, state.standby) == (1, ("a", "b"), ("c",))
    state = transitions.finish(transitions.finish(state, "a", 1), "b", 1)
    assert transitions.all_finished(state, 1)
    assert not transitions.all_finished(state, 2)


def test_only_worker_failures_are_counted() -> None:
    failed = transitions.arrive(running("a", "b"), "a", "host", 2, "failure")
    assert failed.phase == "forming"
    both = transitions.arrive(failed, "b", "host", 2, "failure")
    assert transitions.propose(both, 2, 3).restarts == 1
    lost = transitions.remove(failed, "b", "lost", "lost")
    assert transitions.propose(lost, 1, 3).restarts == 0
    joined = transitions.arrive(running("a"), "a", "host", 2, "change")
    assert transitions.propose(joined, 1, 3).restarts == 0
    too_late = transitions.arrive(failed, "b", "host", 2, "change")
    assert transitions.propose(too_late, 2, 3).restarts == 0, "the workers of a failed of b's change"
    followed = transitions.arrive(failed, "b", "host", 2)
    assert transitions.propose(followed, 2, 3).restarts == 1


def test_all_ranks_of_a_round_begin_with_the_same_checkpoint() -> None:
    state = transitions.commit(running("a", "b"), "a", 1, "one")
    state = transitions.propose(transitions.arrive(transitions.arrive(state, "a", "h", 2), "b", "h", 2), 2, 3)
    state = transitions.commit(state, "a", 2, "two")
    assert (state.start, state.latest) == ("one", "two")


def test_a_node_that_was_asked_to_leave() -> None:
    state = transitions.ask_to_leave(running("a", "b"), "b")
    assert state.leaving == ("b",)
    assert transitions.ask_to_leave(state, "b") is state
    assert transitions.ask_to_leave(state, "stranger") is state
    assert transitions.remove(state, "b", "change", "left").leaving == ()


def test_restarts_run_out() -> None:
    state = transitions.arrive(running("a"), "a", "host", 2, "failure")
    ended = transitions.propose(state, 1, 0)
    assert ended.outcome == Outcome("failed", "training failed on a: no restarts allowed")
    assert transitions.propose(state, 1, None).outcome is None


def test_a_proposal_is_only_running_when_all_confirm() -> None:
    state = transitions.propose(with_members("a", "b"), 2, 3)
    one_of_two = transitions.acknowledge(state, "a")
    assert one_of_two.phase == "proposed"
    assert transitions.acknowledge(one_of_two, "x") is one_of_two
    assert transitions.remove(one_of_two, "b", "lost", "lost").phase == "forming"


def test_only_the_newest_round_commits() -> None:
    state = transitions.commit(running("a", "b"), "a", 1, "one")
    assert (state.latest, state.commits) == ("one", 1)
    newer = transitions.propose(transitions.arrive(state, "a", "host", 3), 1, 3)
    assert transitions.commit(newer, "a", 1, "stale") is newer
    assert transitions.commit(state, "stranger", 1, "stale") is state


def test_survivors_keep_their_order() -> None:
    state = running("a", "b", "c")
    state = transitions.remove(state, "a", "lost", "lost")
    for name in ("c", "b", "d"):
        state = transitions.arrive(state, name, "host", 9)
    assert transitions.propose(state, 3, 3).group == ("b", "c", "d")


TRANSITIONS = st.sampled_from(
    ["arrive", "fail", "lose", "propose", "ack", "suspect", "expel", "leave", "commit"]
)


@given(st.lists(st.tuples(TRANSITIONS, st.sampled_from("abcd")), max_size=60))
def test_rounds_only_grow_and_groups_are_members(steps: list[tuple[str, str]]) -> None:
    job, state = job_of(), State(1)
    for name, node in steps:
        before = state
        if name == "propose":
            size = job.size(sum(member.arrived for member in state.members))
            state = transitions.propose(state, size, None) if size and state.phase == "forming" else state
        else:
            state = {
                "arrive": partial(transitions.arrive, node=node, host="h", port=1),
                "fail": partial(transitions.arrive, node=node, host="h", port=2, cause="failure"),
                "lose": partial(transitions.remove, node=node, cause="lost", text="lost"),
                "ack": partial(transitions.acknowledge, node=node),
                "suspect": partial(transitions.mark, evidence=Silence(node, 1, 1)),
                "expel": partial(transitions.mark, evidence=Delay(node, state.phase, state.round)),
                "leave": partial(transitions.ask_to_leave, node=node),
                "commit": partial(transitions.commit, node=node, round_=state.round, checkpoint="c"),
            }[name](state)
        assert state.round in (before.round, before.round + 1)
        if state.phase == "running":
            assert set(state.group) <= {member.node for member in state.members}
            assert len(state.group) in job.admissible()
        assert decode(state.encode()) == state


@pytest.mark.parametrize(
    ("policy", "present", "size"),
    [
        ("standby", 3, 2),
        ("standby", 4, 4),
        ("standby", 9, 4),
        ("wait", 3, None),
        ("wait", 2, 2),
        ("fail", 1, 1),
    ],
)
def test_policies(policy: str, present: int, size: int | None) -> None:
    assert job_of(policy).size(present) == size


def test_policy_fail_says_why() -> None:
    with pytest.raises(RefusedError, match=r"3 nodes are not admissible: .*nearest: 2 or 4"):
        job_of("fail").size(3)


def test_below_the_minimum_nobody_trains() -> None:
    assert job_of(nodes=(2, 4)).size(1) is None


def test_a_job_that_can_never_train_is_refused() -> None:
    with pytest.raises(RefusedError, match="admits no number of nodes from 3 to 3"):
        job_of(nodes=(3, 3))
    with pytest.raises(SettingsError, match="expected one of standby, wait, fail"):
        job_of("stand-by")


def test_contracts_differ_in_the_same_words_everywhere() -> None:
    ours, theirs = job_of().contract(), job_of(processes=2).contract()
    text = difference(theirs, ours, "a", "b")
    assert text is not None
    assert "`nproc-per-node` is 2 on a and 1 on b" in text
    assert difference(ours, dict(ours), "a", "b") is None


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"keep_alive_max_attempt": "2"}, "give at least 3"),
        ({"keep_alive_interval": "0.1"}, "is unsafe"),
        ({"join_timeout": "1"}, "no group could form"),
        ({"join_timeout": "soon"}, "must be a number"),
        ({"keep_alive_interval": "0.1", "keep_alive_max_attempt": "99"}, "too little time to end"),
        ({"last_call_timeout": "-1"}, "must be from 0"),
        ({"last_call_timeout": "nan"}, "must be from 0"),
        ({"read_timeout": "inf"}, "must be from 0"),
    ],
)
def test_unsafe_settings_are_refused(given_: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read_settings(given_)


def test_workers_stop_before_their_node_counts_as_lost() -> None:
    settings = RendezvousSettings()
    assert settings.lease_duration + settings.keep_alive_interval == settings.heartbeat_timeout


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
        "incarnation revision writer contract round phase group acked members next_seat suspects expelled "
        "leaving broken restarts start latest commits changed_at outcome events"
    )
    assert " ".join(shown["members"][0]) == "node seat host port arrived finished alive"
    assert shown["contract"]["nproc-per-node"] == 1


def test_old_evidence_neither_marks_nor_removes() -> None:
    """Two observers that were frozen between looking and writing, and a node that has shown itself since."""
    old, fresh = Silence("b", 1, 4), Silence("b", 1, 5)
    state = transitions.mark(running("a", "b"), old)
    assert state.suspects == ("b",)
    state = transitions.clear_suspicion(state, "b", 5)
    assert transitions.mark(state, old) is state
    again = transitions.mark(state, fresh)
    assert again.suspects == ("b",)
    assert transitions.remove_marked(again, old) is again
    gone = transitions.remove_marked(again, fresh)
    assert gone.member("b") is None
    assert transitions.remove_marked(state, fresh) is state, "not marked"
    back = transitions.arrive(gone, "b", "host", 1)
    assert transitions.mark(back, fresh) is back, "of its former membership"


def test_who_comes_late_but_comes_stays() -> None:
    state = transitions.arrive(running("a", "b"), "a", "host", 2)
    delay = Delay("b", "forming", 1)
    late = transitions.mark(state, delay)
    assert transitions.remove_marked(late, delay).member("b") is None
    came = transitions.arrive(late, "b", "host", 2)
    assert came.expelled == ()
    assert transitions.mark(came, delay) is came
    assert transitions.remove_marked(came, delay) is came
    proposed = transitions.mark(transitions.propose(came, 2, 3), Delay("b", "proposed", 2))
    assert proposed.expelled == ("b",)
    assert transitions.remove_marked(proposed, delay) is proposed, "of another round"
    assert transitions.acknowledge(proposed, "b").expelled == ()


def test_a_job_ends_with_all_of_its_group_and_by_its_newest_round() -> None:
    state = running("a", "b")
    one_of_two = transitions.finish(state, "a", 1)
    assert one_of_two.finishing
    assert transitions.succeed(one_of_two, "a", 1) is one_of_two
    assert transitions.finish(one_of_two, "b", 2) is one_of_two
    done = transitions.succeed(transitions.finish(one_of_two, "b", 1), "b", 1)
    assert done.outcome == Outcome("succeeded")
    newer = transitions.propose(transitions.arrive(state, "a", "host", 3), 1, 3)
    assert transitions.fail(newer, "b", 1, "why") is newer
    assert transitions.fail(newer, "a", 2, "why").outcome == Outcome("failed", "why")


def test_an_ended_lease_can_be_asked_and_is_not_renewed(tmp_path: Path) -> None:
    """The heartbeat may still hold it when the round ends."""
    path = lease_path(str(tmp_path), 1)
    mine = Lease(path, create=True)
    mine.renew(now() + 60)
    theirs = Lease(path)
    assert theirs.remaining() > 0
    mine.end()
    mine.renew(now() + 60)
    mine.ask_for_checkpoint(True)
    assert mine.remaining() < 0
    assert (mine.revoked, theirs.revoked, theirs.checkpoint_wanted) == (True, True, False)


def test_every_member_is_watched() -> None:
    names = [f"n{i}" for i in range(9)]
    state = with_members(*names)
    assert {member.node for name in names for member in watched_by(state, name)} == set(names)
    assert all(len(watched_by(state, name)) == WATCHED for name in names)
    assert watched_by(state, "stranger") == []


def test_own_freeze_says_nothing_of_others() -> None:
    now = 0.0
    detector = FailureDetector(longest_step=0.5, clock=lambda: now)
    state = with_members("a", "b")
    for moment in (0.0, 0.25, 100.0):
        now = moment
        detector.observe(state, watched_by(state, "a"), {"b": 7})
    assert detector.silent(1.0) == []
    for _ in range(4):
        now += 0.25
        detector.observe(state, watched_by(state, "a"), {"b": 7})
    assert detector.silent(1.0) == [Silence("b", 1, 7)]
    detector.observe(state, watched_by(state, "a"), {"b": 8})
    assert detector.silent(0.1) == []


def test_the_late_are_those_for_whom_a_round_waits() -> None:
    now = 0.0
    detector = FailureDetector(longest_step=0.5, clock=lambda: now)
    state = transitions.arrive(running("a", "b"), "a", "host", 5)
    for _ in range(5):
        detector.observe(state, watched_by(state, "a"), {"b": 7})
        now += 0.25
    assert detector.late(1.0) == [Delay("b", "forming", 1)]
    detector.observe(replace(state, round=9), watched_by(state, "a"), {"b": 7})
    assert detector.late(1.0) == []
