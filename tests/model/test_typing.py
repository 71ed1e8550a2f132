"""mypy and pyright agree on what is right and wrong in `typing_sample.py`."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SAMPLE = Path(__file__).with_name("typing_sample.py")
MARKED = {
    number for number, line in enumerate(SAMPLE.read_text().splitlines(), 1) if line.endswith("# error")
}


def run(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *command, str(SAMPLE)],
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


def test_mypy_complains_about_the_marked_lines() -> None:
    pytest.importorskip("mypy")
    found = re.findall(r"typing_sample\.py:(\d+): error", run("mypy", "--strict", "--no-error-summary"))
    assert {int(line) for line in found} == MARKED


def test_pyright_complains_about_the_marked_lines() -> None:
    pytest.importorskip("pyright")
    report = json.loads(run("pyright", "--outputjson", "--pythonpath", sys.executable))
    errors = [item for item in report["generalDiagnostics"] if item["severity"] == "error"]
    assert {item["range"]["start"]["line"] + 1 for item in errors} == MARKED
