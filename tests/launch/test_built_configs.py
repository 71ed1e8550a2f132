"""Configs that a program builds as a dict for one command, with functions and with the values of its flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dsconfig.cli import main
from dsconfig.document.located_tree import UNKNOWN
from dsconfig.launch.launch_commands import find_program_commands
from dsconfig.launch.python.built_configs import BuiltConfig, configs_built_by_program
from dsconfig.launch.shell.interpreter import ShellInterpreter

BUILDER = """\
import torch
GLOBAL_BATCH = 32

def get_train_ds_config(offload, stage=2, dtype="fp16", clip=None):
    device = "cpu" if offload else "none"
    if dtype == "fp16":
        data_type, enabled = "fp16", {"enabled": True, "loss_scale_window": 100}
    elif dtype == "bf16":
        data_type, enabled = "bf16", {"enabled": True}
    zero = {"stage": stage, "offload_optimizer": {"device": device}}
    if stage == 3:
        zero["stage3_max_live_parameters"] = 3e7
    config = {
        "train_batch_size": GLOBAL_BATCH,
        "train_micro_batch_size_per_gpu": 4,
        "zero_optimization": zero,
        data_type: enabled,
    }
    if clip is not None:
        config["gradient_clipping"] = clip
    return config
"""
PROGRAM = """\
import argparse, os, deepspeed, torch
from transformers.deepspeed import HfDeepSpeedConfig
from lib.builder import get_train_ds_config

def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--zero_stage", type=int, default=0)
    parser.add_argument("--micro", type=int, default=16)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--dtype", type=str, default="fp16")
    parser.add_argument("--clip", type=float)
    parser.add_argument("--offload", action="store_true")
    parser = deepspeed.add_config_arguments(parser)
    args = parser.parse_args()
    return args

def make_model(name, ds_config=None):
    if ds_config is not None and ds_config["zero_optimization"]["stage"] == 3:
        keep = HfDeepSpeedConfig(ds_config)
    return build(name)

def main():
    args = parse_args()
    ds_config = get_train_ds_config(offload=args.offload, stage=args.zero_stage, dtype=args.dtype, clip=args.clip)
    ds_config["train_micro_batch_size_per_gpu"] = args.micro
    ds_config["train_batch_size"] = args.micro * torch.distributed.get_world_size() * args.steps
    MORE
    model = make_model("facebook/opt", ds_config)
    engine, *_ = deepspeed.initialize(args=args, model=model, config=ds_config)

if __name__ == "__main__":
    main()
"""


def write_program(program: str) -> None:
    Path("lib").mkdir()
    Path("lib/__init__.py").touch()
    Path("lib/builder.py").write_text(BUILDER)
    Path("main.py").write_text(program)


def built_configs(command: str, program: str = PROGRAM) -> tuple[BuiltConfig, ...]:
    write_program(program)
    Path("run.sh").write_text(command)
    (launch,) = find_program_commands(ShellInterpreter(command, "run.sh", {}))
    return configs_built_by_program("main.py", launch)


def built_config(command: str) -> dict[str, Any]:
    (config,) = built_configs(command, PROGRAM.replace("MORE", "pass"))
    assert config.consumer == "deepspeed"
    assert config.location == "main.py:29"
    assert config.value is not None
    return config.value


def test_flags_decide_the_values(empty_repository: Path) -> None:
    flags = "--zero_stage 3 --micro 8 --steps 2 --dtype bf16 --offload --clip 0.5"
    assert built_config(f"deepspeed --num_gpus 4 main.py {flags}") == {
        "train_batch_size": 64,
        "train_micro_batch_size_per_gpu": 8,
        "zero_optimization": {
            "stage": 3,
            "offload_optimizer": {"device": "cpu"},
            "stage3_max_live_parameters": 3e7,
        },
        "bf16": {"enabled": True},
        "gradient_clipping": 0.5,
    }


def test_batch_is_left_to_deepspeed_if_the_world_size_is_unknown(empty_repository: Path) -> None:
    assert built_config("deepspeed main.py --steps 3 --micro 2") == {
        "train_micro_batch_size_per_gpu": 2,
        "zero_optimization": {"stage": 0, "offload_optimizer": {"device": "none"}},
        "fp16": {"enabled": True, "loss_scale_window": 100},
        "gradient_accumulation_steps": 3,
    }


def test_unknown_flag_leaves_both_branches_open(empty_repository: Path) -> None:
    zero = built_config("deepspeed --num_gpus 1 main.py --zero_stage $STAGE")["zero_optimization"]
    assert zero == {
        "stage": UNKNOWN,
        "offload_optimizer": {"device": "none"},
        "stage3_max_live_parameters": UNKNOWN,
    }


@pytest.mark.parametrize(
    ("more", "path", "value"),
    [
        ('ds_config["steps_per_print"] = args.steps + 9', "steps_per_print", 10),
        ('ds_config.update({"steps_per_print": 5})', "steps_per_print", 5),
        ('ds_config.update(steps_per_print=5)', "steps_per_print", 5),
        ('ds_config["zero_optimization"]["stage"] += 1', "zero_optimization.stage", 1),
        ('ds_config.pop("fp16")', "fp16", None),
        ('del ds_config["fp16"]', "fp16", None),
        ('ds_config = {**ds_config, "seed": 1}', "seed", 1),
        ('ds_config = ds_config | {"seed": 1}', "seed", 1),
        ('for name in names(): ds_config["seed"] = name', "seed", UNKNOWN),
        ('for name in names(): ds_config["train_micro_batch_size_per_gpu"] = 16', "train_micro_batch_size_per_gpu", 16),
        ('if rank(): ds_config["seed"] = 1', "seed", UNKNOWN),
        ('if args.steps == 1: ds_config["seed"] = 1', "seed", 1),
        ('if args.steps == 2: ds_config["seed"] = 1', "seed", None),
        ('ds_config["seed"] = int(os.environ["WORLD_SIZE"])', "seed", 4),
        ('ds_config["seed"] = f"{args.dtype}-{args.micro}"', "seed", "fp16-16"),
        ('ds_config["seed"] = rank() or 3', "seed", UNKNOWN),
        ('args.extra = 7; ds_config["seed"] = args.extra', "seed", 7),
        ('args.steps = rank(); ds_config["seed"] = args.steps', "seed", UNKNOWN),
        ('try: ds_config["seed"] = 2\n    except OSError: ds_config["seed"] = 3', "seed", UNKNOWN),
        ('with timer(): ds_config["seed"] = 2', "seed", 2),
        ('import unknown; unknown.patch(ds_config["zero_optimization"])', "zero_optimization", UNKNOWN),
        ('print(ds_config)', "zero_optimization.stage", 0),
    ],
)  # fmt: skip
def test_statements_before_the_call(empty_repository: Path, more: str, path: str, value: object) -> None:
    config = built_configs("deepspeed --num_gpus 4 main.py", PROGRAM.replace("MORE", more))[0].value
    found: Any = config
    for key in path.split("."):
        assert isinstance(found, dict)
        found = found.get(key)
    assert found is value if value is UNKNOWN else found == value


@pytest.mark.parametrize(
    "more",
    [
        "ds_config[name()] = 3",
        "ds_config.update(load())",
        "patch(ds_config)",
        "import unknown; unknown.patch(ds_config)",
        "ds_config.clear()",
        "ds_config = load()",
    ],
)
def test_config_that_only_a_run_shows(empty_repository: Path, more: str) -> None:
    values = [each.value for each in built_configs("deepspeed main.py", PROGRAM.replace("MORE", more))]
    assert values in ([None], [])


def test_method_of_a_class_with_the_arguments(empty_repository: Path) -> None:
    program = """\
import argparse, deepspeed
class Engine:
    def __init__(self, model, args, stage):
        self.args, self.stage = args, stage
        self.micro = args.micro
        self.actor = self._init_actor(model)
    def _init_actor(self, model):
        config = {"train_micro_batch_size_per_gpu": self.micro, "zero_optimization": {"stage": self.args.stage}}
        engine, *_ = deepspeed.initialize(model=model, config=config)
        return engine
parser = argparse.ArgumentParser()
parser.add_argument("--micro", type=int)
parser.add_argument("--stage", type=int)
args = parser.parse_args()
Engine(model(), args, args.stage)
"""
    (config,) = built_configs("torchrun --nproc_per_node 2 main.py --micro 2 --stage 1", program)
    assert config.value == {"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 1}}


def test_dict_of_training_arguments(empty_repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = """\
import argparse
from transformers import Trainer, TrainingArguments
def build(stage):
    return dict(zero_optimization=dict(stage=stage), train_micro_batch_size_per_gpu="auto")
parser = argparse.ArgumentParser()
parser.add_argument("--stage", type=int, default=2)
args = parser.parse_args()
Trainer(model=m, args=TrainingArguments("out", per_device_train_batch_size=4, deepspeed=build(args.stage)))
"""
    (config,) = built_configs("deepspeed --num_gpus 2 main.py --stage 3", program)
    assert config.consumer == "transformers"
    assert config.value == {"zero_optimization": {"stage": 3}, "train_micro_batch_size_per_gpu": "auto"}
    main(["check", "."])
    output = capsys.readouterr().out
    assert "run.sh:1: Trainer with main.py:8, 2 ranks, batch 8 = 4 × 1 × 2" in output


@pytest.mark.parametrize("depth", [1, 2, 40])
def test_recursion_and_loops_end(empty_repository: Path, depth: int) -> None:
    program = PROGRAM.replace("MORE", "while True: ds_config['seed'] = grow(ds_config, 0)")
    program += "\ndef grow(config, n):\n    return grow(config, n + 1)\n" + "\n".join(
        f"def f{n}(x):\n    return f{n + 1}(x) + f{n + 1}(x)" for n in range(depth)
    )
    assert len(built_configs("deepspeed main.py", program)) <= 1


def test_each_command_is_a_job(empty_repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = (
        "deepspeed --num_gpus 4 main.py --zero_stage 2 --micro 2\n"
        "deepspeed main.py --zero_stage 3 --micro 2 --offload\n"
        "deepspeed --num_gpus 2 main.py $MORE\n"
        "python prepare.py\n"
    )
    Path("prepare.py").write_text("print('no DeepSpeed')\n")
    program = PROGRAM.replace("MORE", 'ds_config["gradient_cliping"] = 1.0')
    write_program(program)
    Path("run.sh").write_text(script)
    assert main(["check", "."]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("run.sh:") and ": read" not in line] == [
        "run.sh:1: DeepSpeed with main.py:29, 4 ranks, batch 8 = 2 × 1 × 4, 1 warning",
        "run.sh:2: DeepSpeed with main.py:29, world size unknown, train_batch_size = 2 × 1 × GPUs, 1 warning, 1 info",
        "run.sh:3: DeepSpeed, not checked: only a run shows the config that main.py:29 receives",
    ]
    # The key is the same in both jobs: it is reported once.
    assert sum("`gradient_cliping`" in line and line.startswith("warning") for line in lines) == 1
