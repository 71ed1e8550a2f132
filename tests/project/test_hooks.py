"""The hooks, run by the real pre-commit in a real repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
HOOKS: list[dict[str, Any]] = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
CONFIG = '{\n  "train_batch_size": 8,\n  "prescale_gradients": 1\n}\n'


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ds_config.json", True),
        ("configs/zero3.json", True),
        ("DeepSpeed-Config.JSONC", True),
        ("train/deepspeed_cfg.hjson", True),
        ("accelerate.yaml", True),
        ("llama.yml", True),
        ("ds_config.py", True),
        ("ds_config.json5", False),
        ("json", False),
    ],
)
def test_names(hook: dict[str, Any], name: str, meant: bool) -> None:
    assert bool(re.search(hook["files"], name)) == meant


def test_hooks_are_verbs() -> None:
    from dsconfig.cli import COMMANDS

    assert [hook["id"] for hook in HOOKS] == ["dsconfig-check", "dsconfig-fix"]
    assert all(hook["entry"].endswith(" --force-exclude") for hook in HOOKS), "content decides"
    assert {hook["entry"].split()[1] for hook in HOOKS} <= set(COMMANDS)


def run(*command: str, cwd: Path, home: Path) -> tuple[int, str]:
    variables = {
        **os.environ,
        "PRE_COMMIT_HOME": str(home),
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        **{f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(
        command, cwd=cwd, env=variables, check=False, timeout=600,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    return done.returncode, done.stdout


def table() -> str:
    """Our hooks, run by the command that is installed here: `language: system` installs nothing."""
    system = [{**hook, "language": "system"} for hook in HOOKS]
    return yaml.safe_dump(
        [{key: hook[key] for key in hook if key != "additional_dependencies"} for hook in system]
    )


def test_a_hook_installs_what_the_package_needs_but_for_pydantic_and_shtab() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needed = {each.replace('"', "'") for each in declared if not each.startswith(("pydantic", "shtab"))}
    for hook in HOOKS:
        option, *packages = hook["additional_dependencies"]
        assert option == "--no-deps"
        assert set(packages) == needed


@pytest.mark.parametrize(
    "arguments",
    [
        ["check", "--output-format", "full", "--target", ">=0.14,<0.19.8"],
        ["check", "--output-format", "sarif", "--consumer", "transformers", "--world-size", "4"],
        ["fix", "--unsafe-fixes"],
        ["check", "--fix", "--diff"],
    ],
    ids=" ".join,
)
def test_a_hook_needs_no_more_than_it_installs(arguments: list[str], tmp_path: Path) -> None:
    for package in ("pydantic", "pydantic_core", "shtab"):
        (tmp_path / "barred" / package).mkdir(parents=True)
        (tmp_path / "barred" / package / "__init__.py").write_text("raise ImportError")
    shutil.copytree(ROOT / "demo" / "configs", tmp_path / "configs")
    command = Path(sys.executable).with_name("dsconfig")
    variables = {**os.environ, "PYTHONPATH": str(tmp_path / "barred")}
    done = subprocess.run(
        [command, *arguments, "--force-exclude", "."],
        cwd=tmp_path, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A repository that uses the hooks, and pre-commit's own folder.

    The hooks come from a repository with our table of them, and take the command that is installed here: how
    a package is installed is pip's affair, and would need the package index.
    """
    folder, home = tmp_path_factory.mktemp("user"), tmp_path_factory.mktemp("home")
    hooks = tmp_path_factory.mktemp("hooks")
    (hooks / ".pre-commit-hooks.yaml").write_text(table())
    for path in (hooks, folder):
        run("git", "init", "-q", cwd=path, home=home)
    run("git", "add", "-A", cwd=hooks, home=home)
    run("git", "commit", "-qm", "hooks", cwd=hooks, home=home)
    _, revision = run("git", "rev-parse", "HEAD", cwd=hooks, home=home)
    chosen = [{"id": "dsconfig-check", "args": ["--fix"]}]
    (folder / "dsconfig.toml").write_text('target = "0.19.8"\n')
    config = {"repos": [{"repo": str(hooks), "rev": revision.strip(), "hooks": chosen}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    run("pre-commit", "install", cwd=folder, home=home)
    return folder, home


def test_a_commit_is_mended_then_taken(repository: tuple[Path, Path]) -> None:
    folder, home = repository
    file = folder / "ds_config.json"
    file.write_text(CONFIG)
    (folder / "other.json").write_text('{"no_such_key_here": 1}\n')
    run("git", "add", "-A", cwd=folder, home=home)
    code, out = run("git", "commit", "-m", "one", cwd=folder, home=home)
    assert code == 1, out
    assert "ds_config.json: prescale_gradients: replace with `true` (DSC113 coerced-value)" in out
    assert "files were modified by this hook" in out
    assert file.read_text() == CONFIG.replace(": 1", ": true")
    run("git", "add", "-A", cwd=folder, home=home)
    code, out = run("git", "commit", "-m", "one", cwd=folder, home=home)
    assert code == 0, out
    assert out.count("Passed") == 1


def test_what_cannot_be_mended_stops_the_commit(repository: tuple[Path, Path]) -> None:
    folder, home = repository
    (folder / "ds_config_2.json").write_text('{"train_batch_size": 8, "fp16": {"enabled": [1]}}\n')
    run("git", "add", "-A", cwd=folder, home=home)
    code, out = run("git", "commit", "-m", "two", cwd=folder, home=home)
    assert code == 1, out
    assert "error[DSC110]" in out
    assert "against DeepSpeed 0.19.8 (dsconfig.toml)" in out


def test_the_hook_that_fixes_lists_what_is_left(repository: tuple[Path, Path]) -> None:
    folder, home = repository
    table = folder / ".pre-commit-config.yaml"
    config = yaml.safe_load(table.read_text())
    config["repos"][0]["hooks"] = [{"id": "dsconfig-fix"}]
    table.write_text(yaml.safe_dump(config))
    (folder / "ds_config_3.json").write_text(
        '{"train_batch_size": 8, "fp16": {"enabled": [1]}, "prescale_gradients": 1}\n'
    )
    run("git", "add", "-A", cwd=folder, home=home)
    code, out = run("git", "commit", "-m", "three", cwd=folder, home=home)
    assert code == 1, out
    assert "ds_config_3.json: prescale_gradients: replace with `true` (DSC113 coerced-value)" in out
    assert re.search(r"^ds_config_3\.json:1:\d+: DSC110 ", out, re.MULTILINE)
