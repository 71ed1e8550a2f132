"""`dsconfig memory` where DeepSpeed 0.16.0 to 0.16.7 keep what is computed again gathered until the step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate

pytestmark = pytest.mark.usefixtures("ds_json")
CONFIG = config_of(3)
RUN = ("memory", "ds.json", "--model", "llama-2-7b", "--world-size", "64", "--sequence-length", "512")
WEIGHTS = 2 * 6_738_415_616
LINE = "checkpointing is not reentrant (`use_reentrant`)"


def backward(result: dict[str, Any]) -> int:
    count: int = result["rank"]["peak"]["backward"]
    return count


@pytest.mark.parametrize("target", ["0.16.0", "0.16.7"])
def test_the_whole_model_is_there_as_a_backward_pass_ends(run: Runs, target: str) -> None:
    result = estimate(run, *RUN, "--target", target, "--checkpointing")
    assert backward(result) > 0.9 * WEIGHTS
    assert LINE in result["assumptions"]
    texts = [note["text"] for note in result["findings"] if note["key"] == "zero_optimization.stage"]
    assert any("upgrade to 0.16.8, or pass `use_reentrant=True`" in text for text in texts)


@pytest.mark.parametrize("target", ["0.15.4", "0.16.8"])
def test_other_releases_let_go_of_it(run: Runs, target: str) -> None:
    result = estimate(run, *RUN, "--target", target, "--checkpointing")
    assert backward(result) < 0.9 * WEIGHTS
    assert LINE not in result["assumptions"]


def test_without_checkpointing_nothing_is_counted_twice(run: Runs) -> None:
    result = estimate(run, *RUN, "--target", "0.16.4")
    assert not [note for note in result["findings"] if "use_reentrant" in note["text"]]


@pytest.mark.parametrize(
    ("kwargs", "reentrant"),
    [
        ({"use_reentrant": True}, True),
        ('{"use_reentrant": true}', True),
        ({"use_reentrant": False}, False),
        ("{", True),
        (None, True),
    ],
)
def test_arguments_say_how_it_is_computed_again(run: Runs, here: Path, kwargs: Any, reentrant: bool) -> None:
    arguments = {"gradient_checkpointing": True, "per_device_train_batch_size": 1, "bf16": True}
    arguments |= {} if kwargs is None else {"gradient_checkpointing_kwargs": kwargs}
    (here / "args.json").write_text(json.dumps(arguments))
    result = estimate(run, *RUN, "--target", "0.16.4", "--training-args", "args.json")
    assert (backward(result) < 0.9 * WEIGHTS) is reentrant
    assert (LINE in result["assumptions"]) is not reentrant


LAUNCH = """\
stage: sft
model_name_or_path: llama-2-7b
finetuning_type: full
cutoff_len: 512
per_device_train_batch_size: 1
learning_rate: 1.0e-4
bf16: true
deepspeed: ds.json
"""


@pytest.mark.parametrize(("more", "reentrant"), [("", True), ("use_reentrant_gc: false\n", False)])
def test_llama_factory_is_reentrant_where_nothing_is_said(
    run: Runs, here: Path, more: str, reentrant: bool
) -> None:
    (here / "ds.json").write_text(json.dumps(CONFIG))
    (here / "train.yaml").write_text(LAUNCH + more)
    result = estimate(run, "memory", "train.yaml", "--world-size", "64", "--target", "0.16.4")
    assert (backward(result) < 0.9 * WEIGHTS) is reentrant
