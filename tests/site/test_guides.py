"""Every line of the guides works as it stands, and shows what really comes out."""

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
def test_every_line_runs_and_shows_what_comes_out(guide: Path, tmp_path: Path, clone: Path) -> None:
    text = guide.read_text("utf-8")
    assert addressed(text) == text, "`make readme` writes the address and the version"
    assert played(text, tmp_path, clone) == text, "`make readme` writes what comes out"
    assert not [each for each in re.findall(r"https://[\w.]*readthedocs\.io\S*", text) if SITE not in each]


def test_the_guides_are_there() -> None:
    assert len(GUIDES) >= 16
