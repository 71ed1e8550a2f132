"""etcd that asks clients for a certificate and for a user: real certificates of a small authority."""

from __future__ import annotations

import json
import ssl
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from elastic.agent.errors import SettingsError, StoreLostError
from elastic.agent.etcd_store import EtcdStore
from elastic.agent.job_settings import RendezvousSettings
from elastic.agent.open_store import connect_store
from elastic.agent.state_store import Store
from elastic.agent.store_endpoint import parse_endpoint
from tests.agent.cluster import wait_until
from tests.agent.conftest import MakeCluster
from tests.agent.etcd import Etcd

SETTINGS = RendezvousSettings(read_timeout=2, connect_timeout=5)
PASSWORD = "correct horse"
TTL = 2
"""Seconds for which etcd knows a user that has logged in; etcd itself looks at it once a second."""


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


def make_certificate(folder: Path, name: str, authority: str | None = "authority", field: str = "O") -> None:
    """`NAME.pem` and `NAME.key`, signed by the authority, or one that signs itself.

    With a common name (field `CN`) etcd's gateway lets no client in once there are users.
    """
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"]
    if authority is None:
        openssl(
            folder, "req", "-x509", *key, "-subj", f"/{field}={name}", "-days", "2", "-out", f"{name}.pem"
        )
        return
    openssl(folder, "req", *key, "-subj", f"/{field}={name}", "-out", f"{name}.csr")
    (folder / "where").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ["-CA", f"{authority}.pem", "-CAkey", f"{authority}.key", "-CAcreateserial", "-days", "2"]
    openssl(folder, "x509", "-req", "-in", f"{name}.csr", *signed, "-extfile", "where", "-out", f"{name}.pem")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With an authority, what it signed for etcd and its clients, and the variables of etcdctl."""
    for name in ("authority", "stranger"):
        make_certificate(tmp_path, name, authority=None)
    for name in ("server", "client"):
        make_certificate(tmp_path, name)
    make_certificate(tmp_path, "named", field="CN")
    monkeypatch.setenv("ETCDCTL_CACERT", str(tmp_path / "authority.pem"))
    monkeypatch.setenv("ETCDCTL_CERT", str(tmp_path / "client.pem"))
    monkeypatch.setenv("ETCDCTL_KEY", str(tmp_path / "client.key"))
    return tmp_path


@pytest.fixture
def etcd(folder: Path) -> Iterator[Etcd]:
    """Three members that let nobody in without a certificate of the authority, and know one user."""
    options = ["--client-cert-auth", "--trusted-ca-file", "authority.pem"]
    options += ["--cert-file", "server.pem", "--key-file", "server.key", "--auth-token-ttl", str(TTL)]
    paths = [str(folder / one) if one.endswith((".pem", ".key")) else one for one in options]
    server = Etcd(folder, options=paths, secure=True)
    try:
        for path, request in (
            ("role/add", {"name": "root"}),
            ("user/add", {"name": "root", "password": PASSWORD}),
            ("user/grant", {"user": "root", "role": "root"}),
            ("enable", {}),
        ):
            _order(server, folder, f"auth/{path}", request)
        yield server
    finally:
        server.close()


def _order(etcd: Etcd, folder: Path, path: str, request: dict[str, str]) -> None:
    host, port = etcd.addresses[0]
    context = ssl.create_default_context(cafile=folder / "authority.pem")
    context.load_cert_chain(folder / "client.pem", folder / "client.key")
    http_request = Request(f"https://{host}:{port}/v3/{path}", json.dumps(request).encode())
    with urlopen(http_request, timeout=20, context=context) as answer:
        answer.read()


def connect(etcd: Etcd) -> Store:
    return connect_store(parse_endpoint(etcd.endpoint), SETTINGS)


def test_who_knows_the_password(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCDCTL_USER", f"root:{PASSWORD}")
    store = connect_store(parse_endpoint(etcd.endpoint), RendezvousSettings())
    store.set("a", "1")
    time.sleep(2 * TTL + 1)
    assert store.get("a") == b"1", "it logs in again where its login has expired"
    leader = etcd.leader
    assert leader is not None
    etcd.kill(leader)
    assert store.compare_set("a", "1", "2") == b"2"


def test_a_login_that_nobody_answered_is_tried_again(etcd: Etcd, monkeypatch: pytest.MonkeyPatch) -> None:
    """As between two leaders: without the old login, etcd would take the next call for one of nobody's."""
    monkeypatch.setenv("ETCDCTL_USER", f"root:{PASSWORD}")
    store = EtcdStore(etcd.addresses, 2, secure=True)
    store.set("a", "1")
    for number in range(3):
        etcd.kill(number)
    with pytest.raises(OSError, match="no etcd member of"):
        store._log_in()
    for number in range(3):
        etcd.start(number)
    wait_until(lambda: etcd.leader is not None, 30, "etcd has a leader")
    assert store.get("a") == b"1"


@pytest.mark.parametrize("user", [None, "root:wrong", f"nobody:{PASSWORD}"])
def test_who_does_not(etcd: Etcd, monkeypatch: pytest.MonkeyPatch, user: str | None) -> None:
    monkeypatch.delenv("ETCDCTL_USER", raising=False)
    if user is not None:
        monkeypatch.setenv("ETCDCTL_USER", user)
    with pytest.raises(
        SettingsError,
        match=r"etcd rejects the request: .*(permission denied|user name is empty|authentication failed)",
    ):
        connect(etcd).set("a", "1")


@pytest.mark.parametrize(
    ("variable", "file", "message"),
    [
        ("ETCDCTL_CACERT", "stranger.pem", "CERTIFICATE_VERIFY_FAILED"),
        ("ETCDCTL_CERT", None, r"\(ETCDCTL_CERT is not set\)"),
    ],
)
def test_who_has_no_certificate(
    etcd: Etcd, folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str, file: str | None, message: str
) -> None:
    monkeypatch.setenv("ETCDCTL_USER", f"root:{PASSWORD}")
    if file is None:
        monkeypatch.delenv(variable)
    else:
        monkeypatch.setenv(variable, str(folder / file))
    with pytest.raises(StoreLostError, match=message):
        connect(etcd)


def test_a_common_name(etcd: Etcd, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCDCTL_USER", f"root:{PASSWORD}")
    monkeypatch.setenv("ETCDCTL_CERT", str(folder / "named.pem"))
    monkeypatch.setenv("ETCDCTL_KEY", str(folder / "named.key"))
    with pytest.raises(SettingsError, match="etcd rejects the request: CommonName of client"):
        connect(etcd)


def test_files_that_are_not_there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ETCDCTL_CERT", str(folder / "none.pem"))
    with pytest.raises(SettingsError, match=r"cannot read the certificates .*none\.pem"):
        EtcdStore([("127.0.0.1", 1)], 1, secure=True)


def test_etcd_with_certificates_and_users(
    cluster: MakeCluster, etcd: Etcd, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A whole job, longer than a login lasts."""
    monkeypatch.setenv("ETCDCTL_USER", f"root:{PASSWORD}")
    job = cluster()
    job.endpoint = etcd.endpoint
    for _ in range(2):
        job.start_node()
    job.wait_for_step(30, world=2)
    leader = etcd.leader
    assert leader is not None
    etcd.kill(leader)
    step = max(row["step"] for row in job.rows() if row["event"] == "step")
    job.wait_for_step(step + 20, world=2)
    assert job.status()["outcome"] is None
    assert job.finish() == [0, 0]
    job.assert_clean(batch=16)
