"""Wrong use of the agent's commands: one line and the right exit code, never a traceback."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Protocol

import pytest

from dsconfig.cli import main
from dsconfig.cli.elastic import arguments
from tests.agent.cluster import DSCONFIG, POWERS, ROOT, write_config
from tests.ports import free_port


@pytest.fixture
def config(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text("")
    return str(write_config(tmp_path, POWERS))


class Outcome(Protocol):
    def __call__(self, *arguments: str) -> tuple[int, str]: ...


@pytest.fixture
def outcome(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """Runs a verb in this process, which has torch loaded; exit code and the one line it leaves on stderr."""
    monkeypatch.setattr(arguments, "PATIENCE", 0.5)

    def run(*argv: str) -> tuple[int, str]:
        before = signals()
        code = main(["elastic", *argv])
        assert signals() == before
        complaint = capfd.readouterr().err
        assert len(complaint.splitlines()) == 1, complaint
        return code, complaint

    return run


def signals() -> tuple[object, ...]:
    """State that later tests in this process would inherit."""
    return (
        signal.pthread_sigmask(signal.SIG_BLOCK, ()),
        signal.getsignal(signal.SIGTERM),
        signal.getsignal(signal.SIGINT),
    )


def outcome_of_process(*argv: str) -> tuple[int, str]:
    """The same of a process: torch's own threads may still write after a connection has failed."""
    done = subprocess.run(
        [*DSCONFIG, "elastic", *argv], capture_output=True, text=True, timeout=60, cwd=ROOT, check=False
    )
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.returncode, done.stderr


def script(config: str) -> str:
    return str(Path(config).with_name("train.py"))


def test_unreachable_store(config: str) -> None:
    endpoint = f"127.0.0.1:{free_port()}"
    options = ["--nnodes", "1:2", "--no-host-store", "--rdzv-conf", "connect_timeout=1"]
    code, line = outcome_of_process("run", *options, "--rdzv-endpoint", endpoint, config, script(config))
    assert code == 4
    assert f"no store at {endpoint} after 1 s" in line


@pytest.mark.parametrize("verb", ["status", "drain"])
def test_unreachable_job(outcome: Outcome, verb: str) -> None:
    assert outcome(verb, "--rdzv-endpoint", f"127.0.0.1:{free_port()}")[0] == 4


def test_port_in_use(config: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        endpoint = f"127.0.0.1:{taken.getsockname()[1]}"
        # A process each: `store` blocks the signals that it waits for.
        code, line = outcome_of_process("store", "--listen", endpoint)
        assert (code, "already in use" in line) == (2, True)
        code, _ = outcome_of_process(
            "run", "--host-store", "--rdzv-endpoint", endpoint, config, script(config)
        )
        assert code == 2


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--rdzv-conf", "keep_alive_max_attempt=1"], 2, "is unsafe"),
        (["--rdzv-conf", "keep_alive=1"], 2, "expected KEY=VALUE with a key of join_timeout"),
        (["--nnodes", "4:1"], 2, "1 <= MIN <= MAX"),
        (["--nnodes", "two"], 2, "expected a number of nodes"),
        (["--nnodes", "1:2"], 2, "--rdzv-endpoint HOST:PORT is required"),
        (["--nnodes", "1:9999999"], 2, "--rdzv-endpoint HOST:PORT is required"),
        (["--rdzv-conf", "read_timeout=inf"], 2, "must be from 0 to"),
        (["--rdzv-endpoint", "host:port"], 2, "is not HOST:PORT"),
        (["--nnodes", "1:2", "--rdzv-endpoint", "http://host"], 2, "is not HOST:PORT or etcd://"),
        (["--nnodes", "1:2", "--rdzv-endpoint", "etcd://a", "--host-store"], 2, "does not apply to etcd"),
        (["--token", "/nowhere/token"], 2, "cannot read the token in /nowhere/token"),
        (["--token", "/dev/null"], 2, "has 0 characters; at least 16 are required"),
        (["--rdzv-endpoint", "a..b:1", "--rdzv-conf", "connect_timeout=0"], 4, "not a host name"),
        (["--monitor-interval", "-1"], 2, "--monitor-interval: invalid"),
        (["--max-restarts", "-1"], 2, "restarts must be at least 0"),
        (["--redirects", "5"], 2, "redirects `5`"),
        (["--event-log", "/nowhere/events"], 2, "cannot write the event log /nowhere/events: No such file"),
        (["--no-python"], 2, "does not exist"),
        (["--nnodes", "3", "--rdzv-endpoint", "h:1"], 3, "admits no number of nodes"),
    ],
)
def test_options(config: str, outcome: Outcome, options: list[str], code: int, message: str) -> None:
    ended, line = outcome("run", *options, config, script(config))
    assert (ended, message in line) == (code, True), line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rdzv-endpoint", "http://host"], "is not HOST:PORT or etcd://"),
        (["--rdzv-endpoint", "etcd://"], "endpoint `etcd://` is not etcd://HOST:PORT,..."),
        (["--rdzv-endpoint", "etcd://a:1,b:x"], "endpoint `etcd://a:1,b:x` is not etcd://HOST:PORT,..."),
        (["--rdzv-endpoint", "host:1", "--token", "/dev/null"], "has 0 characters; at least 16 are required"),
        (["--rdzv-endpoint", "etcd://host", "--host-store"], "does not apply to etcd"),
    ],
)
def test_a_dry_run_refuses_what_the_run_would(
    config: str, outcome: Outcome, options: list[str], message: str
) -> None:
    ended, line = outcome("run", "--dry-run", "--nnodes", "1:2", *options, config, script(config))
    assert (ended, message in line) == (2, True), line


def test_a_store_with_another_token(tmp_path: Path, config: str) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_text("of sixteen letters")
    theirs.write_text("of as many letters")
    endpoint = f"127.0.0.1:{free_port()}"
    command = [*DSCONFIG, "elastic", "store", "--listen", endpoint, "--token", str(ours)]
    store = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert store.stdout is not None
    try:
        assert "listening" in store.stdout.readline()
        for options in (["--token", str(theirs)], []):
            code, line = outcome_of_process("status", "--rdzv-endpoint", endpoint, *options)
            assert (code, f"no store at {endpoint}" in line) == (4, True)
        code, line = outcome_of_process("status", "--rdzv-endpoint", endpoint, "--token", str(ours))
        assert (code, "has no job `default`" in line) == (2, True)
    finally:
        store.terminate()
        assert store.communicate(timeout=20)[1] == ""


def test_an_open_store_says_so() -> None:
    command = [*DSCONFIG, "elastic", "store", "--listen", f"0.0.0.0:{free_port()}"]
    store = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    assert store.stdout is not None
    store.stdout.readline()
    store.terminate()
    warning = store.communicate(timeout=20)[1]
    assert "pass --token FILE here and on every node" in warning
    assert len(warning.splitlines()) == 1


def test_a_node_that_hosts_an_open_store_says_so_and_hides_its_secrets(tmp_path: Path, config: str) -> None:
    (tmp_path / "train.py").write_text(
        "import os, json, elastic, pathlib, time\n"
        "elastic.current()\n"
        "keepers = [p for p in pathlib.Path('/proc').glob('[0-9]*/cmdline') if b'lease_watchdog.py' in p.read_bytes()"
        " and int((p.parent / 'stat').read_text().rpartition(')')[2].split()[1]) == os.getpid()]\n"
        "assert keepers\n"
        "seen = json.dumps(dict(os.environ)) + ''.join((p.parent / 'environ').read_text() for p in keepers)\n"
        "assert 'of sixteen letters' not in seen and 'root:secret' not in seen\n"
    )
    warned = {}
    for secret in ("of sixteen letters", ""):
        environment = {**os.environ, "ETCDCTL_USER": "root:secret", "PYTHONPATH": str(ROOT)}
        environment |= {"DSCONFIG_ELASTIC_TOKEN": secret} if secret else {}
        port = free_port()
        words = ["--rdzv-endpoint", f"0.0.0.0:{port}", "--local-addr", "127.0.0.1", config]
        done = subprocess.run(
            [*DSCONFIG, "elastic", "run", *words, str(tmp_path / "train.py")],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=ROOT,
            env=environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        warned[secret] = f"warning: anyone who reaches 0.0.0.0:{port}" in done.stderr
    assert warned == {"of sixteen letters": False, "": True}


GARBAGE = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"\0" * 9999,
    b"\1" * 9999,
    b"\xff" * 9999,
    b"dsconfig-token 0",
    b"\n" * 9999,
)


@pytest.mark.parametrize("token", [None, "of sixteen letters"])
def test_garbage_and_idle_connections_do_a_store_no_harm(tmp_path: Path, token: str | None) -> None:
    endpoint, options = f"127.0.0.1:{free_port()}", list[str]()
    if token is not None:
        (tmp_path / "token").write_text(token)
        options = ["--token", str(tmp_path / "token")]
    command = [*DSCONFIG, "elastic", "store", "--listen", endpoint, *options]
    store = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    assert store.stdout is not None
    store.stdout.readline()
    host, _, port = endpoint.partition(":")
    idle = [socket.create_connection((host, int(port))) for _ in range(400)]
    for one, text in zip(idle, GARBAGE, strict=False):
        one.sendall(text)
    code, line = outcome_of_process("status", "--rdzv-endpoint", endpoint, *options)
    assert (code, "has no job" in line) == (2, True), line
    for one in idle:
        one.close()
    store.terminate()
    assert store.communicate(timeout=20)[0] == "", "not a word about them"


def test_an_event_log_that_is_a_pipe(tmp_path: Path, config: str, outcome: Outcome) -> None:
    os.mkfifo(tmp_path / "events")
    ended, line = outcome("run", "--event-log", str(tmp_path / "events"), config, script(config))
    assert (ended, "it is a pipe without a reader" in line) == (2, True), line


def test_unknown_nodes_cannot_be_drained(outcome: Outcome) -> None:
    assert outcome("drain")[0] == 2


def test_a_store_that_speaks_another_language() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        endpoint = f"127.0.0.1:{other.getsockname()[1]}"
        code, line = outcome_of_process("status", "--rdzv-endpoint", endpoint)
    assert (code, "no store at" in line) == (4, True)


def test_missing_files(config: str, outcome: Outcome) -> None:
    assert outcome("run", config)[0] == 2
    assert outcome("run", config, "nowhere.py")[1].endswith("`nowhere.py` does not exist\n")
    assert outcome("run", "nowhere.json", script(config))[0] == 2


def test_config_without_elasticity(tmp_path: Path, config: str, outcome: Outcome) -> None:
    plain = tmp_path / "plain.json"
    plain.write_text(json.dumps({"train_batch_size": 8}))
    code, line = outcome("run", str(plain), script(config))
    assert (code, "no `elasticity` block" in line) == (3, True)


def test_config_with_a_batch_of_its_own(tmp_path: Path, config: str, outcome: Outcome) -> None:
    both = tmp_path / "both.json"
    both.write_text(json.dumps({"elasticity": {"enabled": True, **POWERS}, "train_batch_size": 8}))
    code, line = outcome("run", str(both), script(config))
    assert (code, "`train_batch_size` and `elasticity` both set the batch" in line) == (3, True)


def test_a_scheduler_that_planned_otherwise(
    config: str, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEEPSPEED_ELASTICITY_CONFIG", json.dumps({**POWERS, "max_train_batch_size": 8}))
    code, line = outcome("run", config, script(config))
    assert (code, "the scheduler planned with `max_train_batch_size` 8" in line) == (3, True)


@pytest.mark.parametrize(
    ("version", "stub", "message"),
    [
        ("2.13.0", "raise ImportError(name='torch')", "needs torch: install"),
        ("2.13.0", "raise ImportError('libcudnn.so.9: cannot open')", "cannot be imported: libcudnn"),
        ("1.13.0", "", "torch 1.13.0 is too old for the elastic agent: install at least 2.6"),
        ("2.5.1+cpu", "", "torch 2.5.1+cpu is too old"),
    ],
)
def test_torch_missing_or_old(tmp_path: Path, config: str, version: str, stub: str, message: str) -> None:
    folder = tmp_path / "stub"
    folder.mkdir()
    (folder / "torch.py").write_text(stub)
    metadata = folder / f"torch-{version}.dist-info" / "METADATA"
    metadata.parent.mkdir()
    metadata.write_text(f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
    program = f"import sys; sys.path.insert(0, {str(folder)!r}); from dsconfig.cli import main; "
    program += f"sys.exit(main(['elastic', 'run', {config!r}, {script(config)!r}]))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, message in done.stderr) == (2, True), done.stderr


def test_dry_run_needs_no_torch(config: str) -> None:
    options = ["--nnodes", "1:4", "--rdzv-endpoint", "host:1", "--dry-run"]
    command = [*DSCONFIG, "elastic", "run", *options, config, script(config), "--epochs", "3"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert "-m elastic.worker" in done.stdout
    assert "3 nodes   2 train, 1 on standby" in done.stdout
    assert "16 = 4 x 1 x 4" in done.stdout


@pytest.mark.parametrize("command", ["run", "store"])
def test_a_system_without_posix_signals(command: str, config: str) -> None:
    program = (
        "import signal, sys; del signal.pthread_sigmask, signal.SIGKILL; from dsconfig.cli import main; "
    )
    words = ["elastic", command, *([config, script(config)] if command == "run" else [])]
    done = subprocess.run(
        [sys.executable, "-c", f"{program}sys.exit(main({words!r}))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, f"`dsconfig elastic {command}` needs Linux" in done.stderr) == (2, True), (
        done.stderr
    )
