"""Generated files agree with the model, are written by one run, and stand in folders named `_generated`."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODULES = [
    file.relative_to(ROOT).as_posix()
    for file in (ROOT / "dsconfig").rglob("_generated/*.py*")
    if "__pycache__" not in file.parts
]
FILES = [*MODULES, *(f"schema/{path.name}" for path in (ROOT / "schema").glob("*.json"))]


def generate(*arguments: str, root: Path = ROOT) -> tuple[int, str]:
    """Exit code and output of the command in a repository."""
    done = subprocess.run(
        [sys.executable, "-m", "schema.generate", *arguments],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A repository to change."""
    for folder in ("dsconfig", "schema"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_generated_files_are_fresh() -> None:
    assert generate("--check") == (0, "")


@pytest.mark.parametrize("name", FILES)
def test_a_generated_file_says_so_in_its_first_lines(name: str) -> None:
    first = (ROOT / name).read_text(encoding="utf-8").partition("\n")[0]
    assert "Generated from" in first
    assert "`make generate`" in first


def test_generated_code_stands_in_its_folders() -> None:
    assert MODULES
    for file in (ROOT / "dsconfig").rglob("*.py*"):
        if "__pycache__" not in file.parts and "Generated from" in file.read_text("utf-8").partition("\n")[0]:
            assert file.parent.name == "_generated", file


def test_generated_code_is_small_enough_to_read_its_diff() -> None:
    assert sum(len((ROOT / name).read_text("utf-8").splitlines()) for name in MODULES) <= 7_000


def test_a_stale_file_is_named_and_written(copy: Path) -> None:
    (copy / "dsconfig/model/_generated/__init__.py").write_text("")
    (copy / "dsconfig/rules/_generated/__init__.py").unlink()
    (copy / "schema/deepspeed.json").unlink()
    (copy / "schema/deepspeed-0.1.json").write_text("{}")
    code, out = generate("--check", root=copy)
    assert code == 1
    assert re.findall(r"(\S+) is stale: run `make generate`", out) == [
        "dsconfig/model/_generated/__init__.py",
        "dsconfig/rules/_generated/__init__.py",
        "schema/deepspeed.json",
        "schema/deepspeed-0.1.json",
    ]
    assert generate(root=copy) == (0, "")
    assert generate("--check", root=copy) == (0, "")
    assert {f"schema/{path.name}" for path in (copy / "schema").glob("*.json")} == set(FILES) - set(MODULES)
    assert all((copy / name).read_bytes() == (ROOT / name).read_bytes() for name in FILES)
