"""Hypothesis in this suite: the same examples every time, so that a run says something of the change at hand.

`HYPOTHESIS_PROFILE=explore pytest` looks for new ones.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from dsconfig.cli.output import CI_VARIABLES
from tests.launches import AUTO

settings.register_profile("suite", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# In a CI service's log a diff that holds one of the service's commands is refused: that has tests of its own.
for variable in CI_VARIABLES:
    os.environ.pop(variable, None)

# What a shell starts in the background ignores Ctrl-C, and so would each command that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def empty_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository whose root is the current folder: nothing from further up is read."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project(empty_repository: Path) -> Path:
    """A repository with a config in one folder, and room for launch files in another."""
    for folder in ("launch", "ds"):
        (empty_repository / folder).mkdir()
    (empty_repository / "ds" / "z.json").write_text(json.dumps(AUTO))
    return empty_repository
