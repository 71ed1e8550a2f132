"""Training arguments and world size of a program whose code has the config or its name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dsconfig import check, resolve
from dsconfig.check.report import Report

IMPORTS = "import argparse\nfrom transformers import TrainingArguments\nfrom trl import SFTConfig\n"
PARSES = "p = argparse.ArgumentParser()\np.add_argument('--lr', default=1e-5)\nargs = p.parse_args()\n"
DICT = (
    "ds = {'train_micro_batch_size_per_gpu': 'auto', 'gradient_accumulation_steps': 'auto',"
    " 'zero_optimization': {'stage': 2}, 'optimizer': {'type': 'AdamW', 'params': {'lr': 2e-5}}}\n"
)


def mismatches(report: Report) -> list[str]:
    return [each.dotted for each in report if each.code == "DSC809"]


@pytest.mark.parametrize(
    ("call", "script", "keys"),
    [
        ("TrainingArguments('o', deepspeed=ds, learning_rate=1e-4)", "", ["optimizer.params.lr"]),
        ("TrainingArguments('o', deepspeed=ds, learning_rate=2e-5)", "", []),
        ("TrainingArguments('o', deepspeed=ds)", "", ["optimizer.params.lr"]),
        ("SFTConfig('o', deepspeed=ds)", "", []),
        ("TrainingArguments('o', deepspeed=ds, learning_rate=RATE)", "", ["optimizer.params.lr"]),
        ("TrainingArguments('o', deepspeed=ds, learning_rate=args.lr)", "", []),
        ("TrainingArguments('o', deepspeed=ds, learning_rate=args.lr * 2)", "python train.py --lr 1e-4", []),
        (
            "TrainingArguments('o', deepspeed=ds, learning_rate=args.lr)",
            "torchrun train.py --lr 1e-4",
            ["optimizer.params.lr"],
        ),
        ("TrainingArguments('o', deepspeed=ds, learning_rate=args.lr)", "torchrun train.py --lr 2e-5", []),
        (
            "TrainingArguments('o', deepspeed=ds, learning_rate=args.lr)",
            "torchrun train.py",
            ["optimizer.params.lr"],
        ),
        (
            "TrainingArguments('o', deepspeed=ds, learning_rate=args.lr)",
            "torchrun train.py --lr 2e-5\ntorchrun train.py --lr 1e-4",
            [],
        ),
        ("TrainingArguments('o', deepspeed=ds, **options)", "", []),
        ("a = TrainingArguments('o', deepspeed=ds)\na.learning_rate = x\n", "", []),
        ("HfArgumentParser(TrainingArguments)\nTrainingArguments('o', deepspeed=ds)", "", []),
    ],
)
def test_the_arguments_are_those_of_the_code_and_its_command(
    empty_repository: Path, call: str, script: str, keys: list[str]
) -> None:
    Path("train.py").write_text(f"{IMPORTS}{PARSES}RATE = 1e-4\n{DICT}{call}\n")
    if script:
        Path("run.sh").write_text(f"{script}\n")
    assert mismatches(check("train.py")) == keys


def test_advice_names_the_code(empty_repository: Path) -> None:
    Path("train.py").write_text(f"{IMPORTS}{DICT}TrainingArguments('o', deepspeed=ds, learning_rate=1e-4)\n")
    (diagnostic,) = [each for each in check("train.py") if each.code == "DSC809"]
    assert "in the code" in (diagnostic.help or "")


@pytest.mark.parametrize(
    ("script", "ranks"),
    [
        ("deepspeed --num_gpus 4 train.py", 4),
        ("torchrun --nnodes 2 --nproc_per_node 4 train.py", 8),
        ("accelerate launch --num_processes 16 train.py", 16),
        ("torchrun --nproc_per_node 4 train.py\ntorchrun --nproc_per_node 8 train.py", None),
        ("cp train.py other.py", None),
        ("torchrun --nproc_per_node 4 other.py", None),
    ],
)
@pytest.mark.parametrize("is_dict", [True, False])
def test_the_script_that_starts_the_program_gives_the_world_size(
    empty_repository: Path, script: str, ranks: int | None, *, is_dict: bool
) -> None:
    config = {"train_micro_batch_size_per_gpu": 3, "zero_optimization": {"stage": 1}}
    Path("ds.json").write_text(json.dumps(config))
    Path("train.py").write_text(
        f"import deepspeed\ndeepspeed.initialize(config={config if is_dict else 'ds.json'!r})\n"
    )
    Path("run.sh").write_text(f"{script}\n")
    report = check("train.py" if is_dict else "ds.json")
    assert report.reader.processes == ranks
    if ranks is not None:
        assert resolve("train.py" if is_dict else "ds.json").triplet == (3 * ranks, 3, 1)
