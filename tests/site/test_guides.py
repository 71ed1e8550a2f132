"""Every command on the site's pages runs, and its output is what the pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dsconfig.core.diagnostic import SITE
from tests.readme import DOCS, GUIDES, addressed, played, repository


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("clone"))


@pytest.mark.parametrize("guide", GUIDES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_every_command_runs_and_prints_what_is_shown(guide: Path, tmp_path: Path, clone: Path) -> None:
    text = guide.read_text("utf-8")
    assert addressed(text) == text, "run `make readme`"
    assert played(text, tmp_path, clone) == text, "run `make readme`"
    assert not [url for url in re.findall(r"https://[\w.]*readthedocs\.io\S*", text) if SITE not in url]


def test_the_guides_exist() -> None:
    assert len(GUIDES) >= 16
