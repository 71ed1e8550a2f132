"""Every command in README.md runs, and its output is what README.md shows."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.readme import README, addressed, blocks, environment, played, repository

TEXT = README.read_text("utf-8")

SEEDS = (
    "pip",
    "setuptools",
    "pkg_resources",
    "_distutils_hack",
    "distutils-precedence",
    "wheel",
    "_virtualenv",
)
"""Packages in every environment that virtualenv creates."""


def size(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder."""
    return sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return repository(tmp_path_factory.mktemp("clone"))


def test_every_command_runs_and_prints_what_is_shown(tmp_path: Path, clone: Path) -> None:
    languages = {block.language for block in blocks(TEXT)}
    assert languages == {"sh", "console", "python", "text", "json", "toml", "yaml"}
    assert played(TEXT, tmp_path, clone) == TEXT, "run `make readme`"


@pytest.mark.parametrize(
    "line",
    ["dsconfig check", "dsconfig check no-such-file.json", "dsconfig chekc", "make no-such-target", "exit 3"],
)
@pytest.mark.parametrize(
    "block", ["```sh\n{}\n```\n", "```console\n$ {}\n```\n", "In `ci.yml`:\n\n```yaml\nrun: {}\n```\n"]
)
def test_failing_commands_are_reported(tmp_path: Path, clone: Path, block: str, line: str) -> None:
    with pytest.raises(AssertionError, match=rf"{line}\nends in"):
        played(block.format(line), tmp_path, clone)


def test_outdated_output_is_replaced(tmp_path: Path, clone: Path) -> None:
    for text in ("```console\n$ echo one\ntwo\n```\n", "```python\nprint('one')\n```\n\n```text\ntwo\n```\n"):
        assert played(text, tmp_path, clone) == text.replace("two", "one")


def test_address_and_version_are_up_to_date() -> None:
    assert addressed(TEXT) == TEXT, "run `make readme`"


def test_hooks_install_and_run_with_pre_commit(tmp_path: Path, clone: Path) -> None:
    (config,) = (block for block in blocks(TEXT) if block.file == ".pre-commit-config.yaml")
    (tmp_path / ".pre-commit-config.yaml").write_text(config.text)
    (tmp_path / "ds_config.json").write_text('{"train_batch_size": 8, "prescale_gradients": 1}\n')
    home = tmp_path / "home"
    variables = environment(clone) | {"PRE_COMMIT_HOME": str(home), "GIT_CONFIG_GLOBAL": os.devnull}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=tmp_path, env=variables, check=False, capture_output=True, text=True
        )

    run("git", "init", "-q")
    run("git", "add", "ds_config.json", ".pre-commit-config.yaml")
    done = run("pre-commit", "run", "--all-files")
    assert done.returncode == 1, done.stdout
    assert "ds_config.json: prescale_gradients: replace with `true` (DSC113 coerced-value)" in done.stdout
    assert run("pre-commit", "run", "--all-files").stdout.count("Passed") == 1
    (packages,) = home.glob("repo*/py_env-*/lib/*/site-packages")
    installed = [path for path in packages.iterdir() if not path.name.startswith(SEEDS)]
    assert sum(map(size, installed)) < 19 << 20, sorted((size(path), path.name) for path in installed)[-5:]
    assert size(packages.parents[2]) < 33 << 20
