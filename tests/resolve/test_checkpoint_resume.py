"""Checkpoint folders against configs, from file names alone."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from dsconfig.cli import main
from dsconfig.resolve.checkpoint_resume import read_checkpoint

STAGE_2 = {"train_batch_size": 16, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}
STAGE_3 = {**STAGE_2, "zero_optimization": {"stage": 3}}
FP16 = {"train_batch_size": 16, "fp16": {"enabled": True}, "zero_optimization": {"stage": 2}}
UNIVERSAL = {**STAGE_2, "checkpoint": {"load_universal": True}}


def states(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        with zipfile.ZipFile(folder / name, "w") as archive:
            archive.writestr("archive/data.pkl", b"never unpickled")


def stage_2(root: Path, ranks: int = 4, prefix: str = "bf16_", step: str = "global_step10") -> Path:
    names = [f"{prefix}zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(ranks)]
    states(root / step, "mp_rank_00_model_states.pt", *names)
    (root / "latest").write_text(step)
    return root


def stage_3(root: Path, ranks: int = 4) -> Path:
    for rank in range(ranks):
        states(root / "global_step10", f"zero_pp_rank_{rank}_mp_rank_00_model_states.pt")
        states(root / "global_step10", f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt")
    (root / "latest").write_text("global_step10")
    return root


def resume(
    root: Path, config: dict[str, Any], capsys: pytest.CaptureFixture[str], *options: str
) -> dict[str, Any]:
    (root.parent / "ds.json").write_text(json.dumps(config))
    arguments = [
        "resume",
        str(root),
        str(root.parent / "ds.json"),
        "--target",
        "0.19.8",
        "--output-format",
        "json",
    ]
    code = main([*arguments, *options])
    data: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == (data["verdict"] != "loads")
    return data


def test_same_ranks_load(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = resume(stage_2(tmp_path / "out"), STAGE_2, capsys, "--world-size", "4")
    assert (data["verdict"], data["obstacles"]) == ("loads", [])
    assert data["checkpoint"]["layout"] == "stage 1 or 2"


def test_other_ranks_need_a_conversion(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = stage_2(tmp_path / "out")
    (obstacle,) = resume(root, STAGE_2, capsys, "--world-size", "6")["obstacles"]
    assert "used a DP world size of 4 but the current world size is 6" in obstacle["message"]
    (command,) = obstacle["commands"]
    step = root / "global_step10"
    assert command.endswith(f"--input_folder {step} --output_folder {step}_universal --inject_missing_state")
    (old,) = resume(root, STAGE_2, capsys, "--world-size", "6", "--target", "0.9.0")["obstacles"]
    assert old["commands"] == []
    assert "0.11.2 or later" in old["remedies"][0]


def test_stage_3_is_converted_since_another_release(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = stage_3(tmp_path / "out")
    (obstacle,) = resume(root, STAGE_3, capsys, "--world-size", "2")["obstacles"]
    assert "--inject_missing_state" not in obstacle["commands"][0]
    (old,) = resume(root, STAGE_3, capsys, "--world-size", "2", "--target", "0.14.4")["obstacles"]
    assert "0.14.5 or later" in old["remedies"][0]


def test_unknown_world_size_is_a_question(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = resume(stage_2(tmp_path / "out"), STAGE_2, capsys)
    assert data["verdict"] == "unknown"
    assert data["obstacles"][0]["remedies"] == ["pass `--world-size N`"]


@pytest.mark.parametrize(
    ("config", "part"),
    [
        (STAGE_3, "the config uses stage 3"),
        (FP16, "looks for `zero_…_optim_states.pt`"),
        (UNIVERSAL, "not in the universal format"),
        (
            {**STAGE_2, "tensor_parallel": {"autotp_size": 2}},
            "1 ranks split the model when it was saved, and 2",
        ),
        (
            {**STAGE_2, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme"}}},
            "no folder `offloaded_tensors`",
        ),
    ],
)
def test_config_that_looks_for_other_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], config: dict[str, Any], part: str
) -> None:
    data = resume(stage_2(tmp_path / "out"), config, capsys, "--world-size", "4")
    assert data["verdict"] == "blocked"
    assert any(part in each["message"] for each in data["obstacles"])


def test_incomplete_and_broken_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = stage_2(tmp_path / "out")
    step = root / "global_step10"
    (step / "bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt").unlink()
    last = step / "bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt"
    last.write_bytes(last.read_bytes()[:40])
    missing, broken = resume(root, STAGE_2, capsys, "--world-size", "4")["obstacles"]
    assert "`bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt` is missing" in missing["message"]
    assert "`bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt` is empty or cut off" in broken["message"]


def test_universal_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "out"
    states(root / "global_step10_universal", "mp_rank_00_model_states.pt")
    (root / "global_step10_universal" / "zero" / "weight").mkdir(parents=True)
    (root / "latest").write_text("global_step10_universal")
    (obstacle,) = resume(root, UNIVERSAL, capsys, "--world-size", "3")["obstacles"]
    assert "no file `latest_universal`" in obstacle["message"]
    (root / "latest_universal").write_text("global_step10_universal")
    assert resume(root, UNIVERSAL, capsys, "--world-size", "3")["verdict"] == "loads"
    (obstacle,) = resume(root, STAGE_2, capsys, "--world-size", "3")["obstacles"]
    assert obstacle["remedies"] == ['set `"checkpoint": {"load_universal": true}` in the config']


def test_folders_of_the_trainer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "out"
    for number in (5, 30, 4):
        stage_2(root / f"checkpoint-{number}", step=f"global_step{number}")
        (root / f"checkpoint-{number}" / "trainer_state.json").write_text("{}")
    (root / "model.safetensors").write_bytes(b"")
    checkpoint = resume(root, STAGE_2, capsys, "--world-size", "4")["checkpoint"]
    assert checkpoint["path"].endswith("checkpoint-30/global_step30")
    assert checkpoint["is_of_trainer"]


def test_folder_of_one_step_and_no_latest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = stage_2(tmp_path / "out")
    (root / "latest").unlink()
    (obstacle,) = resume(root / "global_step10", STAGE_2, capsys, "--world-size", "4")["obstacles"]
    assert "loads nothing, and only logs a warning" in obstacle["message"]


def test_weights_alone_and_lost_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = tmp_path / "out"
    root.mkdir()
    (root / "model-00001-of-00002.safetensors").write_bytes(b"")
    (obstacle,) = resume(root, STAGE_2, capsys, "--world-size", "4")["obstacles"]
    assert "no DeepSpeed states" in obstacle["message"]
    (root / "latest").write_text("global_step7\n")
    (obstacle,) = resume(root, STAGE_2, capsys, "--world-size", "4")["obstacles"]
    assert "`latest` names `global_step7`" in obstacle["message"]


def test_text_output(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = stage_2(tmp_path / "out")
    (tmp_path / "ds.json").write_text(json.dumps(STAGE_2))
    assert main(["resume", str(root), str(tmp_path / "ds.json"), "--world-size", "6"]) == 1
    text = capsys.readouterr().out
    assert "4 data-parallel ranks, bf16" in text
    assert "    python -m deepspeed.checkpoint.ds_to_universal" in text


def test_folders_without_a_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ds.json").write_text(json.dumps(STAGE_2))
    assert main(["resume", str(tmp_path), str(tmp_path / "ds.json")]) == 2
    assert "no checkpoint of DeepSpeed" in capsys.readouterr().err
    assert main(["resume", str(tmp_path / "none"), str(tmp_path / "ds.json")]) == 2
    (tmp_path / "latest").write_bytes(b"\xff\0../../etc\n")
    assert read_checkpoint(str(tmp_path)) is not None
