"""Options and fixtures of all tests.

Hypothesis draws the same examples in each run, so that a failure is due to the change.
`HYPOTHESIS_PROFILE=explore pytest` draws new ones. `pytest --fast` leaves out the tests in `tests/heavy.py`.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from dsconfig.cli.output_files import CI_VARIABLES
from tests.heavy import HEAVY
from tests.launches import AUTO

settings.register_profile("suite", deadline=None, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# In the log of a CI service, `fix --diff` does not print lines that the service would run as commands (see tests/cli).
for variable in CI_VARIABLES:
    os.environ.pop(variable, None)

# A process that a shell starts in the background ignores Ctrl-C, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


ROOT = Path(__file__).parents[1]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fast", action="store_true", help="leave out the tests in tests/heavy.py")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    is_heavy = collection_path.is_relative_to(ROOT) and collection_path.relative_to(ROOT).as_posix() in HEAVY
    return True if is_heavy and config.getoption("--fast") else None


def pytest_report_header(config: pytest.Config) -> str | None:
    return f"fast: without {len(HEAVY)} files and folders of tests" if config.getoption("--fast") else None


@pytest.fixture
def empty_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty repository, and make it the working directory."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def project(empty_repository: Path) -> Path:
    """Make a repository with a config in `ds/`, and an empty folder `launch/`."""
    for folder in ("launch", "ds"):
        (empty_repository / folder).mkdir()
    (empty_repository / "ds" / "z.json").write_text(json.dumps(AUTO))
    return empty_repository
