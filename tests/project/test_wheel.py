"""What users get: the wheel, built here and installed with its dependencies into an empty environment."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
    assert shipped == {"accelerate.json", "deepspeed.json", "deepspeed-in-yaml.json", "dsconfig.json"}


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
