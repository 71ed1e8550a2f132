"""A directory of its own for each test, and two ways to run the command: in this process, and as users do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from dsconfig.cli import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


class Runs(Protocol):
    def __call__(self, *argv: str) -> Result: ...


class Spawns(Protocol):
    def __call__(self, *argv: str, stdin: bytes = b"", **env: str) -> Result: ...


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory, without what the developer's own environment says."""
    for name in ("DSCONFIG_TARGET", "DSCONFIG_DEBUG", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()  # no settings from further up
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Runs:
    """Run the command in this process."""

    def runs(*argv: str) -> Result:
        code = main(argv)
        return Result(code, *capsys.readouterr())

    return runs


@pytest.fixture
def spawn() -> Spawns:
    """Run the installed command."""
    command = Path(sys.executable).parent / "dsconfig"

    def spawns(*argv: str, stdin: bytes = b"", **env: str) -> Result:
        done = subprocess.run(
            [str(command), *argv],
            input=stdin,
            capture_output=True,
            check=False,
            timeout=60,
            env={**os.environ, **env},
        )
        return Result(
            done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )

    return spawns


CLEAN = '{"train_batch_size": 8}\n'
UNKNOWN = '{"train_batch_size": 8, "no_such_key_here": 1}\n'
REFUSED = '{"train_batch_size": 8, "fp16": {"enabled": true, "no_such_key_here": 1}}\n'


@pytest.fixture
def files(here: Path) -> Path:
    """A clean config, one with a warning, one with an error."""
    (here / "clean.json").write_text(CLEAN)
    (here / "unknown.json").write_text(UNKNOWN)
    (here / "refused.json").write_text(REFUSED)
    return here


@pytest.fixture
def ds_json(here: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module's `CONFIG` as `ds.json`, where no launcher says how many ranks there are."""
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    (here / "ds.json").write_text(json.dumps(request.module.CONFIG))
