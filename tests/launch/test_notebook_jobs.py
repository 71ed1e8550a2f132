"""Jobs that a notebook starts: shell commands in cells, and processes that its code starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check, resolve

CONFIG = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 2},
}
FLAGS = "train.py --deepspeed ds.json --output_dir out --per_device_train_batch_size 4"
TRAINER = """from transformers import Trainer, TrainingArguments
def train():
    args = TrainingArguments("out", per_device_train_batch_size=4, deepspeed="ds.json")
    Trainer(model=model, args=args).train()
"""


def write_notebook(*cells: str) -> None:
    Path("ds.json").write_text(json.dumps(CONFIG))
    code: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {},
        "cells": [{**code, "source": each} for each in cells],
    }
    Path("train.ipynb").write_text(json.dumps(notebook))


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(
    ("cells", "ranks"),
    [
        ([f"!deepspeed --num_gpus 4 {FLAGS}"], 4),
        ([f"%%bash\nexport N=2\ntorchrun --nproc_per_node $N {FLAGS}"], 2),
        (["%env CUDA_VISIBLE_DEVICES=0,1,2", f"!deepspeed {FLAGS}"], 3),
        ([f"{TRAINER}\ntrain()"], None),
        (["import os\nos.environ['WORLD_SIZE'] = '1'", f"{TRAINER}\ntrain()"], 1),
        (["import os\nif True:\n    os.environ['WORLD_SIZE'] = '1'", f"{TRAINER}\ntrain()"], None),
        ([TRAINER, "from accelerate import notebook_launcher\nnotebook_launcher(train, num_processes=8)"], 8),
        ([TRAINER, "from accelerate import notebook_launcher\nnotebook_launcher(train, (), 8)"], 8),
        (
            [TRAINER, "from accelerate import notebook_launcher\nnotebook_launcher(train, num_processes=n)"],
            None,
        ),
    ],
)
def test_world_size(cells: list[str], ranks: int | None) -> None:
    write_notebook(*cells)
    report = check("train.ipynb")
    assert report.children[0].name == "ds.json"
    assert report.children[0].world_size == ranks
    if ranks is not None:
        assert resolve("train.ipynb").train_batch_size == 4 * ranks


@pytest.mark.usefixtures("empty_repository")
def test_recipes_of_a_justfile() -> None:
    Path("ds.json").write_text(json.dumps(CONFIG))
    Path("justfile").write_text(
        'gpus := "4"\n'
        "# deepspeed --num_gpus 16 is too much\n"
        f"train:\n    @deepspeed --num_gpus {{{{gpus}}}} {FLAGS}\n\n"
        f"small:\n    #!/usr/bin/env bash\n    N=2\n    deepspeed --num_gpus $N {FLAGS}\n\n"
        f"other n:\n    deepspeed --num_gpus {{{{n}}}} {FLAGS}\n"
    )
    assert [each.world_size for each in check("justfile").jobs] == [4, 2, None]
