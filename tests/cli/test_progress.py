"""The line that counts files: only where someone watches, and gone at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import CLEAN

pty = pytest.importorskip("pty")
COMMAND = [sys.executable, "-m", "dsconfig", "check", "--target", "0.19.8"]
IMPATIENT = """
import sys
from dsconfig.cli import main, check_files
check_files._PATIENCE = check_files._INTERVAL = 0
sys.exit(main(sys.argv[1:]))
"""
"""The command as if each file took seconds."""


def on_a_terminal(*argv: str, slow: bool = True, **variables: str) -> str:
    """Output of the command on stderr if that is a terminal."""
    watched, terminal = pty.openpty()
    command = [sys.executable, "-c", IMPATIENT, *COMMAND[3:]] if slow else COMMAND
    subprocess.run(
        [*command, *argv],
        stderr=terminal,
        stdout=subprocess.DEVNULL,
        check=False,
        env={**os.environ, **variables},
    )
    os.write(terminal, b"END")
    os.close(terminal)
    output = b""
    while not output.endswith(b"END"):
        output += os.read(watched, 4096)
    os.close(watched)
    return output.decode().removesuffix("END")


@pytest.fixture
def many(here: Path) -> Path:
    for number in range(60):
        (here / f"ds_config_{number}.json").write_text(CLEAN)
    return here


def test_a_line_counts_and_goes(many: Path) -> None:
    lines = [line.rstrip() for line in on_a_terminal().split("\r")]
    assert "Searching for configs: ./ds_config_0.json" in lines
    assert lines.count("Checking 60 files: 50%") == 1
    assert lines[-3:] == ["Checking 60 files: 98%", "", ""]


def test_a_line_is_never_wider_than_the_terminal(many: Path) -> None:
    assert max(map(len, on_a_terminal(COLUMNS="40").split("\r"))) == 39


def test_what_is_said_meanwhile_stands_over_the_line(many: Path) -> None:
    names = sorted(path.name for path in many.glob("*.json"))
    (many / names[30]).unlink()
    (many / names[30]).symlink_to(names[30])
    lines = on_a_terminal(*names).replace("\r\n", "\n").split("\r")
    (error,) = (line for line in lines if "error" in line)
    assert error.startswith(f"dsconfig: error: {names[30]}: ")
    assert len(error.partition("\n")[0]) > len("Checking 60 files: 100%")


def test_a_run_of_less_than_a_second_shows_nothing(here: Path) -> None:
    (here / "ds_config.json").write_text(CLEAN)
    assert on_a_terminal(slow=False) == ""


def test_nothing_counts_where_nobody_asked_or_the_terminal_cannot(many: Path) -> None:
    assert "Checking" not in on_a_terminal("--quiet")
    assert "Checking" not in on_a_terminal(TERM="dumb")


def test_nothing_counts_where_nobody_watches(many: Path) -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=False)
    assert "Checking" not in done.stderr
