"""Calls of a Python program that do not work with the settings of its config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from dsconfig import check
from dsconfig.launch.config_sensitive_calls import find_config_sensitive_calls

TRAINER: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 3, "stage3_gather_16bit_weights_on_model_save": True},
}
STAGE_2 = {**TRAINER, "zero_optimization": {"stage": 2}}
PLAIN: dict[str, Any] = {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
STAGE_1 = {**PLAIN, "zero_optimization": {"stage": 1}}
PARSE = """
from transformers import AutoModelForCausalLM, BitsAndBytesConfig, HfArgumentParser, Trainer, TrainingArguments
args, = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
"""
IMPORTS = "from transformers import AutoModelForCausalLM, TrainingArguments\n"
ARGUMENTS = "args = TrainingArguments('o', deepspeed='ds.json')\n"
LOAD = f"{PARSE}model = AutoModelForCausalLM.from_pretrained('m', %s)\ntrainer = Trainer(model=model, args=args)\n"
ENGINE = """
import deepspeed, torch, torch.distributed as dist
from models import Net
net = Net()
%s
engine, optimizer, _, _ = deepspeed.initialize(model=net, model_parameters=net.parameters(), config='ds.json', %s)
"""
ADAM = "optimizer=torch.optim.AdamW(net.parameters())"
TRAINER_CASES: list[tuple[str, dict[str, Any], str]] = [
    (LOAD % "device_map='auto'", TRAINER, "DSC833"),
    (LOAD % "device_map={'': 0}", TRAINER, "DSC833"),
    (LOAD % "device_map='auto'", STAGE_2, "DSC833"),
    (LOAD % "device_map={'': 0}", STAGE_2, ""),
    (LOAD % "device_map='auto' if args.world_size == 1 else None", TRAINER, ""),
    (LOAD % "device_map=None", TRAINER, ""),
    (LOAD % "low_cpu_mem_usage=True", TRAINER, ""),
    (
        f"{PARSE}import os\nkind = 'auto'\n" + (LOAD % "device_map=kind").removeprefix(PARSE),
        TRAINER,
        "DSC833",
    ),
    (
        f"{PARSE}if not args.deepspeed:\n    m = AutoModelForCausalLM.from_pretrained('m', device_map='auto')\n",
        TRAINER,
        "",
    ),
    (
        f"{PARSE}def unused():\n    return AutoModelForCausalLM.from_pretrained('m', device_map='auto')\n",
        TRAINER,
        "",
    ),
    (LOAD % "quantization_config=BitsAndBytesConfig(load_in_8bit=True)", TRAINER, "DSC834"),
    (LOAD % "quantization_config=BitsAndBytesConfig(load_in_4bit=True)", TRAINER, "DSC834"),
    (LOAD % "quantization_config=BitsAndBytesConfig(load_in_4bit=True)", STAGE_2, ""),
    (
        LOAD % "quantization_config=BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_storage='bfloat16')",
        TRAINER,
        "",
    ),
    (
        f"{LOAD % ''}if trainer.is_world_process_zero():\n    trainer.save_model()\n",
        TRAINER,
        "DSC835",
    ),
    (f"{LOAD % ''}if trainer.is_world_process_zero():\n    trainer.save_model()\n", STAGE_2, ""),
    (f"{LOAD % ''}trainer.save_model()\n", TRAINER, ""),
    (f"{LOAD % ''}trainer.train()\nmodel.save_pretrained('o')\n", TRAINER, "DSC836"),
    (f"{LOAD % ''}trainer.train()\ntrainer.model.save_pretrained('o')\n", TRAINER, "DSC836"),
    (f"{LOAD % ''}trainer.train()\nmodel.save_pretrained('o')\n", STAGE_2, ""),
    (f"{LOAD % ''}model.save_pretrained('o')\ntrainer.train()\n", TRAINER, ""),
    (f"{LOAD % ''}trainer.train()\nmodel = model.merge()\nmodel.save_pretrained('o')\n", TRAINER, ""),
    (f"{LOAD % ''}trainer.train()\nmodel.save_pretrained('o', state_dict=gathered())\n", TRAINER, ""),
    (
        f"{IMPORTS}model = AutoModelForCausalLM.from_pretrained('m')\n{ARGUMENTS}",
        TRAINER,
        "DSC838",
    ),
    (
        f"{IMPORTS}{ARGUMENTS}model = AutoModelForCausalLM.from_pretrained('m')\n",
        TRAINER,
        "",
    ),
]
ENGINE_CASES: list[tuple[str, dict[str, Any], str]] = [
    (ENGINE % ("", "") + "if dist.get_rank() == 0:\n    engine.save_checkpoint('o')\n", PLAIN, "DSC835"),
    (
        ENGINE % ("", "") + "if args.local_rank in [-1, 0]:\n    engine.save_checkpoint('o')\n",
        PLAIN,
        "DSC835",
    ),
    (ENGINE % ("", "") + "engine.save_checkpoint('o')\n", PLAIN, ""),
    (ENGINE % ("", "") + "if step == 0:\n    engine.save_checkpoint('o')\n", PLAIN, ""),
    (ENGINE % ("", "") + "engine.module.save_pretrained('o')\n", PLAIN, "DSC836"),
    (ENGINE % ("", "") + "torch.save(engine.module.state_dict(), 'o')\n", PLAIN, "DSC836"),
    (
        ENGINE % ("", "")
        + "with deepspeed.zero.GatheredParameters(list(net.parameters())):\n    engine.module.save_pretrained('o')\n",
        PLAIN,
        "",
    ),
    (ENGINE % ("net.to(device)", ""), PLAIN, "DSC837"),
    (ENGINE % ("with deepspeed.zero.Init():\n    net = Net()", ADAM), STAGE_1, "DSC848"),
    (ENGINE % ("with deepspeed.zero.Init():\n    net = Net()", ADAM), PLAIN, ""),
    (ENGINE % ("with deepspeed.zero.Init(enabled=stage == 3):\n    net = Net()", ADAM), STAGE_1, ""),
    (ENGINE % ("net.to(torch.bfloat16)", ""), PLAIN, ""),
    (ENGINE % ("net = net.cuda()", ADAM), {**PLAIN, "zero_optimization": {"stage": 2}}, ""),
    (ENGINE % ("", ""), {**PLAIN, "zero_optimization": {"stage": 2}}, "DSC841"),
    (ENGINE % ("", ADAM), {**PLAIN, "zero_optimization": {"stage": 2}}, ""),
    (ENGINE % ("", "**more"), {**PLAIN, "zero_optimization": {"stage": 2}}, ""),
    (
        ENGINE % ("", ""),
        {
            **PLAIN,
            "zero_optimization": {"stage": 2},
            "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        },
        "",
    ),
]
PREPARE = """
import torch
from accelerate import Accelerator
from accelerate.utils import %s
from models import Net
accelerator = Accelerator()
model = Net()
loader = torch.utils.data.DataLoader([])
optimizer = %s
model, optimizer = accelerator.prepare(model, optimizer%s)
"""
OPTIMIZER = {"optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}
PLUGIN: dict[str, Any] = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
OWN, DUMMY = "torch.optim.AdamW(model.parameters())", "DummyOptim(model.parameters())"
ACCELERATE_CASES: list[tuple[str, dict[str, Any], str]] = [
    (PREPARE % ("set_seed", OWN, ""), PLUGIN, "DSC839"),
    (PREPARE % ("set_seed", OWN, ", loader"), PLUGIN, ""),
    (PREPARE % ("set_seed", OWN, ""), {**PLUGIN, "train_micro_batch_size_per_gpu": 4}, ""),
    (PREPARE % ("set_seed", OWN, ", loader"), {**PLUGIN, **OPTIMIZER}, "DSC840"),
    (PREPARE % ("DummyOptim", DUMMY, ", loader"), PLUGIN, "DSC840"),
    (PREPARE % ("DummyOptim", DUMMY, ", loader"), {**PLUGIN, **OPTIMIZER}, ""),
    (PREPARE % ("DummyOptim", f"{DUMMY} if True else {OWN}", ", loader"), PLUGIN, ""),
]


def program_codes(program: str, config: dict[str, Any], command: str) -> str:
    Path("train.py").write_text(program)
    Path("ds.json").write_text(json.dumps(config))
    Path("run.sh").write_text(command)
    codes = [each.code for each in check("ds.json", target="0.19.8")]
    return " ".join(code for code in codes if "DSC833" <= code <= "DSC841" or code == "DSC848")


@pytest.mark.parametrize(("program", "config", "codes"), TRAINER_CASES)
def test_program_with_a_trainer(
    empty_repository: Path, program: str, config: dict[str, Any], codes: str
) -> None:
    command = "deepspeed --num_gpus 2 train.py --output_dir o --deepspeed ds.json\n"
    assert program_codes(program, config, command) == codes


@pytest.mark.parametrize(("program", "config", "codes"), ENGINE_CASES)
def test_program_with_an_engine(
    empty_repository: Path, program: str, config: dict[str, Any], codes: str
) -> None:
    assert program_codes(program, config, "deepspeed --num_gpus 2 train.py\n") == codes


@pytest.mark.parametrize(("program", "config", "codes"), ACCELERATE_CASES)
def test_program_with_accelerate(
    empty_repository: Path, program: str, config: dict[str, Any], codes: str
) -> None:
    command = "accelerate launch --num_processes 2 --use_deepspeed --deepspeed_config_file ds.json train.py\n"
    assert program_codes(program, config, command) == codes


def test_launch_file_of_accelerate(empty_repository: Path) -> None:
    Path("train.py").write_text(PREPARE % ("set_seed", OWN, ""))
    launch = {"distributed_type": "DEEPSPEED", "num_processes": 2, "deepspeed_config": {"zero_stage": 2}}
    Path("acc.yaml").write_text(yaml.safe_dump(launch))
    Path("run.sh").write_text("accelerate launch --config_file acc.yaml train.py\n")
    diagnostics = [each for each in check("acc.yaml", target="0.19.8") if each.code == "DSC839"]
    assert [each.message for each in diagnostics] == []  # the key is not in the file, so it cannot be shown


DIFFUSION = """
from accelerate import Accelerator
from transformers import CLIPTextModel
from models import UNet
accelerator = Accelerator()
text_encoder = CLIPTextModel.from_pretrained('m')
unet = UNet.from_pretrained('u')
unet, loader = accelerator.prepare(unet, [])
for batch in loader:
    loss = unet(text_encoder(batch)[0])
"""


@pytest.mark.parametrize(
    ("program", "flag", "count"),
    [
        (DIFFUSION, True, 1),
        (DIFFUSION, False, 0),
        (DIFFUSION.replace("prepare(unet, [])", "prepare(unet, text_encoder)"), True, 0),
        (DIFFUSION.replace("loader:", "loader:  # zero3_init\n    zero3_init_context_manager"), True, 0),
    ],
)
def test_partitioned_model_without_engine(
    empty_repository: Path, program: str, flag: bool, count: int
) -> None:
    Path("train.py").write_text(program)
    settings = {"zero_stage": 3, "zero3_init_flag": flag, "zero3_save_16bit_model": True}
    Path("acc.yaml").write_text(
        yaml.safe_dump({"distributed_type": "DEEPSPEED", "deepspeed_config": settings})
    )
    Path("run.sh").write_text("accelerate launch --config_file acc.yaml train.py\n")
    messages = [each.message for each in check("acc.yaml", target="0.19.8") if each.code == "DSC849"]
    assert len(messages) == count
    assert all("train.py:6 loads a partitioned model" in message for message in messages)


@pytest.mark.parametrize("is_linked", [True, False])
@pytest.mark.parametrize(("flag", "count"), [(True, 1), (False, 0)])
def test_device_map_without_partitioned_loading(
    empty_repository: Path, is_linked: bool, flag: bool, count: int
) -> None:
    Path("train.py").write_text(
        f"from accelerate import Accelerator\n{IMPORTS}accelerator = Accelerator()\n"
        "model = AutoModelForCausalLM.from_pretrained('m', device_map={'': 0})\n"
    )
    Path("ds.json").write_text(json.dumps(PLAIN))
    settings: dict[str, Any] = {"deepspeed_config_file": "ds.json"} if is_linked else {"zero_stage": 3}
    launch = {"distributed_type": "DEEPSPEED", "deepspeed_config": {**settings, "zero3_init_flag": flag}}
    Path("acc.yaml").write_text(yaml.safe_dump(launch))
    Path("run.sh").write_text("accelerate launch --config_file acc.yaml train.py\n")
    report = check("ds.json" if is_linked else "acc.yaml", target="0.19.8")
    assert [each.code for each in report].count("DSC833") == count


@pytest.mark.parametrize(("is_early", "codes"), [(True, "DSC838"), (False, "DSC833")])
def test_model_before_arguments_is_not_partitioned(
    empty_repository: Path, is_early: bool, codes: str
) -> None:
    load = "model = AutoModelForCausalLM.from_pretrained('m', device_map={'': 0})\n"
    program = f"{IMPORTS}{load}{ARGUMENTS}" if is_early else f"{IMPORTS}{ARGUMENTS}{load}"
    command = "deepspeed --num_gpus 2 train.py --output_dir o --deepspeed ds.json\n"
    assert program_codes(program, TRAINER, command) == codes


def test_message_names_the_line(empty_repository: Path) -> None:
    Path("train.py").write_text(LOAD % "device_map='auto'")
    Path("ds.json").write_text(json.dumps(TRAINER))
    Path("run.sh").write_text("deepspeed --num_gpus 2 train.py --output_dir o --deepspeed ds.json\n")
    (found,) = [each for each in check("ds.json", target="0.19.8") if each.code == "DSC833"]
    assert found.message.startswith(
        "train.py:4 calls `AutoModelForCausalLM.from_pretrained('m', device_map='auto')`"
    )
    assert found.dotted == "zero_optimization.stage"


def test_broken_programs_have_no_uses(tmp_path: Path) -> None:
    for text in ("def", "x = (" + "(" * 200, "\0", ""):
        (tmp_path / "train.py").write_text(text)
        assert find_config_sensitive_calls(str(tmp_path / "train.py")) == ()


@pytest.mark.parametrize(("is_first", "count"), [(True, 0), (False, 1)])
def test_device_map_before_the_plugin_exists(empty_repository: Path, is_first: bool, count: int) -> None:
    # `accelerate launch` sets variables only; `from_pretrained` knows the stage from the plugin.
    load = "model = AutoModelForCausalLM.from_pretrained('m', device_map={'': 0})\n"
    lines = [load, "accelerator = Accelerator()\n"][:: 1 if is_first else -1]
    text = (
        f"from accelerate import Accelerator\n{IMPORTS}{''.join(lines)}accelerator.prepare(model, loader)\n"
    )
    (empty_repository / "train.py").write_text(text)
    block = {"zero_stage": 3, "zero3_init_flag": True, "zero3_save_16bit_model": True}
    launch = {"distributed_type": "DEEPSPEED", "num_processes": 2, "deepspeed_config": block}
    (empty_repository / "acc.yaml").write_text(yaml.safe_dump(launch))
    (empty_repository / "run.sh").write_text("accelerate launch --config_file acc.yaml train.py\n")
    codes = [each.code for each in check("acc.yaml", target="0.19.8").diagnostics]
    assert codes.count("DSC833") == count
