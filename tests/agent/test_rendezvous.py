"""The handler as torch's agents call it, newer and older ones; with a real store."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import timedelta

import pytest

from elastic.agent.drain import Drain
from elastic.agent.endpoint import Endpoint, is_local, parse_endpoint
from elastic.agent.rendezvous import PlanRendezvous
from elastic.agent.settings import RendezvousSettings
from elastic.agent.state import State
from elastic.agent.state_store import StateStore
from elastic.agent.store import connect_store
from tests.agent.cluster import free_port
from tests.agent.fakes import job_of

SETTINGS = RendezvousSettings(last_call_timeout=0.1)


@pytest.fixture
def handler(monkeypatch: pytest.MonkeyPatch) -> Iterator[PlanRendezvous]:
    for name in [name for name in os.environ if name.startswith(("DSCONFIG_ELASTIC", "TORCH_ELASTIC"))]:
        monkeypatch.delenv(name)
    before = dict(os.environ)
    made = PlanRendezvous(job_of(), SETTINGS, Endpoint("127.0.0.1", free_port()), "job", "dsconfig")
    yield made
    made.leave()
    for name in set(os.environ) - set(before):
        del os.environ[name]


def state_of(handler: PlanRendezvous) -> State:
    assert handler._server is not None
    return StateStore(connect_store("127.0.0.1", handler._server.port, SETTINGS), "job", "test").read()


def test_success_is_what_the_exit_barrier_says(handler: PlanRendezvous) -> None:
    info = handler.next_rendezvous()
    assert (info.rank, info.world_size, os.environ["DSCONFIG_ELASTIC_ROUND"]) == (0, 1, "1")
    info.store.set_timeout(timedelta(seconds=300))  # as torch's barrier does, with its 300 s
    assert info.store.timeout < timedelta(seconds=60)
    store = connect_store("127.0.0.1", handler._server.port, SETTINGS)  # type: ignore[union-attr]
    assert handler.shutdown()
    outcome = StateStore(store, "job", "test").read().outcome
    assert outcome is not None
    assert outcome.kind == "succeeded"


def test_a_shutdown_after_failed_workers_is_a_failure(handler: PlanRendezvous) -> None:
    """torch 2.6 calls it so, without an exception."""
    handler.next_rendezvous()
    watching = state_of(handler)
    assert watching.outcome is None
    server = handler._server
    assert server is not None
    handler.shutdown()
    outcome = StateStore(server, "job", "test").read().outcome
    assert outcome is not None
    assert outcome.kind == "failed"


def test_a_foreign_exception_is_not_taken_for_ours() -> None:
    try:
        raise KeyError("of the caller")
    except KeyError:
        made = PlanRendezvous(job_of(), SETTINGS, Endpoint("127.0.0.1", 0), "job", "dsconfig")
        info = made.next_rendezvous()
        info.store.set_timeout(timedelta(seconds=300))
        server = made._server
        made.shutdown()
    assert server is not None
    outcome = StateStore(server, "job", "test").read().outcome
    assert outcome is not None
    assert outcome.kind == "succeeded"


def test_the_second_sigterm_is_torchs() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        drain = Drain()
        drain.listen()
        drain.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert (drain.asked, heard) == (True, [])
        drain.listen()
        os.kill(os.getpid(), signal.SIGTERM)
        assert heard == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(
    ("text", "endpoint"),
    [("host", ("host", 29400)), ("host:1", ("host", 1)), ("[::1]:2", ("::1", 2)), ("::1", ("::1", 29400))],
)
def test_endpoints(text: str, endpoint: tuple[str, int]) -> None:
    assert parse_endpoint(text) == endpoint


def test_which_addresses_are_of_this_machine() -> None:
    assert is_local("127.0.0.1")
    assert not is_local("192.0.2.1")
    assert not is_local("a..b")
