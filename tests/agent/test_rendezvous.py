"""The handler as torch's agents call it, newer and older ones; with a real store."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from torch.distributed.elastic.utils.store import barrier

from elastic.agent.drain_request import DrainRequest
from elastic.agent.errors import SettingsError
from elastic.agent.job_settings import RendezvousSettings
from elastic.agent.job_state import JobState
from elastic.agent.open_store import connect_store, host_store
from elastic.agent.rendezvous import PlanRendezvous
from elastic.agent.state_store import StateStore, Store
from elastic.agent.store_endpoint import is_local, parse_endpoint
from tests.agent.fakes import job_of
from tests.ports import free_port

SETTINGS = RendezvousSettings(last_call_timeout=0.1)


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlanRendezvous]:
    for name in [name for name in os.environ if name.startswith(("DSCONFIG_ELASTIC", "TORCH_ELASTIC"))]:
        monkeypatch.delenv(name)
    before = dict(os.environ)
    rendezvous = PlanRendezvous(
        job_of(), SETTINGS, parse_endpoint(f"127.0.0.1:{free_port()}"), "job", "dsconfig"
    )
    yield rendezvous
    rendezvous.leave()
    for name in set(os.environ) - set(before):
        del os.environ[name]


def store_of(handler: PlanRendezvous) -> Store:
    assert handler._server is not None
    return connect_store(parse_endpoint(f"127.0.0.1:{handler._server.port}"), SETTINGS)


def state_of(handler: PlanRendezvous) -> JobState:
    return StateStore(store_of(handler), "job", "test").read()


def test_success_is_what_the_exit_barrier_says(handler: PlanRendezvous) -> None:
    info = handler.next_rendezvous()
    assert (info.rank, info.world_size, os.environ["DSCONFIG_ELASTIC_ROUND"]) == (0, 1, "1")
    barrier(info.store, 2, "torchelastic/agent/terminal_state", 300)  # does not wait
    store = store_of(handler)
    assert handler.shutdown()
    outcome = StateStore(store, "job", "test").read().outcome
    assert outcome is not None
    assert outcome.kind == "succeeded"


def test_a_shutdown_after_failed_workers_is_a_failure(handler: PlanRendezvous) -> None:
    """torch 2.6 calls it so, without an exception."""
    handler.next_rendezvous()
    watching = state_of(handler)
    assert watching.outcome is None
    store = store_of(handler)
    handler.shutdown()
    outcome = StateStore(store, "job", "test").read().outcome
    assert outcome is not None
    assert outcome.kind == "failed"


def test_a_foreign_exception_is_not_taken_for_ours() -> None:
    try:
        raise KeyError("of the caller")
    except KeyError:
        rendezvous = PlanRendezvous(job_of(), SETTINGS, parse_endpoint("127.0.0.1:0"), "job", "dsconfig")
        info = rendezvous.next_rendezvous()
        barrier(info.store, 1, "torchelastic/agent/terminal_state", 300)
        store = store_of(rendezvous)
        rendezvous.shutdown()
    outcome = StateStore(store, "job", "test").read().outcome
    assert outcome is not None
    assert outcome.kind == "succeeded"


def test_the_second_sigterm_is_torchs() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        drain = DrainRequest()
        drain.listen()
        drain.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert (drain.requested, heard) == (True, [])
        drain.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("host", [("host", 29400)]),
        ("host:1", [("host", 1)]),
        ("[::1]:2", [("::1", 2)]),
        ("::1", [("::1", 29400)]),
        ("etcd://a,b:1,[::1]:2", [("a", 2379), ("b", 1), ("::1", 2)]),
    ],
)
def test_endpoints(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_endpoint(text).addresses == tuple(addresses)


@pytest.mark.parametrize("text", ["etcd://", "etcd://a,,b", "http://a", "a:b", "a:70000", "etcd://a/b:1"])
def test_no_endpoints(text: str) -> None:
    with pytest.raises(SettingsError, match=r"is not (etcd://)?HOST:PORT"):
        parse_endpoint(text)


def test_a_store_listens_where_it_is_told_and_nowhere_else() -> None:
    server = host_store(parse_endpoint("127.0.0.1:0"), SETTINGS)
    listening = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    listens = "0A"  # TCP_LISTEN in net/tcp_states.h
    lines = [line.split() for line in listening.splitlines()]
    addresses = [line[1] for line in lines if line[1].endswith(f":{server.port:04X}") and line[3] == listens]
    assert addresses == [f"0100007F:{server.port:04X}"]


def test_which_addresses_are_of_this_machine() -> None:
    assert is_local("127.0.0.1")
    assert not is_local("192.0.2.1")
    assert not is_local("a..b")
