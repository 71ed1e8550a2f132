"""Values of a program's own flags in its config dict, from the scripts that start it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.python.config_dicts import config_documents_in_source

PROGRAM = """\
import argparse, deepspeed
p = argparse.ArgumentParser()
p.add_argument("--micro", type=int, default=4)
p.add_argument("--lr", type=float, default=1e-4)
p.add_argument("--text")
p.add_argument("--stage", type=int, choices=[0, 1, 2, 3])
p.add_argument("--dtype", type=str, default="bf16")
p.add_argument("--offload", action="store_true")
p.add_argument("--sizes", type=int, nargs="+", default=1)
p = deepspeed.add_config_arguments(p)
args = p.parse_args()
MORE
deepspeed.initialize(model=m, config={"zero_optimization": {"stage": 1}, "x": VALUE})
"""


def value_of(expression: str, script: str, more: str = "") -> Any:
    Path("train.py").write_text(PROGRAM.replace("VALUE", expression).replace("MORE", more))
    Path("run.sh").write_text(script)
    # The documents of a text are kept for some seconds.
    path = os.path.abspath("train.py")
    (document,) = config_documents_in_source(Path(path).read_bytes(), path)
    value = document.value()
    assert isinstance(value, dict)
    return value["x"]


@pytest.mark.parametrize(
    ("expression", "flags", "value"),
    [
        ("args.micro", "", 4),
        ("args.micro", "--micro 8", 8),
        ("args.micro", "--micro=8", 8),
        ("args.micro", "--micro $N", UNKNOWN),
        ("args.micro", "$MORE", UNKNOWN),
        ("args.micro", '--micro 2 "$@"', 2),
        ("args.lr", "--lr 2e-5", 2e-5),
        ("args.text", "--text 8", "8"),
        ("args.text", "", UNKNOWN),
        ("args.stage", "--stage 3", 3),
        ("args.stage", "", UNKNOWN),
        ("args.offload", "--offload", True),
        ("args.offload", "", False),
        ("args.sizes", "--sizes 1 2", UNKNOWN),
        ("args.local_rank", "", UNKNOWN),
        ('"cpu" if args.offload else "none"', "--offload", "cpu"),
        ('args.dtype == "bf16"', "", True),
        ('args.dtype != "bf16"', "--dtype fp16", True),
        ("not args.offload", "", True),
        ("other.micro", "--micro 8", UNKNOWN),
    ],
)
def test_values_of_the_command(empty_repository: Path, expression: str, flags: str, value: Any) -> None:
    assert value_of(expression, f"deepspeed --num_gpus 8 train.py {flags}\n") == value


@pytest.mark.parametrize(
    ("script", "value"),
    [
        ("", UNKNOWN),
        ("deepspeed other.py --micro 8\n", UNKNOWN),
        ("deepspeed train.py --micro 8\ndeepspeed train.py --micro 8 --lr 1\n", 8),
        ("deepspeed train.py --micro 8\ndeepspeed train.py\n", UNKNOWN),
    ],
)
def test_several_commands(empty_repository: Path, script: str, value: Any) -> None:
    assert value_of("args.micro", script) == value


@pytest.mark.parametrize(
    ("more", "value"),
    [
        ("args.micro = 2", UNKNOWN),
        ("for k, v in c.items(): setattr(args, k, v)", UNKNOWN),
        ("vars(args).update(c)", UNKNOWN),
        ("args.__dict__.update(c)", UNKNOWN),
        ("p.set_defaults(micro=2)", UNKNOWN),
        ("args = argparse.Namespace(**c)", UNKNOWN),
        ("args = load(c)", UNKNOWN),
        ("p.add_argument('--micro', type=int, default=5)", UNKNOWN),
        ("print(vars(args))\nargs.other = 1", 8),
    ],
)
def test_what_the_program_may_change_is_unknown(empty_repository: Path, more: str, value: Any) -> None:
    assert value_of("args.micro", "deepspeed train.py --micro 8\n", more) == value


def test_the_batch_of_the_job_is_checked(empty_repository: Path) -> None:
    text = PROGRAM.replace("MORE", "").replace(
        '"x": VALUE', '"train_batch_size": 64, "train_micro_batch_size_per_gpu": args.micro'
    )
    Path("train.py").write_text(text)
    Path("run.sh").write_text("deepspeed --num_gpus 8 train.py --micro 3\n")
    assert "DSC203" in {each.code for each in check("train.py")}
