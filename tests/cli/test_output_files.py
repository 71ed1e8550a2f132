"""No verb writes its result over a file that it read, whatever that is called there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Runs

CONFIG = '{"train_batch_size": 8, "zero_optimization": {"stage": 1}}\n'
FIT = ("--model", "llama-3-8b", "--sequence-length", "64", "--fit", "9TiB")
VERBS = {
    "check": ["check"],
    "fix": ["check", "--fix"],
    "resolve": ["resolve", "--world-size", "8"],
    "migrate": ["migrate", "--from", "0.14.5", "--to", "0.19.8"],
    "migrate, elasticity": ["migrate", "--from", "0.14.5", "--to", "0.19.8"],
    "memory": ["memory", "--world-size", "8", *FIT],
}
WAYS = ("itself", "dot", "whole path", "link", "hard link", "by a folder")


def name_of(way: str) -> str:
    """Another name of `ds.json`."""
    match way:
        case "link":
            os.symlink("ds.json", "out.json")
        case "hard link":
            os.link("ds.json", "out.json")
        case "by a folder":
            os.mkdir("x")
    names = {"itself": "ds.json", "dot": "./ds.json", "by a folder": "x/../ds.json"}
    return os.path.abspath("ds.json") if way == "whole path" else names.get(way, "out.json")


@pytest.fixture
def project(here: Path) -> Path:
    """A config, and launch files that lead to it."""
    (here / "ds.json").write_text(CONFIG)
    (here / "run.sh").write_text("deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n")
    (here / "launch.yaml").write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
    )
    (here / "recipe.yaml").write_text(
        "model_name_or_path: m\naccelerate_config: launch.yaml\ndataset_name: d\noutput_dir: o\n"
    )
    (here / "dsconfig.toml").write_text("fail-on = 'never'\n")
    return here


def held(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir() if path.is_file()}


def option(verb: str) -> str:
    return "--elasticity" if "elasticity" in verb else "-o"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("verb", VERBS)
def test_the_input_is_kept(project: Path, run: Runs, verb: str, way: str) -> None:
    out = name_of(way)
    before = held(project)
    code, _, err = run(*VERBS[verb], "ds.json", option(verb), out)
    assert (code, held(project)) == (2, before)
    assert f"{out} would overwrite the input ds.json: " in err


@pytest.mark.parametrize("launch", ["run.sh", "launch.yaml", "recipe.yaml"])
@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "memory"])
def test_what_a_launch_file_leads_to_is_kept(project: Path, run: Runs, verb: str, launch: str) -> None:
    for out in ("ds.json", launch, *(["launch.yaml"] if launch == "recipe.yaml" else [])):
        before = held(project)
        code, _, err = run(*VERBS[verb], launch, option(verb), out)
        assert (code, held(project)) == (2, before), out
        assert "would overwrite the input" in err


@pytest.mark.parametrize("verb", ["resolve", "migrate", "memory"])
def test_the_launch_file_of_a_config_is_kept(project: Path, run: Runs, verb: str) -> None:
    before = held(project)
    code, _, err = run(*VERBS[verb], "ds.json", "-o", "run.sh")
    assert (code, held(project)) == (2, before)
    assert "run.sh would overwrite the input " in err


def test_settings_that_were_read_are_kept(project: Path, run: Runs) -> None:
    before = held(project)
    assert run("check", "ds.json", "-o", "dsconfig.toml").code == 2
    assert run("check", ".", "-o", "ds.json").code == 2
    assert held(project) == before


def test_what_stdin_is_is_kept(project: Path) -> None:
    command = f"{sys.executable} -m dsconfig resolve --world-size 8 - -o ds.json < ds.json"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "ds.json would overwrite the input on stdin" in done.stderr
    assert held(project)["ds.json"] == CONFIG


def test_a_report_of_an_earlier_run_is_written_over(project: Path, run: Runs) -> None:
    for _ in range(2):
        assert run("check", ".", "--output-format", "json", "-o", "report.json").code == 0
        assert run("resolve", "ds.json", "--world-size", "8", "-o", "out.json").code == 0
