"""The GitHub Action: its script, run as a runner does, and its problem matcher on what the command prints."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.source import ROOT

FOLDER = ROOT / ".github" / "action"
CONFIG = '{\n  "train_batch_size": 8,\n  "prescale_gradients": 1,\n  "fp16": {"enabled": [1]}\n}\n'


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "configs of us").mkdir()
    (tmp_path / "configs of us" / "ds_config.json").write_text(CONFIG)
    return tmp_path


def acted(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the script with the inputs of the action and the variables of a runner."""
    variables = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "GITHUB_ACTION_PATH": str(FOLDER),
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary"),
        **{f"INPUT_{name.upper()}": text for name, text in inputs.items()},
    }
    return subprocess.run(
        ["bash", FOLDER / "check.sh"], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )


def test_problems_are_annotated_and_fail(repository: Path) -> None:
    done = acted(repository, arguments="--target=0.19.8", sarif="out.sarif")
    assert done.returncode == 1, done.stderr
    (pattern,) = json.loads((FOLDER / "matcher.json").read_text())["problemMatcher"][0]["pattern"]
    lines = done.stdout.splitlines()
    assert lines[0] == f"::add-matcher::{ROOT}/.github/action/matcher.json"
    assert lines[-1] == "::remove-matcher owner=dsconfig::"
    found = [match for match in (re.match(pattern["regexp"], line) for line in lines) if match]
    names = ("file", "line", "code", "severity")
    assert [tuple(each[pattern[name]] for name in names) for each in found] == [
        ("configs of us/ds_config.json", "3", "DSC113", "warning"),
        ("configs of us/ds_config.json", "4", "DSC110", "error"),
    ]
    assert json.loads((repository / "out.sarif").read_text())["runs"][0]["results"]
    assert (repository / "output").read_text() == "sarif=out.sarif\n"
    assert (
        (repository / "summary")
        .read_text()
        .startswith("<!-- dsconfig -->\n### DeepSpeed configs: 1 error, 1 warning")
    )


def test_a_clean_repository_passes(repository: Path) -> None:
    done = acted(repository, arguments="--fail-on=error\n--ignore=DSC110,DSC113", summary="false")
    assert done.returncode == 0, done.stdout
    assert not (repository / "summary").exists()


def test_no_input_becomes_a_command(repository: Path) -> None:
    done = acted(repository, paths="$(touch owned)\n`touch owned`; touch owned", arguments="--target=0.19.8")
    assert done.returncode == 2
    assert not (repository / "owned").exists()
    action = yaml.safe_load((FOLDER / "action.yml").read_text())
    for step in action["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert re.search(r"@[0-9a-f]{40}$", step["uses"]) if "uses" in step else step["shell"] == "bash"
    assert {name.upper() for name in action["inputs"]} == {
        name.removeprefix("INPUT_") for name in action["runs"]["steps"][-1]["env"]
    }


def test_the_matcher_is_that_of_the_extension() -> None:
    manifest = json.loads((ROOT / "editors" / "vscode" / "package.json").read_text("utf-8"))
    (matcher,) = manifest["contributes"]["problemMatchers"]
    (pattern,) = json.loads((FOLDER / "matcher.json").read_text())["problemMatcher"][0]["pattern"]
    # GitHub knows these two severities, and takes any other word for an error.
    assert pattern["regexp"] == matcher["pattern"]["regexp"].replace("|info", "")
