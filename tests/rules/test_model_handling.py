"""Programs that load, prepare, count or hand over models in a way that the config does not allow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check

SIZES = {
    "reduce_bucket_size": "auto",
    "stage3_prefetch_bucket_size": "auto",
    "stage3_param_persistence_threshold": "auto",
}
SCHEDULE = {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto", "total_num_steps": "auto"}}
TRAINER: dict[str, Any] = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "scheduler": SCHEDULE,
    "zero_optimization": {"stage": 3, **SIZES},
}
PLUGIN: dict[str, Any] = {
    "train_batch_size": 8,
    "train_micro_batch_size_per_gpu": 1,
    "zero_optimization": {"stage": 3},
}
FIRST = """
from accelerate import Accelerator, DeepSpeedPlugin
from transformers import AutoModel, AutoTokenizer
accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config='ds.json'))
with accelerator.{}():
    model = {}.from_pretrained('owner/small')
"""
PREPARED = """
from accelerate import Accelerator, DeepSpeedPlugin
from diffusers import UNet2DConditionModel
from transformers import CLIPTextModel
accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config='ds.json'))
unet = UNet2DConditionModel.from_pretrained('a')
encoder = CLIPTextModel.from_pretrained('b')
{}
"""
APART = """
import torch
from accelerate import Accelerator, DeepSpeedPlugin
from models import Net
accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config='ds.json'))
model = Net()
optimizer = torch.optim.AdamW(model.parameters())
{}
"""
COUNTED = """
from transformers import AutoModel, HfArgumentParser, Trainer, TrainingArguments
args = TrainingArguments('o', deepspeed='ds.json')
model = AutoModel.from_pretrained('owner/small')
print({})
Trainer(model=model, args=args).train()
"""
PREFERENCES = """
from trl import DPOConfig, {0}
args = DPOConfig('o', deepspeed='ds.json')
{0}('m', args=args{1}).train()
"""
PLAIN_MODULE = """
import torch
from torch import nn
from transformers import PreTrainedModel, Trainer, TrainingArguments
class Net({}):
    def __init__(self):
        super().__init__()
        {}
args = TrainingArguments('o', deepspeed='ds.json')
net = Net()
Trainer(model=net, args=args).train()
"""
SEVERAL = """
from accelerate import Accelerator, DeepSpeedPlugin
from transformers import AutoModel
accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config='ds.json'))
actor, critic = AutoModel.from_pretrained('a'), AutoModel.from_pretrained('b')
actor, optimizer = accelerator.prepare(actor, optimizer)
{}
"""
RESUMED = """
from transformers import Trainer, TrainingArguments
args = TrainingArguments('o', {}deepspeed='ds.json')
Trainer('m', args=args).train(resume_from_checkpoint={})
"""
LOADED = """
import deepspeed
from models import Net
net = Net()
engine, *_ = deepspeed.initialize(model=net, config='ds.json', {})
engine.load_checkpoint('out')
"""
RAW: dict[str, Any] = {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    (FIRST.format("main_process_first", "AutoModel"), PLUGIN, ["DSC863"]),
    (FIRST.format("local_main_process_first", "AutoModel"), PLUGIN, ["DSC863"]),
    (FIRST.format("main_process_first", "AutoTokenizer"), PLUGIN, []),
    (
        FIRST.format("main_process_first", "AutoModel"),
        {**PLUGIN, "zero_optimization": {"stage": 2}},
        [],
    ),
    (PREPARED.format("unet, encoder = accelerator.prepare(unet, encoder)"), PLUGIN, ["DSC864"]),
    (PREPARED.format("unet = accelerator.prepare(unet)"), PLUGIN, []),
    (PREPARED.format("if both:\n    unet, encoder = accelerator.prepare(unet, encoder)"), PLUGIN, []),
    (
        APART.format("model = accelerator.prepare(model)\noptimizer = accelerator.prepare(optimizer)"),
        PLUGIN,
        ["DSC868"],
    ),
    (
        APART.format("model, optimizer = accelerator.prepare(model, optimizer)\naccelerator.prepare(loader)"),
        PLUGIN,
        [],
    ),
    (SEVERAL.format("critic, other = accelerator.prepare(critic, optimizer_2)"), PLUGIN, ["DSC864"]),
    (SEVERAL.format("critic = accelerator.prepare(critic)"), PLUGIN, []),
    (RESUMED.format("save_only_model=True, ", "True"), TRAINER, ["DSC871"]),
    (RESUMED.format("", "True"), TRAINER, []),
    (RESUMED.format("save_only_model=True, ", "False"), TRAINER, []),
    (LOADED.format(""), RAW, ["DSC872"]),
    (LOADED.format("optimizer=adam"), RAW, []),
    (LOADED.format(""), {**RAW, "optimizer": {"type": "Adam"}}, []),
    (COUNTED.format("sum(p.numel() for p in model.parameters())"), TRAINER, ["DSC865"]),
    (COUNTED.format("sum(getattr(p, 'ds_numel', p.numel()) for p in model.parameters())"), TRAINER, []),
    (COUNTED.format("sum(p.ds_numel or p.numel() for p in model.parameters())"), TRAINER, []),
    (COUNTED.format("model.num_parameters()"), TRAINER, []),
    (PREFERENCES.format("DPOTrainer", ""), TRAINER, ["DSC866"]),
    (PREFERENCES.format("KTOTrainer", ", ref_model=other"), TRAINER, ["DSC866"]),
    (PREFERENCES.format("DPOTrainer", ", peft_config=lora"), TRAINER, []),
    (PREFERENCES.format("SFTTrainer", ""), TRAINER, []),
    (PREFERENCES.format("DPOTrainer", ""), {**TRAINER, "scheduler": None}, []),
    (PLAIN_MODULE.format("nn.Module", "pass"), TRAINER, ["DSC867"]),
    (PLAIN_MODULE.format("torch.nn.Module", "pass"), TRAINER, ["DSC867"]),
    (PLAIN_MODULE.format("nn.Module", "self.config = read()"), TRAINER, []),
    (PLAIN_MODULE.format("PreTrainedModel", "pass"), TRAINER, []),
]
OWN_RULES = {f"DSC8{number}" for number in range(63, 69)} | {"DSC871", "DSC872"}


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(("program", "config", "expected"), CASES)
def test_model_handling(program: str, config: dict[str, Any], expected: list[str]) -> None:
    Path("train.py").write_text(program)
    Path("ds.json").write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    codes = [each.code for each in check("ds.json", target="0.19.8") if each.code in OWN_RULES]
    assert codes == expected
