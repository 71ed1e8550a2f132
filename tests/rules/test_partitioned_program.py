"""Programs that generate, load or recompute with partitioned parameters, and the accumulation steps of Accelerate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check

PLAIN: dict[str, Any] = {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
ENGINE = """
import deepspeed
import torch
from transformers import AutoModelForCausalLM
from models import Net
{}
engine, *_ = deepspeed.initialize(model=net, config='ds.json')
"""
OWN, LOADED = "net = Net()", "net = AutoModelForCausalLM.from_pretrained('owner/small')"
TRAINED = "engine.backward(engine(x))\n"
INIT = """
import deepspeed
from models import Net
with deepspeed.zero.Init(config_dict_or_path='ds.json'):
    {}
"""
START = "deepspeed.initialize(model=Net(), config='ds.json')"
ENGINES = [
    (ENGINE.format(OWN) + "engine.module.generate(x)\n", "0.19.8", ["DSC854"]),
    (ENGINE.format(OWN) + "engine.generate(x, synced_gpus=True)\n", "0.19.8", []),
    (ENGINE.format(OWN) + "options = dict(synced_gpus=True)\nengine.generate(x, **options)\n", "0.19.8", []),
    (ENGINE.format(OWN) + "options = {'top_k': 1}\nengine.generate(x, **options)\n", "0.19.8", ["DSC854"]),
    (ENGINE.format(OWN) + "engine.generate(x, **options())\n", "0.19.8", []),
    (ENGINE.format("HfDeepSpeedConfig('ds.json')\n" + OWN) + "engine.generate(x)\n", "0.19.8", []),
    (ENGINE.format(OWN) + "if world_size == 1:\n    engine.generate(x)\n", "0.19.8", []),
    (ENGINE.format(LOADED), "0.19.8", ["DSC858"]),
    (ENGINE.format("dschf = HfDeepSpeedConfig('ds.json')\n" + LOADED), "0.19.8", []),
    (ENGINE.format(f"if big:\n    {LOADED}\nelse:\n    {OWN}"), "0.19.8", []),
    (ENGINE.format(OWN) + TRAINED + "with torch.inference_mode():\n    engine(x)\n", "0.19.8", ["DSC856"]),
    (ENGINE.format(OWN) + TRAINED + "with torch.inference_mode(False):\n    engine(x)\n", "0.19.8", []),
    (ENGINE.format(OWN) + TRAINED + "with torch.no_grad():\n    engine(x)\n", "0.19.8", []),
    (ENGINE.format(OWN) + "with torch.inference_mode():\n    engine(x)\n", "0.19.8", []),
    (INIT.format(START), "0.6.5", ["DSC853"]),
    (INIT.format(START), "0.7.0", []),
    (INIT.format("with deepspeed.zero.Init():\n        Net()") + f"{START}\n", "0.8.0", ["DSC853"]),
    (INIT.format("with deepspeed.zero.Init():\n        Net()") + f"{START}\n", "0.9.1", []),
]
PEFT = """
from peft import LoraConfig, get_peft_model
from transformers import Trainer, TrainingArguments
args = TrainingArguments('o', deepspeed='ds.json', gradient_checkpointing_kwargs={})
trainer = Trainer(model=get_peft_model(net, LoraConfig()), args=args)
"""
NEW = "{'use_reentrant': False}"
GRPO = (
    "from trl import GRPOConfig, GRPOTrainer\n"
    "args = GRPOConfig('o', deepspeed='ds.json'{})\nGRPOTrainer('m', args=args)\n"
)
TRAINERS = [
    (PEFT.format(NEW), "0.16.4", ["DSC857"]),
    (PEFT.format("dict(use_reentrant=False)"), "0.19.2", ["DSC857"]),
    (PEFT.format(NEW), "0.19.3", []),
    (PEFT.format("{'use_reentrant': True}"), "0.16.4", []),
    (PEFT.format(NEW).replace("get_peft_model(net, LoraConfig())", "net"), "0.16.4", []),
    (GRPO.format(""), "0.19.8", ["DSC855"]),
    (GRPO.format(", use_vllm=True"), "0.19.8", []),
    (GRPO.format(", ds3_gather_for_generation=False"), "0.19.8", []),
]
NEW_RULES = {f"DSC8{number}" for number in range(50, 60)}


def codes(program: str, config: dict[str, Any], target: str) -> list[str]:
    Path("train.py").write_text(program)
    Path("ds.json").write_text(json.dumps(config))
    return [each.code for each in check("ds.json", target=target) if each.code in NEW_RULES]


@pytest.mark.parametrize(("program", "target", "expected"), ENGINES)
def test_engine(empty_repository: Path, program: str, target: str, expected: list[str]) -> None:
    assert codes(program, PLAIN, target) == expected
    assert codes(program, {**PLAIN, "zero_optimization": {"stage": 2}}, target) == []


@pytest.mark.parametrize(("program", "target", "expected"), TRAINERS)
def test_trainer(empty_repository: Path, program: str, target: str, expected: list[str]) -> None:
    config = {"train_batch_size": "auto", "zero_optimization": {"stage": 3}}
    assert codes(program, config, target) == expected


BLOCK = """
distributed_type: DEEPSPEED
deepspeed_config:
  zero_stage: 2
  gradient_accumulation_steps: {}
"""
LOOP = (
    "from accelerate import Accelerator\naccelerator = Accelerator({})\naccelerator.prepare(model, loader)\n"
)
TRAINER = """
from transformers import HfArgumentParser, Trainer, TrainingArguments
(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
Trainer(model=None, args=args)
"""


@pytest.mark.parametrize(
    ("block", "program", "flags", "expected"),
    [
        ("1", LOOP.format("gradient_accumulation_steps=4"), "", ["altered"]),
        ("4", LOOP.format("gradient_accumulation_steps=4"), "", []),
        ("4", LOOP.format(""), "", []),
        ("4", LOOP.format("gradient_accumulation_steps=args.steps"), "", []),
        ("auto", LOOP.format("gradient_accumulation_steps=4"), "", []),
        ("4", TRAINER, "--output_dir o --gradient_accumulation_steps 2", ["crashes"]),
        ("2", TRAINER, "--output_dir o --gradient_accumulation_steps 2", []),
    ],
)
def test_launch_file_and_program(
    empty_repository: Path, block: str, program: str, flags: str, expected: list[str]
) -> None:
    Path("acc.yaml").write_text(BLOCK.format(block))
    Path("train.py").write_text(program)
    Path("run.sh").write_text(f"accelerate launch --config_file acc.yaml train.py {flags}\n")
    (report,) = check("run.sh", target="0.19.8").children
    assert [each.effect.value for each in report if each.code == "DSC851"] == expected


@pytest.mark.parametrize(
    ("pin", "expected"),
    [("", ["info"]), ("accelerate==1.2.0\n", ["warning"]), ("accelerate==1.8.0\n", [])],
)
def test_config_and_accelerator(empty_repository: Path, pin: str, expected: list[str]) -> None:
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8}
    Path("requirements.txt").write_text(pin)
    Path("ds.json").write_text(json.dumps(config))
    Path("train.py").write_text(LOOP.format(""))
    Path("run.sh").write_text("accelerate launch --use_deepspeed --deepspeed_config_file ds.json train.py\n")
    report = check("ds.json", target="0.19.8")
    assert [each.severity for each in report if each.code == "DSC852"] == expected


def test_flags_of_the_program_are_not_those_of_the_launcher(empty_repository: Path) -> None:
    Path("acc.yaml").write_text(BLOCK.format("x"))
    Path("run.sh").write_text(
        "accelerate launch --config_file acc.yaml train.py --gradient_accumulation_steps 2\n"
    )
    (report,) = check("run.sh", target="0.19.8").children
    assert "DSC826" in [each.code for each in report]


SECTION = {"partition_activations": True}


@pytest.mark.parametrize(
    ("call", "section", "expected"),
    [
        ("", SECTION, True),
        ("", {"partition_activations": False}, False),
        ("deepspeed.checkpointing.configure(None, 'ds.json')\n", SECTION, False),
        ("from megatron import checkpointing\n", SECTION, False),
    ],
)
def test_activation_checkpointing_without_a_call(
    empty_repository: Path, call: str, section: dict[str, bool], expected: bool
) -> None:
    config = {**PLAIN, "activation_checkpointing": section}
    Path("train.py").write_text(ENGINE.format(OWN) + call)
    Path("ds.json").write_text(json.dumps(config))
    assert ("DSC927" in [each.code for each in check("ds.json", target="0.19.8")]) is expected


EARLY = """
from transformers import AutoModelForCausalLM
from transformers.integrations import HfDeepSpeedConfig
{}
config = {}
dschf = HfDeepSpeedConfig(config)
model = AutoModelForCausalLM.from_pretrained('m')
"""


@pytest.mark.parametrize(
    ("before", "total", "expected"),
    [
        ("", 16, True),
        ("", 8, False),
        ("", None, False),
        ("import deepspeed\ndeepspeed.init_distributed()", 16, False),
    ],
)
def test_batch_before_the_processes_know_each_other(
    empty_repository: Path, before: str, total: int | None, expected: bool
) -> None:
    config = {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8}
    batch = {} if total is None else {"train_batch_size": total}
    Path("train.py").write_text(EARLY.format(before, {**batch, **config, "zero_optimization": {"stage": 3}}))
    codes = [each.code for each in check("train.py", target="0.19.8", world_size=2)]
    assert ("DSC860" in codes) is expected


def test_model_of_the_program(empty_repository: Path) -> None:
    load = LOADED.replace("owner/small", "mistralai/Mixtral-8x7B-v0.1")
    Path("train.py").write_text(ENGINE.format("HfDeepSpeedConfig('ds.json')\n" + load))
    Path("ds.json").write_text(json.dumps(PLAIN))
    Path("requirements.txt").write_text("transformers==4.45.0\n")
    (diagnostic,) = [each for each in check("ds.json", target="0.12.5") if each.code == "DSC407"]
    assert diagnostic.severity == "error"
    assert diagnostic.help is not None
    assert diagnostic.help.startswith("use DeepSpeed 0.13.2 or later")
