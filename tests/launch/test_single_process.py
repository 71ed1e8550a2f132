"""World size of programs that a script starts without a launcher."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check

CONFIG = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 2},
}
TRAINER = """from transformers import HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model=model, args=args).train()
"""
FLAGS = "--deepspeed ds.json --output_dir out --per_device_train_batch_size 4"
SINGLE = [
    "python train.py",
    "python3 -u train.py",
    "CUDA_VISIBLE_DEVICES=1 nohup python train.py",
    "python -m train",
    "uv run train.py",
    "uv run --extra gpu python train.py",
    "poetry run python train.py",
    "conda run -n env --no-capture-output python train.py",
    "env HF_HOME=/data time python train.py",
    "numactl --interleave=all python train.py",
    "ray job submit --working-dir . -- python train.py",
]
UNKNOWN = [
    "srun python train.py",
    "RANK=$1 python train.py",
    "docker run --gpus all image python train.py",
    "parallel python train.py",
    "python -m lightning.fabric train.py",
    "python missing.py",
]
SPAWNING = [
    "from accelerate import notebook_launcher",
    "import torch.multiprocessing as mp; mp.spawn(main)",
    "import lightning as L",
    "from ray.train import ScalingConfig",
    "import subprocess; subprocess.run(['torchrun', 'x.py'])",
    "import os; os.environ['WORLD_SIZE'] = '8'",
]


def ranks(command: str, program: str = TRAINER, script: str = "run.sh") -> int | None:
    Path("ds.json").write_text(json.dumps(CONFIG))
    Path("train.py").write_text(program)
    Path(script).write_text(f"{command} {FLAGS}\n")
    return check(script).children[0].world_size


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize("command", SINGLE)
def test_python_starts_one_process(command: str) -> None:
    assert ranks(command) == 1


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize("command", UNKNOWN)
def test_other_commands_may_start_several(command: str) -> None:
    assert ranks(command) is None


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize("statement", SPAWNING)
def test_program_may_start_processes(statement: str) -> None:
    assert ranks("python train.py", f"{statement}\n{TRAINER}") is None


@pytest.mark.usefixtures("empty_repository")
def test_module_of_program_may_start_processes() -> None:
    Path("helper.py").write_text("from accelerate import notebook_launcher\n")
    assert ranks("python train.py", f"import helper\n{TRAINER}") is None


@pytest.mark.usefixtures("empty_repository")
def test_another_script_may_start_the_script_several_times() -> None:
    Path("submit.sh").write_text("srun --ntasks 8 ./run.sh\n")
    assert ranks("python train.py") is None


@pytest.mark.usefixtures("empty_repository")
def test_slurm_tasks_and_containers_are_unknown() -> None:
    assert ranks("#SBATCH --ntasks=8\npython train.py", script="run.sbatch") is None
    assert ranks("#SBATCH --ntasks=1\npython train.py", script="run.sbatch") == 1
    assert ranks("CMD python train.py", script="Dockerfile") is None


@pytest.mark.usefixtures("empty_repository")
def test_script_that_starts_a_program_with_its_own_config() -> None:
    Path("ds.json").write_text(json.dumps(CONFIG))
    Path("train.py").write_text(
        "from transformers import Trainer, TrainingArguments\n"
        "Trainer(args=TrainingArguments('out', per_device_train_batch_size=4, deepspeed='ds.json')).train()\n"
    )
    Path("run.sh").write_text("uv run python train.py\n")
    assert check("train.py").children[0].world_size == 1
