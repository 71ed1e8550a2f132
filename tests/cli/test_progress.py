"""The line that counts files: only where someone watches, and gone at the end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import CLEAN

pty = pytest.importorskip("pty")
COMMAND = [str(Path(sys.executable).parent / "dsconfig"), "check", "--target", "0.19.8"]


def on_a_terminal(*argv: str) -> str:
    """Output of the command on stderr if that is a terminal."""
    watched, terminal = pty.openpty()
    subprocess.run([*COMMAND, *argv], stderr=terminal, stdout=subprocess.DEVNULL, check=False)
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
    lines = on_a_terminal().split("\r")
    assert [line for line in lines if line.endswith(" 50%")] == ["Checking 60 files: 50%"]
    assert lines[-3:] == ["Checking 60 files: 100%", " " * len("Checking 60 files: 100%"), ""]


def test_what_is_said_meanwhile_stands_over_the_line(many: Path) -> None:
    names = sorted(path.name for path in many.glob("*.json"))
    (many / names[30]).unlink()
    (many / names[30]).symlink_to(names[30])
    lines = on_a_terminal(*names).replace("\r\n", "\n").split("\r")
    (error,) = (line for line in lines if "error" in line)
    assert error.startswith(f"dsconfig: error: {names[30]}: ")
    assert len(error.partition("\n")[0]) > len("Checking 60 files: 100%")


@pytest.mark.parametrize("argv", [["--quiet"], ["ds_config_1.json"]])
def test_nothing_counts_where_nobody_asked_or_little_is_done(many: Path, argv: list[str]) -> None:
    assert "Checking" not in on_a_terminal(*argv)


def test_nothing_counts_where_nobody_watches(many: Path) -> None:
    done = subprocess.run(COMMAND, capture_output=True, text=True, check=False)
    assert "Checking" not in done.stderr
