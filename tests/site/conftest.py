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


@pytest.fixture(scope="session")
def built(docs: Path) -> Path:
    """The site as it is served. A dead link, or one to no heading, is an error."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "-f", docs.parent / "mkdocs.yml"],
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return docs.parent / "_build"
