"""Programs whose set-up or loop contradicts the config, and versions of the programs around DeepSpeed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check

RAW: dict[str, Any] = {"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 2}}
PLACEHOLDERS: dict[str, Any] = {
    "train_micro_batch_size_per_gpu": 8,
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": "auto", "total_num_steps": "auto"}},
    "zero_optimization": {"stage": 2},
}
LOOP = """
import deepspeed
from data import samples
from models import Net
from torch.utils.data import DataLoader
net = Net()
size = 4
{}
engine, *_ = deepspeed.initialize(model=net, config='ds.json'{})
for batch in loader:
    engine.backward(engine(batch))
    engine.step()
"""
SCHEDULE = """
from accelerate import Accelerator, DeepSpeedPlugin
from accelerate.utils import DummyOptim, DummyScheduler
from data import loader, net
accelerator = Accelerator(deepspeed_plugin=DeepSpeedPlugin(hf_ds_config='ds.json'))
steps = {}
optimizer = DummyOptim(net.parameters(), lr=1e-4)
schedule = DummyScheduler(optimizer, total_num_steps=steps, warmup_num_steps=10)
net, optimizer, loader, schedule = accelerator.prepare(net, optimizer, loader, schedule)
"""
RANKS = """
import os
import deepspeed
from models import Net
os.environ['RANK'] = '0'
os.environ['WORLD_SIZE'] = '{}'
engine, *_ = deepspeed.initialize(model=Net(), config='ds.json')
"""
CASES: list[tuple[str, dict[str, Any], list[str]]] = [
    (LOOP.format("loader = DataLoader(samples, batch_size=4)", ""), RAW, ["DSC879"]),
    (LOOP.format("loader = DataLoader(samples, size)", ""), RAW, ["DSC879"]),
    (LOOP.format("loader = DataLoader(samples, batch_size=8)", ""), RAW, []),
    (LOOP.format("loader = DataLoader(samples, batch_size=read())", ""), RAW, []),
    (LOOP.format("loader = DataLoader(samples, batch_size=4)", ", training_data=samples"), RAW, []),
    (LOOP.format("eval_loader = DataLoader(samples, batch_size=4)", ""), RAW, []),
    (LOOP.format("loader = DataLoader(samples, batch_size=4)", ""), {"train_batch_size": 8}, []),
    (SCHEDULE.format("len(loader) // accelerator.num_processes"), PLACEHOLDERS, ["DSC815"]),
    (SCHEDULE.format("3 * len(loader)"), PLACEHOLDERS, []),
    (RANKS.format("1"), RAW, ["DSC878"]),
]
OWN_RULES = {"DSC815", "DSC878", "DSC879"}


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(("program", "config", "expected"), CASES)
def test_training_loop(program: str, config: dict[str, Any], expected: list[str]) -> None:
    Path("train.py").write_text(program)
    Path("ds.json").write_text(json.dumps(config))
    report = check("ds.json", target="0.19.8", world_size=8)
    assert [each.code for each in report if each.code in OWN_RULES] == expected


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(
    ("ranks", "effect", "message"), [("1", "wasteful", "one GPU"), ("4", "altered", "4 ranks")]
)
def test_notebook_with_ranks(ranks: str, effect: str, message: str) -> None:
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": RANKS.format(ranks)}
    Path("train.ipynb").write_text(json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}))
    Path("ds.json").write_text(json.dumps(RAW))
    (found,) = [each for each in check("ds.json", target="0.19.8") if each.code == "DSC878"]
    assert (found.effect.value, message in found.message) == (effect, True)


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(
    ("requirements", "expected"),
    [
        ("transformers==4.31.0\ndeepspeed==0.9.2\n", ["DSC874"]),
        ("transformers==4.31.0\ndeepspeed==0.9.3\n", []),
        ("transformers==4.31.0\n", []),
        ("transformers==4.45.0\naccelerate<0.26\ndeepspeed==0.14.5\n", ["DSC875"]),
        ("transformers==4.45.0\naccelerate>=0.20\ndeepspeed==0.14.5\n", []),
    ],
)
def test_versions_around_the_trainer(requirements: str, expected: list[str]) -> None:
    Path("requirements.txt").write_text(requirements)
    Path("ds.json").write_text(json.dumps({"train_batch_size": "auto", "zero_optimization": {"stage": 2}}))
    Path("run.sh").write_text("torchrun --nproc_per_node 8 train.py --deepspeed ds.json --output_dir o\n")
    report = check("ds.json")
    assert [each.code for each in report if each.code in ("DSC874", "DSC875")] == expected


GPUS = "CUDA_VISIBLE_DEVICES=0,1,2 "
ZERO_2 = (
    "distributed_type: DEEPSPEED\nnum_machines: 1\nnum_processes: {}\ndeepspeed_config: {{zero_stage: 2}}\n"
)
FACTORY = "model_name_or_path: m\nstage: sft\ndo_train: true\ndataset: d\ntemplate: t\n"


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(
    ("command", "program", "expected"),
    [
        (GPUS + "torchrun train.py --deepspeed_config ds.json", "import torch", ["DSC814"]),
        (
            GPUS + "torchrun --nproc_per_node 2 train.py --deepspeed_config ds.json",
            "import torch",
            ["DSC814"],
        ),
        (GPUS + "torchrun --nproc_per_node 3 train.py --deepspeed_config ds.json", "import torch", []),
        (GPUS + "torchrun --nproc_per_node 2 train.py --deepspeed_config ds.json", "import vllm", []),
        (GPUS + "accelerate launch --config_file one.yaml train.py", "import accelerate", ["DSC814"]),
        (GPUS + "accelerate launch --config_file three.yaml train.py", "import accelerate", []),
        (
            GPUS + "accelerate launch --config_file one.yaml --num_processes 3 train.py",
            "import accelerate",
            [],
        ),
        ("CUDA_VISIBLE_DEVICES=1 llamafactory-cli train sft.yaml", "", ["DSC816"]),
        ("FORCE_TORCHRUN=1 CUDA_VISIBLE_DEVICES=1 llamafactory-cli train sft.yaml", "", []),
        ("CUDA_VISIBLE_DEVICES=1 llamafactory-cli train plain.yaml", "", []),
        (GPUS + "llamafactory-cli train sft.yaml", "", []),
        ("llamafactory-cli train sft.yaml", "", []),
    ],
)
def test_processes_of_a_command(command: str, program: str, expected: list[str]) -> None:
    Path("train.py").write_text(program + "\n")
    Path("ds.json").write_text(json.dumps({"train_batch_size": 12, "zero_optimization": {"stage": 2}}))
    Path("one.yaml").write_text(ZERO_2.format(1))
    Path("three.yaml").write_text(ZERO_2.format(3))
    Path("sft.yaml").write_text(FACTORY + "deepspeed: ds.json\n")
    Path("plain.yaml").write_text(FACTORY)
    Path("run.sh").write_text(command + "\n")
    reports, codes = [check("run.sh", target="0.19.8")], []
    while reports:
        report = reports.pop()
        codes += [each.code for each in report if each.code in ("DSC814", "DSC816")]
        reports += report.children
    assert codes == expected
