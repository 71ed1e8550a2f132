"""Training arguments given by the user override those of the script, in every function and command."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from dsconfig.cli import main

AUTO = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": 4,
    "bf16": {"enabled": "auto"},
    "zero_optimization": {"stage": 2},
}
ARGUMENTS = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8, "bf16": True}


class Arguments:
    """Object with the interface of Transformers' `TrainingArguments`."""

    def to_dict(self) -> Mapping[str, Any]:
        return ARGUMENTS


@pytest.fixture
def config(empty_repository: Path) -> str:
    (empty_repository / "z.json").write_text(json.dumps(AUTO))
    (empty_repository / "args.json").write_text(json.dumps(ARGUMENTS))
    return "z.json"


@pytest.mark.parametrize("arguments", [ARGUMENTS, Arguments(), "args.json", Path("args.json")])
def test_they_are_an_object_a_mapping_or_a_path(config: str, arguments: Any) -> None:
    report = dsconfig.check(config, consumer="transformers", training_args=arguments, target="0.19.8")
    assert [diagnostic.code for diagnostic in report] == ["DSC809"]
    matching = {**ARGUMENTS, "gradient_accumulation_steps": 4}
    run = dsconfig.resolve(config, world_size=8, training_args=matching, target="0.19.8")
    assert run.triplet == (64, 2, 4)


def test_the_command_takes_a_file(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--consumer", "transformers", "--training-args", "args.json", "--target", "0.19.8"]
    assert main(["check", config, *options]) == 1
    assert "DSC809" in capsys.readouterr().out
    assert main(["check", config, "--training-args", "none.json"]) == 2
    assert "none.json: no such file" in capsys.readouterr().err


def test_they_go_over_those_of_the_script(config: str) -> None:
    Path("run.sh").write_text(
        "deepspeed --num_gpus 8 train.py --deepspeed z.json --gradient_accumulation_steps 4 --bf16 true "
        "--per_device_train_batch_size 1\n"
    )
    assert dsconfig.check(config, target="0.19.8").ok
    report = dsconfig.check(config, target="0.19.8", training_args={"gradient_accumulation_steps": 2})
    assert [diagnostic.code for diagnostic in report] == ["DSC809"]
    assert report.training_arguments is not None
    assert report.training_arguments.arguments["per_device_train_batch_size"] == 1


OPTIONS = {"target": "0.16.9", "world_size": 2, "consumer": "transformers", "model": "gpt2"}


@pytest.mark.parametrize(
    "call",
    [
        dsconfig.check,
        dsconfig.fix,
        dsconfig.load,
        dsconfig.resolve,
        dsconfig.show,
        dsconfig.memory,
        dsconfig.compat,
        lambda source, target, **options: dsconfig.migrate(source, to="0.17.0", origin=target, **options),
    ],
    ids=["check", "fix", "load", "resolve", "show", "memory", "compat", "migrate"],
)
def test_every_function_takes_the_same_options(config: str, call: Callable[..., object]) -> None:
    matching = {**ARGUMENTS, "gradient_accumulation_steps": 4}
    assert call(config, training_args=matching, launch=None, **OPTIONS) is not None
    if call is not dsconfig.show:  # which takes keys to list
        with pytest.raises(TypeError, match="positional"):
            call(config, "0.16.9", 2)
    with pytest.raises(ValueError, match="consumer"):
        call(config, **{**OPTIONS, "consumer": "nobody"})


def test_errors_name_parameters_and_the_command_its_options(
    config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(dsconfig.ResolveError) as caught:
        dsconfig.resolve(config, world_size=2, target="0.19.8")
    assert "`training_args`" in str(caught.value)
    assert "--" not in str(caught.value)
    assert main(["resolve", config, "--world-size", "2", "--target", "0.19.8"]) == 1
    assert "--training-args FILE" in capsys.readouterr().err
