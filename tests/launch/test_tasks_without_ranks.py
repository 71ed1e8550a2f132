"""Tasks of Slurm and MPI, which a Trainer counts as ranks only with `LOCAL_RANK`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check

TRAINER = "from transformers import Trainer, TrainingArguments, HfArgumentParser\n"
TRAINER += (
    "(a,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()\nTrainer(args=a).train()\n"
)
ACCELERATOR = "from accelerate import Accelerator\nmodel = Accelerator().prepare(model)\n"
OWN = "import deepspeed\nengine, *_ = deepspeed.initialize(args=args, model=model)\n"
OF_TASK = 'import os\nos.environ["LOCAL_RANK"] = os.environ["SLURM_LOCALID"]\n'


@pytest.mark.parametrize(
    ("command", "program", "flag", "ranks"),
    [
        ("srun -n 8 python train.py", TRAINER, "--deepspeed", None),
        ("mpirun -np 8 python train.py", TRAINER, "--deepspeed", None),
        ("srun -n 8 python train.py", OF_TASK + TRAINER, "--deepspeed", 8),
        ("mpirun -np 8 python train.py", "from mpi4py import MPI\n" + TRAINER, "--deepspeed", 8),
        ("export LOCAL_RANK=$SLURM_LOCALID\nsrun -n 8 python train.py", TRAINER, "--deepspeed", 8),
        ("srun -n 1 python train.py", TRAINER, "--deepspeed", 1),
        ("srun -n 1 torchrun --nproc_per_node 8 train.py", TRAINER, "--deepspeed", 8),
        # deepspeed comm/comm.py:init_distributed asks MPI for the ranks.
        ("srun -n 8 python train.py --deepspeed", OWN, "--deepspeed_config", 8),
        ("mpirun -np 8 python train.py --deepspeed", OWN, "--deepspeed_config", 8),
    ],
)
def test_tasks(empty_repository: Path, command: str, program: str, flag: str, ranks: int | None) -> None:
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
    Path("ds.json").write_text(json.dumps(config))
    Path("train.py").write_text(program)
    Path("run.sh").write_text(f"{command} {flag} ds.json --output_dir out\n")
    assert [child.world_size for child in check("run.sh").children] == [ranks]


def test_the_number_that_a_launch_lacks_is_named(
    empty_repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dsconfig.cli import main

    Path("ds.json").write_text(
        json.dumps({"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 2}})
    )
    Path("train.py").write_text(TRAINER)
    Path("run.sh").write_text("srun -n 8 python train.py --deepspeed ds.json --output_dir out\n")
    main(["check", "."])
    assert "8 ranks" not in (output := capsys.readouterr().out)
    assert "run.sh:1: Trainer with ds.json, world size unknown (`$LOCAL_RANK`)" in output
