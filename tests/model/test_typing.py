"""mypy and pyright agree on what is right and wrong in `typing_sample.py`, and take all of `real_use.py`."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import dsconfig
from tests.model import real_use

ROOT = Path(__file__).parents[2]
SAMPLE = Path(__file__).with_name("typing_sample.py")
USE = Path(__file__).with_name("real_use.py")
MARKED = {
    number for number, line in enumerate(SAMPLE.read_text().splitlines(), 1) if line.endswith("# error")
}


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, str(SAMPLE), str(USE)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    return done.stdout


def test_the_sample_holds_both_kinds() -> None:
    assert len(MARKED) >= 20
    assert len(SAMPLE.read_text().splitlines()) > 2 * len(MARKED)


def test_the_real_use_silences_nobody() -> None:
    text = USE.read_text()
    assert len(text.splitlines()) >= 60
    assert text.startswith("# pyright: strict\n")
    assert not re.search(r"type: ignore|pyright: ignore|\bAny\b|\bcast\b", text)


def test_mypy_complains_about_the_marked_lines() -> None:
    found = re.findall(r"(\w+)\.py:(\d+): error", run("mypy", "--strict", "--no-error-summary"))
    assert {file for file, _ in found} == {SAMPLE.stem}
    assert {int(line) for _, line in found} == MARKED


def test_pyright_complains_about_the_marked_lines() -> None:
    report = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable))
    found = [item for item in report["generalDiagnostics"] if item["severity"] in ("error", "warning")]
    assert {Path(item["file"]) for item in found} == {SAMPLE}
    assert {item["range"]["start"]["line"] + 1 for item in found} == MARKED


def test_the_real_use_runs(tmp_path: Path) -> None:
    handed = real_use.main(tmp_path)
    assert dsconfig.check(handed, world_size=8).ok
    assert list(handed)[:3] == ["train_micro_batch_size_per_gpu", "gradient_clipping", "bf16"]


def exported(module: str) -> set[str]:
    """The names that a stub, or a module that lists them in `__all__`, exports."""
    path = ROOT.joinpath(*module.split("."))
    files = (path.with_suffix(".pyi"), path / "__init__.pyi", path.with_suffix(".py"))
    tree = ast.parse(next(file for file in files if file.exists()).read_text("utf-8"))
    names: set[str] = set()
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")], value=value):
                return set(ast.literal_eval(value))
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(name)):
                names.add(name)
            case ast.ImportFrom(module=source, names=[ast.alias("*")]):
                names |= exported(str(source))
            case ast.ImportFrom(names=aliases):
                names |= {alias.asname for alias in aliases if alias.asname == alias.name}
    return names


def test_the_stub_offers_what_there_is() -> None:
    names = exported("dsconfig")
    assert names == set(dsconfig.__all__)
    assert [name for name in names if not hasattr(dsconfig, name)] == []
    assert {"BuildError", "ConfigError", "Fp16", "OffloadOptimizer"} <= names
    assert len(dir(dsconfig)) <= 80, "what nobody types is in `dsconfig.types`"
    types = exported("dsconfig.types")
    assert types == set(dir(dsconfig.types))
    assert {"AdamWParams", "ZeroOptimizationDict"} <= types
