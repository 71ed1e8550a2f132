"""A node learns of its mark before it renews its lease, whatever else it has not read."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from elastic.agent import job_state_transitions
from elastic.agent.failure_detector import HeartbeatSilence
from elastic.agent.heartbeat import Heartbeat
from elastic.agent.job_settings import RendezvousSettings
from elastic.agent.join_requests import agree_on_contract
from elastic.agent.node_view import page_count
from elastic.agent.resize_policy import ResizePolicy
from elastic.agent.state_store import StateStore
from elastic.worker.worker_lease import Lease
from tests.agent.fakes import DictStore, job_of

SETTINGS = RendezvousSettings()


@pytest.mark.parametrize("alarmed", [False, True])
def test_an_alarm_is_heard_in_a_large_job_without_any_hint(
    alarmed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = 100.0
    for module in ("agent.heartbeat", "worker.worker_lease"):
        monkeypatch.setattr(f"elastic.{module}.lease_clock", lambda: clock)
    monkeypatch.setattr("elastic.agent.node_view.CROWD", 2)
    monkeypatch.setattr(Heartbeat, "_is_chosen_to_restore", lambda *_: False)
    contract = job_of().contract()
    pages = page_count(contract)
    store = DictStore()
    ours, theirs = (StateStore(store, "job", name, pages=pages) for name in ("a", "b"))
    theirs.create()
    theirs.update(partial(agree_on_contract, node="b", contract=contract))
    for node in ("a", "b"):
        theirs.update(partial(job_state_transitions.arrive_at_round, node=node, host="h", port=1))
    theirs.send_heartbeat(1)
    heartbeat = Heartbeat(ours, "a", SETTINGS, ResizePolicy(job_of(), SETTINGS))
    lease = Lease(str(tmp_path / "lease"), create=True)
    heartbeat._send()
    heartbeat.grant(lease)
    heartbeat._tick()
    assert lease.remaining() == SETTINGS.lease_duration
    monkeypatch.setattr(StateStore, "publish", lambda *_: None)
    theirs.update(partial(job_state_transitions.mark_member, evidence=HeartbeatSilence("a", 0, 1)))
    if alarmed:
        theirs.alarm("a")
    clock += 1
    heartbeat._tick()
    state = theirs.read()
    if alarmed:
        assert (state.suspects, lease.remaining()) == ((), SETTINGS.lease_duration - 1), (
            "cleared, not renewed"
        )
        assert state.members[0].cleared == 1
    else:
        assert state.suspects == ("a",), "or this test shows nothing"
    clock += 0.2
    heartbeat._tick()
    assert lease.remaining() == pytest.approx(SETTINGS.lease_duration - 0.2)
