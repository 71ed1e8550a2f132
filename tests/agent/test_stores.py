"""Every kind of store behaves alike; one with a token asks for it; etcd outlives its members."""

from __future__ import annotations

import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from elastic.agent import etcd_store, store_endpoint, token_store
from elastic.agent.errors import SettingsError, StoreLostError
from elastic.agent.etcd_store import EtcdStore
from elastic.agent.job_settings import RendezvousSettings
from elastic.agent.open_store import connect_store, host_store
from elastic.agent.state_store import Store
from elastic.agent.store_endpoint import StoreEndpoint, parse_endpoint
from elastic.agent.token_store import MAX_UNPROVEN, TokenStore, read_token
from tests.agent.etcd import Etcd

SETTINGS = RendezvousSettings(read_timeout=2, connect_timeout=5)
TOKEN = "of sixteen letters"
Connect = Callable[[], Store]


@pytest.fixture(params=["tcp", "token", "etcd"])
def connect(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Connect]:
    if request.param == "etcd":
        etcd = Etcd(tmp_path, members=1)
        endpoint = parse_endpoint(etcd.endpoint)
        yield lambda: connect_store(endpoint, SETTINGS)
        etcd.close()
        return
    token = TOKEN if request.param == "token" else None
    server = host_store(parse_endpoint("127.0.0.1:0", token=token), SETTINGS)
    reached = parse_endpoint(f"127.0.0.1:{server.port}", token=token)
    yield lambda: connect_store(reached, SETTINGS)


def test_the_few_calls(connect: Connect) -> None:
    store = connect()
    assert not store.check(["a"])
    assert store.compare_set("a", "", "one") == b"one"
    assert store.compare_set("a", "", "two") == b"one"
    assert store.compare_set("a", "no", "two") == b"one"
    assert store.compare_set("a", "one", "two") == b"two"
    store.set("b", "ü\n" * 1000)
    assert connect().multi_get(["b", "a"]) == ["ü\n".encode() * 1000, b"two"]
    assert store.check(["a", "b"])
    assert not store.check(["a", "c"])
    assert store.compare_set("c", "something", "x") == b"something", "as torch's answers for a missing key"
    assert not store.check(["c"])


def test_many_keys_in_one_call(connect: Connect) -> None:
    """More than one transaction of etcd may have."""
    store, keys = connect(), [f"page/300/{number}" for number in range(300)]
    assert not store.check(keys)
    store.multi_set(keys, [f"{key}\n" * 20 for key in keys])
    assert store.check(keys)
    assert not store.check([*keys, "missing"])
    store.multi_set(keys[:2], ["ü", ""])
    values = connect().multi_get(keys)
    assert values == ["ü".encode(), b"", *(f"{key}\n".encode() * 20 for key in keys[2:])]


def test_a_read_waits_for_the_key(connect: Connect) -> None:
    other = connect()
    threading.Timer(0.3, lambda: other.set("late", "now")).start()
    assert connect().get("late") == b"now"


def test_of_many_writers_one_wins(connect: Connect) -> None:
    connect().set("n", "0")

    def count() -> None:
        store = connect()
        for _ in range(20):
            while True:
                value = store.get("n").decode()
                wanted = f"{int(value.partition('-')[0]) + 1}-{threading.get_ident()}"
                if store.compare_set("n", value, wanted).decode() == wanted:
                    break

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert connect().get("n").startswith(b"80-")


@pytest.fixture
def guarded() -> StoreEndpoint:
    server = host_store(parse_endpoint("127.0.0.1:0", token=TOKEN), SETTINGS)
    return parse_endpoint(f"127.0.0.1:{server.port}", token=TOKEN)


@pytest.mark.parametrize("token", ["another of sixteen", TOKEN + " "])
def test_another_token(guarded: StoreEndpoint, token: str) -> None:
    with pytest.raises(StoreLostError, match="rejected the token"):
        connect_store(parse_endpoint(str(guarded), token=token), SETTINGS)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\0" * 100,
        b"00" * 16 + b"\n" + b'{"kind": "set", "keys": ["a"], "value": "b"}\n',
        b"x" * 70000,
    ],
)
def test_who_signs_nothing_is_not_heard(guarded: StoreEndpoint, data: bytes) -> None:
    connect_store(guarded, SETTINGS).set("a", "held")
    with socket.create_connection((guarded.host, guarded.port), timeout=10) as line:
        line.sendall(data)
        line.shutdown(socket.SHUT_WR)
        with line.makefile("rb") as file:
            heard = file.readlines()
    assert len(heard) == 1, "its number, and no reply"
    assert connect_store(guarded, SETTINGS).get("a") == b"held"


def test_what_was_heard_cannot_be_said_again(guarded: StoreEndpoint) -> None:
    """A relay that records a whole connection, and plays it to the store once more."""
    recorded: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as relay:
        relaying = threading.Thread(target=_record, args=(relay, guarded, recorded))
        relaying.start()
        through = StoreEndpoint((relay.getsockname(),), token=TOKEN)
        store = TokenStore(through.host, through.port, TOKEN, 5)
        store.set("a", "old")
        del store
        relaying.join()
    connect_store(guarded, SETTINGS).set("a", "new")
    with socket.create_connection((guarded.host, guarded.port), timeout=10) as line:
        line.sendall(b"".join(recorded))
        line.shutdown(socket.SHUT_WR)
        while line.recv(4096):
            pass
    assert b"old" in b"".join(recorded)
    assert connect_store(guarded, SETTINGS).get("a") == b"new"


def _record(relay: socket.socket, to: StoreEndpoint, recorded: list[bytes]) -> None:
    near, _ = relay.accept()
    with near, socket.create_connection((to.host, to.port)) as far:
        sockets = {near: far, far: near}
        while True:
            for one in select.select(list(sockets), [], [])[0]:
                data = one.recv(4096)
                if not data:
                    return
                sockets[one].sendall(data)
                recorded += [data] if one is near else []


def test_strangers_make_room(guarded: StoreEndpoint) -> None:
    """However many come, who knows the token is served, and none of them costs a thread for long."""
    connection = connect_store(guarded, SETTINGS)
    idle = [
        socket.create_connection((guarded.host, guarded.port), timeout=10) for _ in range(MAX_UNPROVEN + 50)
    ]
    connect_store(guarded, SETTINGS).set("a", "there")
    assert connection.get("a") == b"there"
    for one in idle[:50]:
        assert _all_heard(one).startswith(b"dsconfig-token "), "the oldest had to go"
    for one in idle:
        one.close()


def test_a_stranger_that_is_slow(guarded: StoreEndpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A byte now and then does not keep a connection."""
    monkeypatch.setattr(token_store, "_PATIENCE", 0.5)
    with socket.create_connection((guarded.host, guarded.port), timeout=10) as slow:
        slow.settimeout(0.1)
        hung_up = False
        while not hung_up:
            with suppress(TimeoutError):
                slow.sendall(b"x")
                hung_up = slow.recv(1000) == b""
    connect_store(guarded, SETTINGS).set("a", "there")


def _all_heard(line: socket.socket) -> bytes:
    with line.makefile("rb") as file:
        return file.read()


def test_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DSCONFIG_ELASTIC_TOKEN", raising=False)
    assert read_token(None) is None
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    assert read_token(str(file)) == TOKEN
    monkeypatch.setenv("DSCONFIG_ELASTIC_TOKEN", "short")
    with pytest.raises(SettingsError, match="has 5 characters; at least 16 are required"):
        read_token(None)
    with pytest.raises(SettingsError, match="cannot read the token"):
        read_token(str(tmp_path / "none"))
    with pytest.raises(SettingsError, match="users and certificates for etcd"):
        parse_endpoint("etcd://a", token=TOKEN)
    assert TOKEN not in repr(parse_endpoint("a", token=TOKEN))


def test_workers_do_not_inherit_the_secrets_of_the_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_endpoint, "_withheld", {})
    for name, value in (
        ("DSCONFIG_ELASTIC_TOKEN", TOKEN),
        ("ETCDCTL_USER", "a:b"),
        ("ETCDCTL_PASSWORD", "c"),
    ):
        monkeypatch.setenv(name, value)
    store_endpoint.withhold_secrets()
    program = "import os; print(sorted(name for name in os.environ if 'TOKEN' in name or 'ETCDCTL' in name))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    assert read_token(None) == TOKEN
    assert store_endpoint.read_secret("ETCDCTL_USER") == "a:b"


def test_etcd_without_one_of_its_members(tmp_path: Path) -> None:
    etcd = Etcd(tmp_path)
    try:
        store = connect_store(parse_endpoint(etcd.endpoint), RendezvousSettings())
        store.set("a", "0")
        leader = etcd.leader
        assert leader is not None
        for number, lose in enumerate((etcd.kill, etcd.freeze), start=1):
            lose(leader)
            assert store.compare_set("a", str(number - 1), str(number)) == str(number).encode()
            assert store.get("a") == str(number).encode()
            (etcd.start if lose == etcd.kill else etcd.wake)(leader)
            assert store.get("a") == str(number).encode()
    finally:
        etcd.close()


@pytest.mark.parametrize(
    "message",
    [
        *("<html>it works</html>", "", "[]", "null", '"x"', "7", "{}", "[" * 100000, "\xff"),
        *('{"responses": [3]}', '{"responses": {}}', '{"responses": [{"response_range": {"kvs": [7]}}]}'),
        '{"responses": [{"response_range": {"kvs": [{"value": "a"}]}}]}',
    ],
)
def test_something_else_at_the_address_of_etcd(message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Page(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Length", str(len(message)))
            self.end_headers()
            self.wfile.write(message.encode("latin-1"))

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    passing = SimpleNamespace(monotonic=count(step=10).__next__, sleep=lambda _: None)
    monkeypatch.setattr(etcd_store, "time", passing)
    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        threading.Thread(target=site.serve_forever, daemon=True).start()
        host, port = site.server_address[:2]
        calls: list[Callable[[EtcdStore], object]] = [
            lambda store: store.get("a"),
            lambda store: store.check(["a"]),
            lambda store: store.set("a", "b"),
            lambda store: store.compare_set("a", "b", "c"),
        ]
        for call in calls:
            with pytest.raises(OSError, match="the server is not etcd"):
                call(EtcdStore([(str(host), port)], 5))
        monkeypatch.setenv("ETCDCTL_USER", "a:b")
        with pytest.raises(OSError, match="the server is not etcd"):
            EtcdStore([(str(host), port)], 5)
        site.shutdown()


def test_etcd_that_is_not_there() -> None:
    with pytest.raises(StoreLostError, match=r"no store at 127\.0\.0\.1:1,127\.0\.0\.1:2 after 0 s"):
        connect_store(parse_endpoint("etcd://127.0.0.1:1,127.0.0.1:2"), SETTINGS, 0)


def test_a_reply_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever speaks at either store's address, no more of it is kept than a reply can have."""
    monkeypatch.setattr(etcd_store, "_LONGEST", 1 << 20)
    with socket.create_server(("127.0.0.1", 0)) as speaker:
        heard: list[int] = []
        speaking = threading.Thread(target=_speak_without_end, args=(speaker, heard))
        speaking.start()
        host, port = speaker.getsockname()
        with pytest.raises(OSError, match="the server is not etcd"):
            EtcdStore([(host, port)], 0.5).get("a")
        with pytest.raises(StoreLostError, match="rejected the token"):
            TokenStore(host, port, TOKEN, 5)
        speaker.shutdown(socket.SHUT_RDWR)
        speaking.join()
    assert len(heard) >= 2
    assert max(heard) < 1 << 25, "what the system has on its way, and what is read"


def _speak_without_end(speaker: socket.socket, heard: list[int]) -> None:
    """To each that comes, until it hangs up or no more come."""
    with suppress(OSError):
        while True:
            line, _ = speaker.accept()
            count = line.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n" + b"x" * 1000)
            with line, suppress(OSError):
                while count < 1 << 30:
                    count += line.send(b"x" * (1 << 16))
            heard.append(count)
