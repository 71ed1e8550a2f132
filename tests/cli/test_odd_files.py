"""Paths that are not regular files: each ends in one clear line at once, and does not stop other files."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from .conftest import CLEAN, UNKNOWN, Runs, Spawns

COMMAND = str(Path(sys.executable).parent / "dsconfig")
TARGET = ("--target", "0.19.8")


def socket_at(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)


ODD: dict[str, tuple[Callable[[str], object], str]] = {
    "a link to itself": (lambda name: os.symlink(name, name), "too many levels of symbolic links"),
    "a link to nothing": (lambda name: os.symlink("no", name), "is a link to a file that does not exist"),
    "a pipe": (os.mkfifo, "is a pipe, not a file"),
    "a socket": (socket_at, "is a socket, not a file"),
    "an endless device": (lambda name: os.symlink("/dev/zero", name), "is a device, not a file"),
    "a file that waits": (lambda name: os.symlink("/proc/kmsg", name), "has no data to read yet"),
    "memory": (lambda name: os.symlink("/proc/self/mem", name), "input/output error"),
}
VERBS = {
    "check": ["check"],
    "check --fix": ["check", "--fix"],
    "fix": ["fix"],
    "migrate": ["migrate", "--from", "0.14.5", "--to", "0.19.8", "--diff"],
    "resolve": ["resolve", "--world-size", "8"],
    "training arguments": ["resolve", "ok.json", "--world-size", "8", "--training-args"],
    "show": ["show"],
    "compat": ["compat"],
    "plan": ["elastic", "plan"],
    "run": ["elastic", "run", "--dry-run"],
}


def needs_root(kind: str) -> None:
    if kind == "a file that waits" and not os.access("/proc/kmsg", os.R_OK):
        pytest.skip("the kernel's log may not be read")


@pytest.mark.parametrize("kind", ODD)
@pytest.mark.parametrize("verb", VERBS)
def test_one_line_at_once(here: Path, run: Runs, spawn: Spawns, verb: str, kind: str) -> None:
    needs_root(kind)
    make, message = ODD[kind]
    make("odd.yaml")
    (here / "ok.json").write_text(CLEAN)
    runs = spawn if kind in ("a pipe", "an endless device") else run
    result = runs(*VERBS[verb], "odd.yaml", *(["train.py"] if verb == "run" else []))
    assert result.code == 2
    assert [line for line in result.err.splitlines() if "error" in line] == [result.err.splitlines()[0]]
    assert result.err.startswith("dsconfig: error: odd.yaml: ")
    assert message in result.err


@pytest.mark.parametrize("kind", ODD)
def test_the_others_are_checked(here: Path, spawn: Spawns, kind: str) -> None:
    needs_root(kind)
    make, message = ODD[kind]
    make("ds_config.json")
    os.symlink("..", "up")
    os.symlink("loop.yaml", "loop.yaml")
    (here / "zero.json").write_text('{"zero_optimization": {}, "no_such_key": 1}')
    code, out, err = spawn("check", ".", *TARGET, "--output-format", "concise")
    assert code == 2
    assert "zero.json" in out
    if os.path.realpath("ds_config.json").startswith(str(here)):
        assert "dsconfig: error: ds_config.json: " in err
        assert message in err
    else:
        link = "is a link to a file that is outside of this repository; skipped"
        assert f"dsconfig: note: ds_config.json {link}" in err
    assert "dsconfig: error: loop.yaml: too many levels of symbolic links" in err
    assert "Checked 1 file " in out


def test_a_dangling_link_that_need_not_be_a_config_is_passed_over(here: Path, spawn: Spawns) -> None:
    os.symlink("no.json", "data.json")
    (here / "ds_config.json").write_text(CLEAN)
    assert spawn("check", *TARGET).code == 0


def test_many_folders_one_in_the_other(here: Path, run: Runs) -> None:
    deep = "d/" * 550
    for _ in range(2):
        os.makedirs(deep)
        os.chdir(deep)
    Path("ds_config.json").write_text(UNKNOWN)
    os.chdir(here)
    try:
        assert run("check", "-q", *TARGET).code == 1
    finally:
        subprocess.run(["rm", "-r", "d"], check=True)  # too deep for what clears up after the tests


@pytest.mark.parametrize("name", ["loop.json", "pipe.json", "/dev/zero", "gone.json"])
def test_a_launch_file_that_names_it(here: Path, spawn: Spawns, name: str) -> None:
    os.symlink("loop.json", "loop.json")
    os.mkfifo("pipe.json")
    block = f"distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: {name}\n"
    (here / "launch.yaml").write_text(block)
    code, out, err = spawn("check", "launch.yaml", *TARGET)
    assert (code, err) == (0, "")
    assert f"{name} was not found from " in out


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb not in ("check --fix", "fix", "run")])
def test_stdin_without_an_end(here: Path, verb: str) -> None:
    (here / "ok.json").write_text(CLEAN)
    with open("/dev/zero", "rb") as zero:
        argv = [COMMAND, *VERBS[verb], "/dev/stdin" if verb == "training arguments" else "-"]
        done = subprocess.run(argv, stdin=zero, capture_output=True, text=True, check=False, timeout=60)
    output = done.stdout + done.stderr
    assert done.returncode in (1, 2)
    assert "2 MiB" in output or "dsconfig check -" in output or "is a device" in output


def test_a_pipe_from_the_shell_is_read(here: Path) -> None:
    (here / "a.json").write_text(UNKNOWN)
    for line in (f"{COMMAND} check <(sleep 0.3; cat a.json)", f"cat a.json | {COMMAND} check /dev/stdin"):
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (1, "")
        assert "no_such_key_here" in done.stdout


@pytest.mark.parametrize("verb", ["check", "show", "fix"])
def test_stdin_that_is_closed(spawn: Spawns, verb: str) -> None:
    line = f"{COMMAND} {verb} - <&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "dsconfig: error: -: stdin is closed\n" in done.stderr


@pytest.mark.parametrize("verb", ["check", "show", "compat", "fix --diff", "check --output-format sarif"])
def test_a_full_disk_for_the_output(here: Path, verb: str) -> None:
    (here / "a.json").write_text('{"train_batch_size": 8, "prescale_gradients": 1}')
    line = f"{COMMAND} {verb} a.json > /dev/full"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "dsconfig: error: cannot write the output: no space left on device\n" in done.stderr
    assert "Traceback" not in done.stderr
    line = f"{COMMAND} {verb} a.json >&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1)
    assert "dsconfig: error" not in done.stderr


def test_a_working_directory_that_is_gone(here: Path) -> None:
    (here / "a.json").write_text(CLEAN)
    line = f"mkdir x; cd x; rmdir ../x; {COMMAND} check {here}/a.json"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "dsconfig: error: the working directory no longer exists\n")


def test_a_file_that_grows(here: Path, run: Runs) -> None:
    (here / "a.json").write_text(CLEAN)
    stop = threading.Event()

    def grow() -> None:
        with open("a.json", "ab", buffering=0) as file:
            while not stop.is_set() and file.tell() < 1 << 28:
                file.write(b" " * 65536)

    thread = threading.Thread(target=grow)
    thread.start()
    try:
        while os.path.getsize("a.json") < 3 << 20:
            pass
        assert "more than 2 MiB" in run("check", "a.json").out
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("pipe", "is a pipe that no process reads from"),
        ("folder", "is a directory"),
        ("loop", "too many levels of symbolic links"),
        ("/dev/full", "no space left on device"),
        ("nowhere/a.json", "no such file or directory"),
    ],
)
def test_output_into_it(here: Path, spawn: Spawns, out: str, message: str) -> None:
    os.mkfifo("pipe")
    os.mkdir("folder")
    os.symlink("loop", "loop")
    (here / "a.json").write_text(CLEAN)
    result = spawn("resolve", "--world-size", "8", "a.json", "-o", out)
    assert (result.code, result.out) == (2, "")
    assert result.err == f"dsconfig: error: {out}: {message}\n"


@pytest.mark.parametrize("content", [b" " * (3 << 20), b"\xff\xfe{}"])
def test_settings_of_an_editor(here: Path, spawn: Spawns, content: bytes) -> None:
    (here / ".vscode").mkdir()
    (here / ".vscode/settings.json").write_bytes(content)
    result = spawn("editor", "vscode", "--write")
    assert result.code == 2
    assert "settings.json: larger than 2 MiB" in result.err or "not UTF-8" in result.err
    assert (here / ".vscode/settings.json").read_bytes() == content
