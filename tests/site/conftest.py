"""The site, generated and built in a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import generate
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The texts of the site: those of the repository, and those that are made."""
    folder = tmp_path_factory.mktemp("site")
    made = shutil.ignore_patterns(*generate.FOLDERS, "_build", "__pycache__", "pages")
    shutil.copytree(ROOT / "site", folder, dirs_exist_ok=True, ignore=made)
    generate.write(folder / "docs")
    return folder / "docs"


def build(settings: Path) -> subprocess.CompletedProcess[str]:
    """Build a site as `make docs` does; any warning of MkDocs makes it fail.

    Not with `--quiet`: MkDocs then drops warnings before `--strict` counts them (`mkdocs.commands.build`).
    """
    return subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", settings],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def built(docs: Path) -> Path:
    """The site as it is served. A dead link, or one to no heading, is an error."""
    done = build(docs.parent / "mkdocs.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    return docs.parent / "_build"
