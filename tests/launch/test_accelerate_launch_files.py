"""Accelerate launch files: recognition by content, and checks of the config they name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check
from dsconfig.check.discover import find_configs
from dsconfig.cli import main

YAML = """\
distributed_type: DEEPSPEED
num_processes: 4
deepspeed_config:
  deepspeed_config_file: {name}
  zero3_init_flag: true
"""
BLOCK = """\
distributed_type: DEEPSPEED
mixed_precision: fp16
deepspeed_config:
  zero_stage: 7
  offload_optimizer_device: disk
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Project with a launch file and its config in different directories."""
    (tmp_path / ".git").mkdir()
    for folder in ("launch", "ds"):
        (tmp_path / folder).mkdir()
    (tmp_path / "launch" / "default_config.yaml").write_text(YAML.format(name="ds/z3.json"))
    (tmp_path / "launch" / "other.yaml").write_text("distributed_type: NO\n")
    config = {"train_batch_size": 9, "zero_optimization": {"stage": 3}, "amp": {"enabled": True}}
    (tmp_path / "ds" / "z3.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_named_config_is_checked_too(project: Path) -> None:
    report = check(str(project / "launch" / "default_config.yaml"))
    (child,) = report.children
    assert not report.diagnostics
    assert report.world_size == child.world_size == 4
    assert Path(child.name) == Path("ds/z3.json")
    assert {"DSC104", "DSC203"} & {d.code for d in child}
    assert not report.ok


@pytest.mark.parametrize("name", ["missing.json", "/nowhere/ds.json"])
def test_a_named_config_that_is_elsewhere_is_a_note(project: Path, name: str) -> None:
    path = project / "launch" / "default_config.yaml"
    path.write_text(YAML.format(name=name))
    report = check(str(path))
    assert report.ok
    assert not report.children
    assert name in report.notes[0]


def test_the_named_config_is_read_as_strict_json(project: Path) -> None:
    (project / "z3.yaml").write_text("train_batch_size: 8\n")
    path = project / "launch" / "default_config.yaml"
    path.write_text(YAML.format(name="../z3.yaml"))
    (child,) = check(str(path)).children
    assert "DSC001" in {d.code for d in child}


def test_the_block_is_judged_as_the_config_that_it_makes() -> None:
    report = check(_json(BLOCK))
    effects = {d.dotted: d.effect.value for d in report}
    assert effects["deepspeed_config.zero_stage"] == "rejected"
    assert effects["deepspeed_config.offload_optimizer_device"] == "rejected"


def _json(text: str) -> str:
    """Convert the launch file to JSON, which Accelerate reads as well."""
    import yaml

    return json.dumps(yaml.safe_load(text))


def test_directories_are_searched_for_launch_files(project: Path) -> None:
    assert list(find_configs(".")) == ["ds/z3.json", "launch/default_config.yaml"]


def test_output_names_the_right_file(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "launch/default_config.yaml", "--output-format", "json", "-q"]) == 1
    files = {file["path"]: file["diagnostics"] for file in json.loads(capsys.readouterr().out)["files"]}
    assert set(files) == {"launch/default_config.yaml", "ds/z3.json"}
    assert files["ds/z3.json"]
    assert not files["launch/default_config.yaml"]


def test_a_config_that_is_named_is_checked_once(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", ".", "--output-format", "json", "-q"]) == 1
    files = [file["path"] for file in json.loads(capsys.readouterr().out)["files"]]
    assert sorted(files) == ["ds/z3.json", "launch/default_config.yaml"]


@pytest.mark.parametrize(
    ("transformers", "is_affected"), [("4.46.1", True), ("4.47.1", False), ("4.49.0", False)]
)
def test_no_sync_of_a_trainer_behind_a_launch_file(
    empty_repository: Path, transformers: str, is_affected: bool
) -> None:
    Path("requirements.txt").write_text(
        f"accelerate==1.2.0\ntransformers=={transformers}\ndeepspeed==0.16.4\n"
    )
    block = "  zero_stage: 2\n  gradient_accumulation_steps: 4\n"
    Path("a.yaml").write_text(f"distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n{block}")
    codes = {diagnostic.code for diagnostic in check("a.yaml")}
    assert ("DSC813" in codes) == is_affected


@pytest.mark.parametrize("has_script", [False, True])
def test_no_sync_of_a_trainer_whose_version_is_not_pinned(empty_repository: Path, has_script: bool) -> None:
    Path("requirements.txt").write_text("accelerate==1.2.0\ntransformers\ndeepspeed==0.16.4\n")
    block = "  zero_stage: 2\n  gradient_accumulation_steps: 4\n"
    Path("a.yaml").write_text(f"distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n{block}")
    if has_script:
        Path("run.sh").write_text("accelerate launch --config_file a.yaml train.py --output_dir out\n")
        Path("train.py").write_text(
            "from transformers import HfArgumentParser, Trainer, TrainingArguments\n"
            "args = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()[0]\n"
            "Trainer(args=args).train()\n"
        )
    assert ("DSC813" in {diagnostic.code for diagnostic in check("a.yaml")}) != has_script
