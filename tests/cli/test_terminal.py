"""On a real terminal of 80 and of 120 columns: lines end between words, colours and links as is asked for."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dsconfig.core.diagnostic import SITE

COMMAND = str(Path(sys.executable).parent / "dsconfig")
CONFIG = '{"train_batch_size": 100, "train_micro_batch_size_per_gpu": 8, "prescale_gradient": 1}\n'
OLD = """{
  "train_batch_size": 8,
  "zero_optimization": {"stage": 2, "cpu_offload": true, "stage3_prefetch_bucket_size": 5e7}
}
"""
BLOCK = '{"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6], "version": 0.1}'
ELASTIC = f'{{"elasticity": {BLOCK}}}\n'
INVISIBLE = re.compile(r"\x1b\[[0-9;]*[mHJ]|\x1b\]8;;[^\x1b]*\x1b\\")
CHECK = ("check", "a.json", "--target", "0.19.8", "--world-size", "8")


@contextmanager
def started(columns: int, *argv: str, **env: str) -> Iterator[tuple[int, int]]:
    """The command on a terminal so wide: its process, and the terminal's other end."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    clean = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR", "CI")}
    process = subprocess.Popen(
        [COMMAND, *argv], stdin=theirs, stdout=theirs, stderr=theirs, env={**clean, "TERM": "xterm", **env}
    )
    os.close(theirs)
    try:
        yield process.pid, ours
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def read_until(ours: int, text: str | None, seconds: float = 60) -> str:
    """Output of the terminal up to this text, or the end."""
    data, end = b"", time.monotonic() + seconds
    while time.monotonic() < end and (text is None or text.encode() not in data):
        if not select.select([ours], [], [], 0.2)[0]:
            continue
        try:
            more = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        data += more
    return data.decode().replace("\r\n", "\n")


def on_terminal(columns: int, *argv: str, **env: str) -> str:
    with started(columns, *argv, **env) as (_, ours):
        return read_until(ours, None)


def in_pipe(*argv: str, **env: str) -> str:
    environment = {**os.environ, **env}
    return subprocess.run(
        [COMMAND, *argv], stdout=subprocess.PIPE, text=True, check=False, env=environment
    ).stdout


def plain(text: str) -> list[str]:
    return INVISIBLE.sub("", text).splitlines()


@pytest.mark.parametrize("columns", [80, 120])
@pytest.mark.parametrize(
    "argv",
    [
        CHECK,
        ("explain", "DSC203"),
        ("explain", "zero_optimization"),
        ("rules",),
        ("compat", "a.json"),
        ("fix", "old.json", "--target", "0.19.8"),
        ("migrate", "old.json", "--from", "0.5.0", "--to", "0.19.8", "-o", "new.json"),
        ("migrate", "a.json", "--from", "0.5.0", "--to", "0.19.8", "-o", "new.json"),
        ("show", "old.json"),
        ("resolve", "a.json", "--world-size", "8"),
        ("resolve", "old.json", "--world-size", "8", "-o", "new.json"),
        ("elastic", "plan", "elastic.json", "--world-sizes", "1:9"),
        ("elastic", "plan", "a.json"),
        ("memory", "old.json", "--model", "llama-2-7b", "--world-size", "8"),
        ("memory", "old.json", "--model", "no-such-model", "--world-size", "8"),
        ("explain", "zero"),
        ("check", "--slect", "DSC1"),
        ("check", "--help"),
        ("elastic", "run", "--help"),
    ],
    ids=" ".join,
)
def test_lines_end_between_words(here: Path, columns: int, argv: tuple[str, ...]) -> None:
    for name, config in {"a.json": CONFIG, "old.json": OLD, "elastic.json": ELASTIC}.items():
        (here / name).write_text(config)
    lines = plain(on_terminal(columns, *argv))
    assert lines
    fenced = [line for line in lines if len(line) > columns and " " in line.strip()]
    assert fenced == []
    piped = subprocess.run(
        [COMMAND, *argv], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={**os.environ, "COLUMNS": ""},
    )  # fmt: skip
    # The words are those of a pipe, none of them cut.
    if "--help" not in argv and argv[0] not in ("check", "fix"):
        assert " ".join(lines).split() == piped.stdout.split()


@pytest.mark.parametrize("columns", [80, 120])
def test_colours_and_links(here: Path, columns: int) -> None:
    (here / "a.json").write_text(CONFIG)
    out = on_terminal(columns, *CHECK)
    assert f"\x1b]8;;{SITE}rules/DSC203/\x1b\\" in out
    assert "\x1b[1;31m" in out
    for env in (
        {"NO_COLOR": "1"},
        {"NO_COLOR": "1", "FORCE_COLOR": "1"},
        {"TERM": "dumb"},
        {"CLICOLOR": "0"},
    ):
        assert "\x1b" not in on_terminal(columns, *CHECK, **env), env
    assert "\x1b]8" not in on_terminal(columns, *CHECK, TERM="linux")


@pytest.mark.parametrize(
    ("env", "colored"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "0", "CLICOLOR_FORCE": "1"}, False),
        ({"CLICOLOR_FORCE": "1"}, True),
        ({"CLICOLOR_FORCE": "0"}, False),
        ({"CLICOLOR_FORCE": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colours_in_a_pipe(here: Path, env: dict[str, str], colored: bool) -> None:
    (here / "a.json").write_text(CONFIG)
    done = subprocess.run(
        [COMMAND, *CHECK], capture_output=True, text=True, check=False, env={**os.environ, **env}
    )
    assert ("\x1b[" in done.stdout) == colored


def test_watch_checks_again_after_each_change(here: Path) -> None:
    file = here / "ds_config.json"
    file.write_text(CONFIG)
    with started(
        80, "check", "--watch", "--output-format", "concise", "--isolated", "--target", "0.19.8"
    ) as (
        process,
        ours,
    ):
        assert "DSC102" in read_until(ours, "watching for changes")
        file.write_text('{"train_batch_size": 8}\n')
        assert "no problems found" in read_until(ours, "watching for changes")
        (here / "ds_config_2.json").write_text(CONFIG)
        assert "ds_config_2.json" in read_until(ours, "watching for changes")
        os.kill(process, signal.SIGINT)
        assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 130
