"""What users get: the wheel, built here and installed with its dependencies into an empty environment."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from dsconfig.core.version import __version__

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]


def run(*command: str | Path, cwd: Path, expect: int = 0) -> str:
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == expect, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that holds the wheel and what it asks for, nothing else."""
    folder = tmp_path_factory.mktemp("empty")
    run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    interpreter = folder / "venv" / "bin" / "python"
    options = ("--quiet", "--disable-pip-version-check", "--no-compile")
    run(interpreter, "-m", "pip", "install", *options, wheel, cwd=folder)
    return interpreter


def test_wheel_holds_both_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"dsconfig", "elastic", f"{'-'.join(wheel.name.split('-')[:2])}.dist-info"}
    assert {"dsconfig/py.typed", "elastic/py.typed", "dsconfig/model/_generated/__init__.py"} <= set(names)
    shipped = {name.rpartition("/")[2] for name in names if name.startswith("dsconfig/_schema/")}
    assert shipped == {
        "accelerate.json",
        "deepspeed.json",
        "deepspeed-in-yaml.json",
        "deepspeed-inference.json",
        "dsconfig.json",
    }


def test_installed_command_works(python: Path, tmp_path: Path) -> None:
    config = tmp_path / "ds_config.json"
    config.write_text('{"train_batch_size": 8, "gradient_clipp1ng": 1.0}', encoding="utf-8")
    command = python.parent / "dsconfig"
    assert run(command, "--version", cwd=tmp_path).startswith("dsconfig ")
    schema = Path(run(command, "schema", "--path", cwd=tmp_path).strip())
    assert json.loads(schema.read_text(encoding="utf-8"))["title"].startswith("DeepSpeed ")
    made = run(command, "schema", "--target", "0.14.5", cwd=tmp_path)
    assert json.loads(made)["title"] == "DeepSpeed 0.14.5 config"
    run(command, "schema", "--target", "0.14.5", "--path", cwd=tmp_path, expect=2)
    output = run(command, "check", config, "--output-format", "json", cwd=tmp_path, expect=1)
    (file,) = json.loads(output)["files"]
    assert [found["code"] for found in file["diagnostics"]] == ["DSC102"]


def test_installed_packages_work(python: Path, tmp_path: Path) -> None:
    script = (
        "import dsconfig, elastic\n"
        "config = dsconfig.Config(zero_optimization=dsconfig.ZeroOptimization(stage=3))\n"
        "assert config.to_dict() == {'zero_optimization': {'stage': 3}}\n"
        "assert dsconfig.check({'train_batch_size': 8}).ok\n"
    )
    run(python, "-W", "error", "-c", script, cwd=tmp_path)


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make recipes` writes for an sdist of this checkout."""
    dist, output = tmp_path_factory.mktemp("dist"), tmp_path_factory.mktemp("recipes")
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", dist, ROOT, cwd=dist)
    script = ROOT / ".github" / "release" / "recipes.py"
    run(sys.executable, script, "--dist", dist, "--output", output, cwd=dist)
    return output


def test_the_conda_recipe_states_what_the_package_needs(recipes: Path) -> None:
    recipe = yaml.safe_load((recipes / "conda" / "recipe.yaml").read_text("utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert recipe["context"] == {
        "version": __version__,
        "python_min": project["requires-python"].removeprefix(">="),
    }
    python, *packages = recipe["requirements"]["run"]
    assert python == "python >=${{ python_min }}"
    needed = {Requirement(each).name.lower(): Requirement(each).specifier for each in project["dependencies"]}
    stated = {name: SpecifierSet(bounds) for name, _, bounds in (each.partition(" ") for each in packages)}
    assert stated == needed
    (entry,) = recipe["build"]["python"]["entry_points"]
    name, _, target = entry.partition(" = ")
    assert project["scripts"] == {name: target}
    assert recipe["source"]["url"].startswith(project["urls"]["Repository"])


def test_the_mirror_installs_the_hooks_from_the_wheel(recipes: Path, wheel: Path, tmp_path: Path) -> None:
    mirror = recipes / "pre-commit"
    hooks = yaml.safe_load((mirror / ".pre-commit-hooks.yaml").read_text("utf-8"))
    ours = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text("utf-8"))
    assert [hook["entry"] for hook in hooks] == [hook["entry"] for hook in ours]
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    pip = (
        tmp_path / "venv" / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    )
    # As pre-commit does it.
    run(*pip, "--find-links", wheel.parent, mirror, *hooks[0]["additional_dependencies"], cwd=tmp_path)
    (tmp_path / "ds_config.json").write_text('{"train_batch_size": 8, "gradient_clipp1ng": 1.0}', "utf-8")
    command, *options = hooks[0]["entry"].split()
    output = run(tmp_path / "venv" / "bin" / command, *options, "ds_config.json", cwd=tmp_path, expect=1)
    assert "DSC102" in output


@pytest.mark.parametrize("program", ["uvx", "pipx"])
def test_tools_that_install_commands_run_the_wheel(program: str, wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "ds_config.json").write_text('{"train_batch_size": 8}', "utf-8")
    package = {"uvx": "uv", "pipx": "pipx"}[program]
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    bin_folder = tmp_path / "venv" / "bin"
    run(
        bin_folder / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        package,
        cwd=tmp_path,
    )
    command = {
        "uvx": (bin_folder / "uvx", "--cache-dir", tmp_path / "cache", "--from", wheel, "dsconfig"),
        "pipx": (bin_folder / "pipx", "run", "--spec", wheel, "dsconfig"),
    }[program]
    output = run(*command, "check", cwd=tmp_path)
    assert "no problems found" in output
