"""A repository of all kinds of files: the hook, run by the real pre-commit, and the command find the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.project.test_hooks import run, table
from tests.repository import CONFIGS, FILES, FOREIGN, JOBS, NOT_LOOKED_AT, SETTINGS

FINDING = re.compile(r"^(\S+):(\d+):(\d+): (DSC\d+) .*$", re.MULTILINE)
SILENT = {"jobs/nowhere.yml", "conf/silenced.hjson"}
"""Configs in which nothing is to be found."""


def findings(out: str) -> list[str]:
    """Each finding as it is shown, with file, line, column, code and words."""
    return sorted(match[0] for match in FINDING.finditer(out))


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A folder in which repositories use the hook, and pre-commit's own folder."""
    home, hooks = tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("hooks")
    (hooks / ".pre-commit-hooks.yaml").write_text(table())
    run("git", "init", "-q", cwd=hooks, home=home)
    run("git", "add", "-A", cwd=hooks, home=home)
    run("git", "commit", "-qm", "hooks", cwd=hooks, home=home)
    return hooks, home


def repository(folder: Path, files: dict[str, str], places: tuple[Path, Path], *arguments: str) -> Path:
    """A real repository with these files in which the hook is used."""
    hooks, home = places
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content, newline="")
    _, revision = run("git", "rev-parse", "HEAD", cwd=hooks, home=home)
    chosen = [{"id": "dsconfig-check", "args": ["--output-format", "concise", *arguments]}]
    config = {"repos": [{"repo": str(hooks), "rev": revision.strip(), "hooks": chosen}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    run("git", "init", "-q", cwd=folder, home=home)
    run("git", "add", "-A", cwd=folder, home=home)
    return folder


def test_the_hook_and_the_command_agree(tmp_path: Path, places: tuple[Path, Path]) -> None:
    folder, (_, home) = repository(tmp_path, FILES, places), places
    code, by_hook = run("pre-commit", "run", "--all-files", cwd=folder, home=home)
    assert code == 1, by_hook
    code, by_command = run("dsconfig", "check", "--output-format", "concise", cwd=folder, home=home)
    assert code == 1, by_command
    assert "internal" not in by_command
    assert findings(by_hook) == findings(by_command)
    assert len(CONFIGS | JOBS) >= 28
    code, listed = run("dsconfig", "check", "--show-files", cwd=folder, home=home)
    seen = {line.partition(": ")[0] for line in listed.splitlines()}
    assert seen == CONFIGS.keys() | JOBS.keys()
    assert len(listed.splitlines()) == len(seen)
    named = {line.partition(":")[0] for line in findings(by_command)}
    assert named.isdisjoint({*NOT_LOOKED_AT, *FOREIGN, *SETTINGS})
    inline = {name for name in JOBS if "overlap_com" in JOBS[name] or "stage: 7" in JOBS[name]}
    assert CONFIGS.keys() - SILENT <= named
    assert inline <= named


def test_each_misspelt_key_is_found_at_its_place(tmp_path: Path, places: tuple[Path, Path]) -> None:
    folder, (_, home) = repository(tmp_path, FILES, places), places
    _, out = run("dsconfig", "check", "--output-format", "concise", cwd=folder, home=home)
    found = {(m[1], int(m[2]), int(m[3])) for m in FINDING.finditer(out) if m[4] == "DSC102"}
    meant = set()
    for name, text in {**CONFIGS, **JOBS}.items():
        for number, line in enumerate(text.splitlines(), 1):
            if (at := line.find("overlap_com")) >= 0 and name not in SILENT:
                meant.add((name, number, at + 1 - (line[at - 1] == '"')))
    assert found == meant


def test_a_tree_without_configs_is_clean_under_the_hook(tmp_path: Path, places: tuple[Path, Path]) -> None:
    folder, (_, home) = repository(tmp_path, {**FOREIGN, **NOT_LOOKED_AT, **SETTINGS}, places), places
    code, out = run("pre-commit", "run", "--all-files", cwd=folder, home=home)
    assert (code, "Passed" in out) == (0, True), out
    code, out = run("dsconfig", "check", cwd=folder, home=home)
    assert code == 2
    assert "no DeepSpeed configs found" in out


def test_fixing_by_hook_is_fixing_by_command(tmp_path: Path, places: tuple[Path, Path]) -> None:
    _, home = places
    folders = [tmp_path / name for name in ("hook", "command")]
    for folder in folders:
        folder.mkdir()
        repository(folder, FILES, places)
        text = (folder / ".pre-commit-config.yaml").read_text().replace("dsconfig-check", "dsconfig-fix")
        (folder / ".pre-commit-config.yaml").write_text(
            text.replace("--output-format", "").replace("concise", "")
        )
    table = folders[0] / ".pre-commit-config.yaml"
    config = yaml.safe_load(table.read_text())
    config["repos"][0]["hooks"][0]["args"] = []
    table.write_text(yaml.safe_dump(config))
    code, out = run("pre-commit", "run", "--all-files", cwd=folders[0], home=home)
    assert code == 1, out
    run("dsconfig", "fix", cwd=folders[1], home=home)
    by_hook, by_command = ({name: (folder / name).read_bytes() for name in FILES} for folder in folders)
    assert by_hook == by_command
    changed = {name for name in FILES if by_command[name] != FILES[name].encode()}
    assert changed >= {"ds_config.json", "jobs/composer.yaml", "jobs/args.json", "conf/as_yaml.yaml"}
    assert changed.isdisjoint({*NOT_LOOKED_AT, *FOREIGN, *SETTINGS})
