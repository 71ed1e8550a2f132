"""A Python program that names its config file: `dsconfig check train.py` checks that file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import check

CONFIG = {"train_batch_size": 8, "gradient_cliping": 1.0}
PLUGIN = "from accelerate import DeepSpeedPlugin\n{}\n"
FOLLOWED = [
    "from transformers.integrations import HfDeepSpeedConfig\nHfDeepSpeedConfig('ds.json')\n",
    "from transformers import TrainingArguments\npath = 'ds.json'\nTrainingArguments('o', deepspeed=path)\n",
    PLUGIN.format("DeepSpeedPlugin(hf_ds_config='ds.json')"),
    "import deepspeed\ndeepspeed.initialize(model=net, config='ds.json')\n",
]
NOT_FOLLOWED = [
    "import deepspeed\ndeepspeed.initialize(model=net, config=path)\n",
    "import deepspeed\npath = 'ds.json'\npath = other()\ndeepspeed.initialize(model=net, config=path)\n",
    "import deepspeed\ndef f(path):\n    deepspeed.initialize(model=m, config=path)\ndef g():\n    path = 'ds.json'\n",
    PLUGIN.format("DeepSpeedPlugin(hf_ds_config='missing.json')"),
    PLUGIN.format("DeepSpeedPlugin(hf_ds_config='ds.json')\nDeepSpeedPlugin(hf_ds_config='other.json')"),
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
    assert report.name == "ds.json"
    assert "reads ds.json" in report.notes[0]
    assert "DSC102" in [each.code for each in report]


@pytest.mark.usefixtures("empty_repository")
@pytest.mark.parametrize("program", NOT_FOLLOWED)
def test_unknown_paths_are_not_followed(program: str) -> None:
    write(program)
    assert check("train.py", target="0.19.8").name == "train.py"


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
    assert check("train.ipynb").name == "ds.json"
