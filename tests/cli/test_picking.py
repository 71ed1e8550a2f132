"""Files that are skipped: ignored by git, excluded by settings, or not configs at all."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from dsconfig.check.discover import find_configs

from .conftest import Runs

CONFIG = '{"zero_optimization": {"stage": 2}, "train_batch_size": 8}'
FOREIGN = '{"compilerOptions": {}, "include": ["src"], "zero_optimization": true, "files": [], "x": 1}'


@pytest.fixture
def repository(here: Path) -> Path:
    """A real repository, in which git ignores some files."""
    (here / ".git").rmdir()
    subprocess.run(["git", "init", "-q"], cwd=here, check=True)
    (here / ".gitignore").write_text("/out/\n*.tmp.json\n!keep.tmp.json\n")
    (here / "conf").mkdir()
    (here / "conf" / ".gitignore").write_text("old.json\n")
    for name in ("a.json", "b.tmp.json", "keep.tmp.json", "out/a.json", "conf/old.json", "conf/new.json"):
        (here / name).parent.mkdir(exist_ok=True)
        (here / name).write_text(CONFIG)
    return here


def test_ignore_rules_of_git_hold(repository: Path) -> None:
    assert list(find_configs(".")) == ["a.json", "keep.tmp.json", "conf/new.json"]
    assert list(find_configs("conf")) == ["conf/new.json"]
    assert list(find_configs("out")) == ["out/a.json"], "an ignored folder that is named"
    subprocess.run(["git", "add", "-f", "b.tmp.json"], cwd=repository, check=True)
    assert "b.tmp.json" in list(find_configs(".")), "what is tracked is not ignored"


def test_a_repository_within_has_its_own_rules(repository: Path) -> None:
    inner = repository / "inner"
    inner.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=inner, check=True)
    (inner / ".gitignore").write_text("no.json\n")
    for name in ("no.json", "yes.json", "b.tmp.json"):
        (inner / name).write_text(CONFIG)
    assert [name for name in find_configs(".") if "inner" in name] == ["inner/b.tmp.json", "inner/yes.json"]


def test_a_repository_has_git_start_nothing(repository: Path) -> None:
    script = repository / "evil.sh"
    script.write_text("#!/bin/sh\ntouch started\n")
    script.chmod(0o755)
    subprocess.run(["git", "config", "core.fsmonitor", str(script)], cwd=repository, check=True)
    list(find_configs("."))
    assert not (repository / "started").exists()


def test_without_git_nothing_is_ignored(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert "out/a.json" in list(find_configs("."))


def test_hidden_folders_are_named_if_asked_for(repository: Path, run: Runs) -> None:
    (repository / ".hidden").mkdir()
    (repository / ".hidden" / "a.json").write_text(CONFIG)
    assert "hidden" not in run("check").err
    assert run("check", "-v").err.endswith("dsconfig: note: skipped the hidden directory .hidden\n")


def test_a_file_that_is_no_config_gets_one_line(here: Path, run: Runs) -> None:
    (here / "tsconfig.json").write_text(FOREIGN)
    why = "not a DeepSpeed config: 4 of its 5 keys are not DeepSpeed's"
    assert run("check", "tsconfig.json") == (2, "", f"dsconfig: error: tsconfig.json: {why}\n")
    code, out, _ = run("check", "tsconfig.json", "--output-format", "json")
    (file,) = json.loads(out)["files"]
    assert (code, file["diagnostics"], file["foreign"]) == (2, [], why)
    assert run("fix", "--unsafe-fixes", "tsconfig.json").code == 2
    assert (here / "tsconfig.json").read_text() == FOREIGN
    for verb in ("compat", "show", "resolve"):
        assert run(verb, "tsconfig.json") == (2, "", f"dsconfig: error: tsconfig.json: {why}\n")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"$dsconfig": {}, "a": 1, "b": 2}',
        '{"zero_optimisation": {"stage": 2}}',
        '{"train_batch_size": 8, "b": 2}',
    ],
)
def test_a_config_gone_wrong_is_judged(here: Path, run: Runs, text: str) -> None:
    (here / "a.json").write_text(text)
    assert run("check", "a.json").code == 1


def test_named_files_are_picked_as_those_of_a_directory(here: Path, run: Runs) -> None:
    for folder in ("old", "new"):
        (here / folder).mkdir()
        (here / folder / "a.json").write_text(CONFIG)
    (here / "package.json").write_text('{"name": "a", "fp16": true}')
    (here / "dsconfig.toml").write_text('exclude = ["old"]')
    names = ("old/a.json", "new/a.json", "package.json")
    out = run("check", "--force-exclude", "--show-files", *names).out
    assert [line.partition(":")[0] for line in out.splitlines()] == ["new/a.json"]
    assert run("check", "--force-exclude", "package.json") == (0, "", "")
    assert run("fix", "--force-exclude", "old/a.json") == (0, "", "")
    (here / "empty").mkdir()
    assert run("check", "--force-exclude", "empty") == (0, "", "")
    assert run("check", "empty").code == 2


def test_foreign_files_are_passed_over_before_they_are_parsed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        text = json.dumps({"name": f"x{number}", "optimizer": "adam", "fp16": True, "files": ["a"] * number})
        (here / f"{number}.json").write_text(text)
    monkeypatch.setattr("dsconfig.document.read_bytes", None)
    assert list(find_configs(".")) == []
