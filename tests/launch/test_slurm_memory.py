"""Memory that Slurm gives a job, from the `#SBATCH` lines of the script that starts it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check
from dsconfig.launch.shell.variables import slurm_memory_of_node

GIB = 1 << 30


@pytest.mark.parametrize(
    ("lines", "memory"),
    [
        ("--mem=64G", 64 * GIB),
        ("--mem 2000", 2000 << 20),
        ("--mem=1T", 1024 * GIB),
        ("--mem=0", None),
        ("--mem=$MEM", None),
        ("--mem-per-gpu=30G\n#SBATCH --gres=gpu:a100:4", 120 * GIB),
        ("--mem-per-gpu=30G", None),
        ("--mem-per-cpu=4G\n#SBATCH -c 8\n#SBATCH --ntasks-per-node=2", 64 * GIB),
        ("--mem-per-cpu=4G\n#SBATCH -c 8", None),
        ("--time=1:00", None),
    ],
)
def test_memory_of_a_node(lines: str, memory: int | None) -> None:
    assert slurm_memory_of_node(f"#!/bin/bash\n#SBATCH {lines}\nsrun python train.py\n") == memory


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(
    ("memory", "nodes", "count"), [("64G", 1, 1), ("512G", 1, 0), ("64G", 8, 0), ("0", 1, 0)]
)
def test_offload_beyond_the_limit_of_slurm(memory: str, nodes: int, count: int) -> None:
    config = {
        "train_batch_size": "auto",
        "bf16": {"enabled": True},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    }
    Path("ds.json").write_text(json.dumps(config))
    rendezvous = f"--nnodes {nodes} --rdzv_backend c10d --rdzv_endpoint head:29500 --nproc_per_node 4"
    Path("job.sh").write_text(
        f"#!/bin/bash\n#SBATCH --nodes={nodes}\n#SBATCH --mem={memory}\n"
        f"srun torchrun {rendezvous} train.py --deepspeed ds.json --bf16 --output_dir o"
        " --model_name_or_path meta-llama/Llama-2-7b-hf\n"
    )
    diagnostics = check("ds.json", target="0.19.8").diagnostics
    assert [each.code for each in diagnostics].count("DSC409") == count
