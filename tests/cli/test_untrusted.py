"""A repository from elsewhere that one merely opens, lints or fixes: it runs nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from dsconfig.check import discover
from dsconfig.check.discover import find_configs

from .conftest import Runs

CONFIG = '{"zero_optimization": {"stage": 2}}'
LISTING = ("ls-files", "--cached", "--others", "--exclude-standard")


def in_git(folder: Path, *argv: str) -> str:
    result = subprocess.run(["git", *argv], cwd=folder, check=True, capture_output=True, text=True)
    return result.stdout.strip()


@pytest.fixture
def repository(here: Path) -> Path:
    """A repository of git, with nothing in it."""
    (here / ".git").rmdir()
    in_git(here, "init", "-q")
    return here


def asks_remote(folder: Path, marker: Path) -> Path:
    """A partial clone whose `.gitignore` git has to fetch, by a program that the repository names."""
    folder.mkdir()
    in_git(folder, "init", "-q")
    (folder / ".gitignore").write_text("*.tmp.json\n")
    (folder / "refs").mkdir()
    in_git(folder, "add", ".")
    blob = in_git(folder, "rev-parse", ":.gitignore")
    in_git(folder, "update-index", "--skip-worktree", ".gitignore")
    (folder / ".gitignore").unlink()
    (folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    (folder / "a.json").write_text(CONFIG)
    for name, value in {
        "core.repositoryformatversion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": str(folder),
        "remote.origin.promisor": "true",
        "remote.origin.uploadpack": f"touch {marker}; false",
    }.items():
        in_git(folder, "config", name, value)
    return folder


def embedded(folder: Path, marker: Path) -> Path:
    """The same as a bare repository within one, which an ordinary clone brings along."""
    inner = asks_remote(folder, marker)
    in_git(inner, "config", "core.worktree", ".")
    for path in (inner / ".git").iterdir():
        if path.name != "refs":
            path.rename(inner / path.name)
    for path in (inner / ".git" / "refs").iterdir():
        path.rename(inner / "refs" / path.name)
    (inner / ".git" / "refs").rmdir()
    (inner / ".git").rmdir()
    return inner


@pytest.mark.parametrize("make", [asks_remote, embedded])
def test_a_repository_has_git_fetch_nothing(
    here: Path, make: Callable[[Path, Path], Path], run: Runs, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = here / "started"
    folder = make(here / "clone", marker)
    monkeypatch.chdir(folder)
    subprocess.run(["git", *LISTING], capture_output=True, check=False)
    assert marker.exists(), "git alone starts the program"
    marker.unlink()
    assert "Checked 1 file" in run("check", ".").out
    assert "Checked 1 file" in run("check", str(folder)).out
    assert not marker.exists()


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"])
def test_what_a_hook_says_of_its_repository_is_not_said_of_this_one(
    here: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = asks_remote(here / "other", here / "started")
    mine = here / "mine"
    mine.mkdir()
    in_git(mine, "init", "-q")
    for file in ("a.json", "b.tmp.json"):
        (mine / file).write_text(CONFIG)
    (mine / ".git" / "info" / "exclude").write_text("*.tmp.json\n")
    monkeypatch.setenv(name, str(other / ".git"))
    monkeypatch.chdir(mine)
    assert list(find_configs(".")) == ["a.json"]
    assert not (here / "started").exists()


def test_a_pipe_for_ignore_rules_is_not_waited_for(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = repository
    monkeypatch.setattr(discover, "GIT_TIMEOUT", 0.2)
    os.mkfifo(here / ".gitignore")
    for name in ("a", "b", "c"):
        (here / name).mkdir()
        in_git(here / name, "init", "-q")
        os.mkfifo(here / name / ".gitignore")
        (here / name / "a.json").write_text(CONFIG)
    notes: list[str] = []
    assert list(find_configs(".", note=notes.append)) == ["a/a.json", "b/a.json", "c/a.json"]
    assert notes == ["git did not answer within 0.2 seconds; checking ignored files too"]


def test_no_git_of_the_repository_is_started(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = repository
    (here / "bin").mkdir()
    for path in (here / "git", here / "bin" / "git"):
        path.write_text(f"#!/bin/sh\ntouch {here}/started\n")
        path.chmod(0o755)
    (here / "a.json").write_text(CONFIG)
    (here / ".gitignore").write_text("b.json\n")
    (here / "b.json").write_text(CONFIG)
    before = os.environ["PATH"]
    monkeypatch.setenv("PATH", os.pathsep.join(("", ".", "bin", str(here / "bin"), before)))
    assert list(find_configs(".")) == ["a.json"]
    assert not (here / "started").exists()


def test_one_file_is_checked_without_git(here: Path, run: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "a.json").write_text(CONFIG)
    monkeypatch.setattr(subprocess, "Popen", None)
    assert "Checked 1 file" in run("check", "a.json").out


def test_rules_of_a_linked_work_tree_hold(here: Path) -> None:
    (here / ".git").rmdir()
    main = here / "main"
    main.mkdir()
    in_git(main, "init", "-q")
    in_git(main, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
    in_git(main, "worktree", "add", "-q", str(here / "linked"))
    (main / ".git" / "info" / "exclude").write_text("*.tmp.json\n")
    for name in ("a.json", "b.tmp.json", "tracked.tmp.json"):
        (here / "linked" / name).write_text(CONFIG)
    in_git(here / "linked", "add", "-f", "tracked.tmp.json")
    assert list(find_configs("linked")) == ["linked/a.json", "linked/tracked.tmp.json"]


@pytest.mark.parametrize("option", ["--split-index", "--index-version=4", "--untracked-cache"])
def test_every_form_of_an_index_is_read(here: Path, option: str) -> None:
    (here / ".git").rmdir()
    in_git(here, "init", "-q")
    (here / ".gitignore").write_text("*.tmp.json\n")
    for name in ("a.json", "b.tmp.json", "tracked.tmp.json"):
        (here / name).write_text(CONFIG)
    in_git(here, "add", "-f", "tracked.tmp.json")
    in_git(here, "update-index", *option.split("=" if "version" not in option else None))
    assert list(find_configs(".")) == ["a.json", "tracked.tmp.json"]


def test_a_repository_of_the_other_hash_is_read(here: Path) -> None:
    (here / ".git").rmdir()
    in_git(here, "init", "-q", "--object-format=sha256")
    (here / ".gitignore").write_text("*.tmp.json\n")
    for name in ("a.json", "b.tmp.json", "tracked.tmp.json"):
        (here / name).write_text(CONFIG)
    in_git(here, "add", "-f", "tracked.tmp.json")
    assert list(find_configs(".")) == ["a.json", "tracked.tmp.json"]


def test_an_index_that_nobody_can_read_leaves_the_ignore_rules(here: Path) -> None:
    (here / ".git").rmdir()
    in_git(here, "init", "-q")
    (here / ".gitignore").write_text("*.tmp.json\n")
    for name in ("a.json", "b.tmp.json"):
        (here / name).write_text(CONFIG)
    (here / ".git" / "index").write_bytes(b"DIRC" + bytes(100))
    assert list(find_configs(".")) == ["a.json"]


def test_the_module_imports_nothing_of_the_working_folder(here: Path) -> None:
    for name in ("yaml.py", "packaging.py", "json.py"):
        (here / name).write_text(f"open({str(here / 'started')!r}, 'w')\nraise SystemExit(9)\n")
    (here / "a.yaml").write_text("train_batch_size: 8\n")
    command = [sys.executable, "-m", "dsconfig", "check", "a.yaml"]
    done = subprocess.run(command, capture_output=True, check=False, text=True)
    assert not (here / "started").exists()
    assert done.returncode == 0, done.stderr
