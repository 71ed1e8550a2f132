"""A Python program that names its config file: every command follows it to that file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check, fix, memory, resolve
from dsconfig.cli import main

CONFIG = {"train_batch_size": 8, "gradient_cliping": 1.0}
PLUGIN = "from accelerate import DeepSpeedPlugin\n{}\n"
INITIALIZE = (
    "import deepspeed, json, os\nfrom pathlib import Path\n{}\ndeepspeed.initialize(model=net, config=c)\n"
)
FOLLOWED = [
    "from transformers.integrations import HfDeepSpeedConfig\nHfDeepSpeedConfig('ds.json')\n",
    "from transformers import TrainingArguments\npath = 'ds.json'\nTrainingArguments('o', deepspeed=path)\n",
    PLUGIN.format("DeepSpeedPlugin(hf_ds_config='ds.json')"),
    "import deepspeed\ndeepspeed.initialize(model=net, config='ds.json')\n",
    INITIALIZE.format("with open('ds.json') as file:\n    c = json.load(file)"),
    INITIALIZE.format("c = json.load(open('ds.json', encoding='utf-8'))"),
    INITIALIZE.format("c = json.loads(Path('ds.json').read_text())"),
    INITIALIZE.format("c = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'ds.json')"),
    INITIALIZE.format("c = str(Path(__file__).parent / 'ds.json')"),
]
NOT_FOLLOWED = [
    "import deepspeed\ndeepspeed.initialize(model=net, config=path)\n",
    "import deepspeed\npath = 'ds.json'\npath = other()\ndeepspeed.initialize(model=net, config=path)\n",
    "import deepspeed\ndef f(path):\n    deepspeed.initialize(model=m, config=path)\ndef g():\n    path = 'ds.json'\n",
    PLUGIN.format("DeepSpeedPlugin(hf_ds_config='missing.json')"),
    INITIALIZE.format("c = os.path.join(args.folder, 'ds.json')"),
    "def broken(:\n",
]


def write(program: str, name: str = "train.py") -> None:
    Path("ds.json").write_text(json.dumps(CONFIG))
    Path("other.json").write_text(json.dumps(CONFIG))
    Path(name).write_text(program)


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize("program", FOLLOWED)
def test_named_config_is_checked(program: str) -> None:
    write(program)
    report = check("train.py", target="0.19.8")
    (config,) = report.children
    assert config.name == "ds.json"
    assert "reads ds.json" in report.notes[0]
    assert "DSC102" in [each.code for each in config]


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize("program", NOT_FOLLOWED)
def test_unknown_paths_are_not_followed(program: str) -> None:
    write(program)
    report = check("train.py", target="0.19.8")
    assert report.why_not_config
    assert not report.children


@pytest.mark.usefixtures("empty_repository")
def test_several_configs_are_several_jobs() -> None:
    write(
        PLUGIN.format("DeepSpeedPlugin(hf_ds_config='ds.json')\nDeepSpeedPlugin(hf_ds_config='other.json')")
    )
    report = check("train.py", target="0.19.8")
    assert [each.children[0].name for each in report.jobs] == ["ds.json", "other.json"]


@pytest.mark.usefixtures("empty_repository")
def test_notebook_names_a_config() -> None:
    cell: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {
        "cells": [{**cell, "source": [FOLLOWED[0]]}],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    write(json.dumps(notebook), "train.ipynb")
    assert check("train.ipynb").children[0].name == "ds.json"


ARGUMENTS = """from transformers import Trainer, TrainingArguments
args = TrainingArguments("out", per_device_train_batch_size=4, gradient_accumulation_steps=2, deepspeed="ds.json")
Trainer(model=model, args=args).train()
"""
AUTO = {
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "zero_optimization": {"stage": 2, "cpu_offload": True},
}


@pytest.mark.usefixtures("empty_repository")
def test_all_commands_follow_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    Path("ds.json").write_text(json.dumps(AUTO))
    Path("train.py").write_text(ARGUMENTS)
    # Another program with the same config has no influence on the job of this one.
    Path("other.py").write_text(ARGUMENTS.replace("batch_size=4", "batch_size=16"))
    Path("run.sh").write_text("torchrun --nproc_per_node 8 train.py\n")
    assert check("train.py").children[0].world_size == 8
    assert resolve("train.py").train_batch_size == 64
    assert memory("train.py", parameters=10**9).world_size == 8
    migrate = ["migrate", "--from", "0.3.16", "--to", "0.19.8", "--diff"]
    for command in (
        ["show"],
        ["compat"],
        ["fix", "--diff"],
        ["resolve"],
        ["memory", "--params", "1B"],
        migrate,
    ):
        main([command[0], "train.py", *command[1:]])
        output = capsys.readouterr()
        assert output.out or "`TrainingArguments` reads ds.json" in output.err, command
        assert "error" not in output.err, command
    assert main(["check", "train.py", "ds.json", "--output-format", "concise"]) == 1
    assert capsys.readouterr().out.count("DSC106") == 1
    assert main(["fix", "train.py"]) == 0
    assert "offload_optimizer" in Path("ds.json").read_text()
    assert Path("train.py").read_text() == ARGUMENTS
    assert fix("train.py").applied == ()


@pytest.mark.usefixtures("empty_repository")
def test_script_starts_a_program_that_names_its_config() -> None:
    Path("ds.json").write_text(json.dumps(AUTO))
    Path("other.json").write_text(json.dumps(CONFIG))
    Path("train.py").write_text(ARGUMENTS)
    Path("run.sh").write_text("deepspeed --num_gpus 4 train.py\n")
    report = check("run.sh")
    assert report.children[0].name == "ds.json"
    assert report.children[0].reader.name == "transformers"
    assert resolve("run.sh").train_batch_size == 4 * 2 * 4
    # A flag may replace the path that the program names.
    Path("run.sh").write_text("deepspeed --num_gpus 4 train.py --ds_config_file $1\n")
    assert check("run.sh").why_not_config


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize(
    "argument",
    [
        "deepspeed_config=config",
        'parallelism_config={"deepspeed": config}',
        "parallelism_config=dict(deepspeed=config)",
    ],
)
@pytest.mark.parametrize("package", ["composer", "other"])
def test_configs_of_composer(argument: str, package: str) -> None:
    """Composer's Trainer sets the batch, so its absence is no problem."""
    from dsconfig import check

    config = 'config = {"zero_optimization": {"stage": 3, "overlap_com": True}, "bf16": {"enabled": True}}\n'
    Path("train.py").write_text(f"from {package} import Trainer\n{config}Trainer(model=model, {argument})\n")
    codes = [each.code for each in check("train.py", target="0.19.8")]
    assert codes == (["DSC102"] if package == "composer" else [])
