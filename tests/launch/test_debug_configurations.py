"""Debug configurations of Visual Studio Code that start a job, found in a folder and read as JSON with comments."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig.cli import main

CONFIG = {
    "train_micro_batch_size_per_gpu": "auto",
    "train_batch_size": "auto",
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 2},
}
FLAGS = ["--output_dir", "o", "--per_device_train_batch_size", "4", "--gradient_accumulation_steps", "2"]
TRAIN = ["train.py", "--deepspeed", "${workspaceFolder}/ds.json", *FLAGS]


def summaries(capsys: pytest.CaptureFixture[str], **configuration: object) -> list[str]:
    """The lines of the jobs that a folder with one debug configuration has."""
    Path("ds.json").write_text(json.dumps(CONFIG))
    Path(".vscode").mkdir()
    entry = json.dumps({"name": "a", "type": "debugpy", "request": "launch", **configuration})
    text = f'{{\n  // IntelliSense\n  "version": "0.2.0",\n  "configurations": [\n    {entry},\n  ],\n}}\n'
    Path(".vscode/launch.json").write_text(text)
    main(["check", "."])
    return [line for line in capsys.readouterr().out.splitlines() if line.startswith(".vscode")]


@pytest.mark.parametrize(
    ("configuration", "result"),
    [
        (
            {"module": "deepspeed.launcher.runner", "args": ["--num_gpus", "2", *TRAIN]},
            "2 ranks, batch 16 = 4 × 2 × 2",
        ),
        (
            {"program": "/opt/env/bin/torchrun", "args": ["--nproc_per_node=4", *TRAIN]},
            "4 ranks, batch 32 = 4 × 2 × 4",
        ),
        (
            {"module": "deepspeed.launcher.runner", "args": TRAIN, "env": {"CUDA_VISIBLE_DEVICES": "0,1,2"}},
            "3 ranks, batch 24 = 4 × 2 × 3",
        ),
        (
            {
                "type": "python",
                "module": "torch.distributed.run",
                "args": " ".join(["--nproc_per_node=2", *TRAIN]),
            },
            "2 ranks",
        ),
    ],
)
@pytest.mark.usefixtures("empty_repository")
def test_jobs(capsys: pytest.CaptureFixture[str], configuration: dict[str, object], result: str) -> None:
    (line,) = summaries(capsys, **configuration)
    assert line.startswith(".vscode/launch.json: Visual Studio Code, Trainer with ds.json, ")
    assert result in line
    assert line.endswith("no problems found")


@pytest.mark.parametrize(
    "configuration",
    [
        {"program": "${file}", "args": TRAIN},
        {"request": "attach", "module": "deepspeed", "args": TRAIN},
        {"type": "cppdbg", "program": "deepspeed", "args": TRAIN},
        {"module": "deepspeed", "args": [{}]},
        {"module": 1},
    ],
)
@pytest.mark.usefixtures("empty_repository")
def test_other_configurations(capsys: pytest.CaptureFixture[str], configuration: dict[str, object]) -> None:
    assert not summaries(capsys, **configuration)
