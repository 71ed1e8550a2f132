"""What the arguments of a job and the model that it trains fill, with and without a number of ranks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from dsconfig.cli import main

CONFIG = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"},
}
LAUNCH = """\
model_name_or_path: models/own
stage: sft
finetuning_type: full
deepspeed: ds.json
per_device_train_batch_size: 2
gradient_accumulation_steps: 3
learning_rate: 2.0e-5
bf16: true
"""
MICRO, BUCKET = "train_micro_batch_size_per_gpu", "zero_optimization.reduce_bucket_size"
RATE = "optimizer.params.lr"


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "DSCONFIG_TARGET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    Path("ds.json").write_text(json.dumps(CONFIG))


def model(hidden: int) -> None:
    Path("models/own").mkdir(parents=True, exist_ok=True)
    Path("models/own/config.json").write_text(json.dumps({"model_type": "llama", "hidden_size": hidden}))


def shown(source: Any, **options: Any) -> dict[str, tuple[Any, str]]:
    values = dsconfig.show(source, target="0.19.8", **options).values
    return {value.key: (value.value, value.origin) for value in values}


@pytest.mark.parametrize("source", ["train.yaml", "ds.json"])
def test_a_launch_file_fills_what_does_not_hang_on_the_number_of_ranks(source: str) -> None:
    Path("train.yaml").write_text(LAUNCH)
    values = shown(source)
    assert (values[MICRO], values[RATE], values["bf16.enabled"]) == (
        (2, "filled"),
        (2e-5, "filled"),
        (True, "filled"),
    )
    assert values["train_batch_size"] == ("auto", "filled")
    assert shown(source, world_size=4)["train_batch_size"] == (24, "filled")


def test_what_nobody_tells_stays_auto_and_is_no_default() -> None:
    assert {shown("ds.json")[key] for key in (MICRO, RATE, BUCKET)} == {("auto", "filled")}
    args = {"per_device_train_batch_size": 2}
    assert shown("ds.json", training_args=args)[BUCKET] == ("auto", "filled")
    assert shown("ds.json", training_args=args, world_size=2)[BUCKET] == ("auto", "filled")
    assert shown("ds.json", consumer="accelerate", training_args=args)[BUCKET] == ("auto", "filled")
    assert shown("ds.json", consumer="deepspeed")[BUCKET] == (500_000_000, "dropped")


def test_the_model_of_a_launch_file_fills_what_hangs_on_its_hidden_size() -> None:
    model(32)
    Path("train.yaml").write_text(LAUNCH)
    for source in ("train.yaml", "ds.json"):
        assert shown(source)[BUCKET] == (1024, "filled")
        run = dsconfig.resolve(source, world_size=2, target="0.19.8")
        assert run.config["zero_optimization"] == {"stage": 3, "reduce_bucket_size": 1024}
    assert shown("train.yaml", model={"hidden_size": 8})[BUCKET] == (64, "filled")


@pytest.mark.parametrize("consumer", ["transformers", "accelerate"])
def test_the_config_s_own_block_names_the_model(consumer: str) -> None:
    own = CONFIG | {"$dsconfig": {"model": "gpt2"}}
    assert shown(own, consumer=consumer)[BUCKET] == (768 * 768, "filled")
    assert shown(own, consumer=consumer)[RATE] == ("auto", "filled")


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "{}",
        '{"hidden_size": 1%s}' % ("0" * 4000),
        '{"hidden_sizes": ["64", [1]]}',
        '{"hidden_size": -1}',
    ],
)
def test_a_model_of_no_hidden_size_fills_nothing(text: str) -> None:
    Path("models/own").mkdir(parents=True)
    Path("models/own/config.json").write_text(text)
    own = CONFIG | {"$dsconfig": {"model": "models/own"}}
    assert shown(own, consumer="transformers")[BUCKET] == ("auto", "filled")


def test_settings_name_the_model_of_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    Path("dsconfig.toml").write_text('model = "gpt2"\nhost-memory = "1GiB"\nworld-size = 2\n')
    assert main(["show", "ds.json", BUCKET, "--consumer", "transformers"]) == 0
    assert str(768 * 768) in capsys.readouterr().out
    Path("args.json").write_text('{"per_device_train_batch_size": 1}')
    said = ["--consumer", "transformers", "--training-args", "args.json"]
    assert main(["resolve", "ds.json", *said]) == 0
    assert json.loads(capsys.readouterr().out)["zero_optimization"]["reduce_bucket_size"] == 768 * 768
    Path("ds.json").write_text('{"train_batch_size": 8}')
    assert main(["memory", "ds.json"]) == 2  # the script may build the model otherwise
    told = capsys.readouterr().out
    assert "\n124.4 million parameters, 2 ranks" in told
    assert "Unknown: needs 1.25 GiB; the host has 1.00 GiB" in told
