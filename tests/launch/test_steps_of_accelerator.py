"""Accumulation steps of programs that train with an `Accelerator` of their own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig.cli import main

CONFIG = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 2},
}
LINK = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  deepspeed_config_file: ds.json\nnum_processes: 4\n"
BLOCK = "distributed_type: DEEPSPEED\ndeepspeed_config:\n  zero_stage: 2\n{}num_processes: 4\n"
PROGRAM = """\
import argparse
from accelerate import Accelerator
parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int)
parser.add_argument("--gradient_accumulation_steps", type=int, default=5)
args = parser.parse_args()
accelerator = Accelerator({})
model, loader = accelerator.prepare(model, DataLoader(data, batch_size=args.per_device_train_batch_size))
"""
FROM_FLAG = "gradient_accumulation_steps=args.gradient_accumulation_steps"


def summary(capsys: pytest.CaptureFixture[str], launch: str, program: str, flags: str = "") -> str:
    """The batch in the line of the job that `run.sh` starts."""
    Path("ds.json").write_text(json.dumps(CONFIG))
    Path("acc.yaml").write_text(launch)
    Path("train.py").write_text(PROGRAM.format(program))
    command = "accelerate launch --config_file acc.yaml train.py --per_device_train_batch_size 2"
    Path("run.sh").write_text(f"{command} {flags}\n")
    main(["check", "."])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("run.sh:1")]
    return line.partition("4 ranks, ")[2].rpartition(",")[0]


@pytest.mark.parametrize(
    ("launch", "program", "flags", "batch"),
    [
        (LINK, FROM_FLAG, "", "batch 40 = 2 × 5 × 4"),
        (LINK, FROM_FLAG, "--gradient_accumulation_steps 3", "batch 24 = 2 × 3 × 4"),
        (LINK, "", "--gradient_accumulation_steps 3", "batch 8 = 2 × 1 × 4"),
        (LINK, "gradient_accumulation_steps=6", "", "batch 48 = 2 × 6 × 4"),
        (LINK, "**options", "", "batch unknown without the training arguments"),
        (LINK, "gradient_accumulation_plugin=plugin", "", "batch unknown without the training arguments"),
        (LINK, FROM_FLAG, "$MORE", "batch unknown without the training arguments"),
        (BLOCK.format(""), FROM_FLAG, "", "batch 40 = 2 × 5 × 4"),
        (BLOCK.format("  gradient_accumulation_steps: 8\n"), FROM_FLAG, "", "batch 64 = 2 × 8 × 4"),
    ],
)
@pytest.mark.parametrize("version", ["", "0.17.1"])
def test_steps_are_those_of_the_accelerator(
    empty_repository: Path,
    capsys: pytest.CaptureFixture[str],
    launch: str,
    program: str,
    flags: str,
    batch: str,
    version: str,
) -> None:
    """`accelerate launch` exports the number of the launch file, which then replaces that of the program."""
    if version:
        Path("requirements.txt").write_text(f"accelerate=={version}\n")
    assert summary(capsys, launch, program, flags) == batch
