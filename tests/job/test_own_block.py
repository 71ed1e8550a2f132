"""Release, world size, consumer and model from the block `"$dsconfig"`, in every function."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dsconfig

MODEL = {"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
MODEL |= {"intermediate_size": 128, "vocab_size": 100, "max_position_embeddings": 4096}
BLOCK = {"target": "0.16.9", "world-size": 4, "consumer": "transformers", "model": "config.json"}
CONFIG: dict[str, Any] = {
    "$dsconfig": BLOCK,
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": 8,
    "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"},
}
ARGS = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 8}


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    monkeypatch.chdir(tmp_path)
    Path("config.json").write_text(json.dumps(MODEL))
    Path("ds.json").write_text(json.dumps(CONFIG))


def of_check(**options: Any) -> dict[str, Any]:
    report = dsconfig.check("ds.json", **options)
    named = report.reader.facts.model
    return {
        "target": report.target.text,
        "world-size": report.world_size,
        "consumer": report.consumer,
        "model": named and named.named,
    }


def of_fix(**options: Any) -> dict[str, Any]:
    fixed = dsconfig.fix("ds.json", **options)
    report = fixed.report
    return {"target": report.target.text, "world-size": report.world_size, "consumer": report.consumer}


def of_load(**options: Any) -> dict[str, Any]:
    Path("ds.json").write_text(json.dumps({**CONFIG, "train_batch_size": "x"}))
    with pytest.raises(dsconfig.ConfigError) as caught:
        dsconfig.load("ds.json", **options)
    report = caught.value.report
    return {"target": report.target.text, "world-size": report.world_size, "consumer": report.consumer}


def of_resolve(**options: Any) -> dict[str, Any]:
    run = dsconfig.resolve("ds.json", training_args=ARGS, **options)
    bucket = run.config["zero_optimization"]["reduce_bucket_size"]
    return {
        "target": run.release,
        "world-size": run.world_size,
        "consumer": run.consumer,
        "model": "config.json" if bucket == 64 * 64 else None,
    }


def of_show(**options: Any) -> dict[str, Any]:
    effective = dsconfig.show("ds.json", training_args=ARGS, **options)
    values = {value.key: value for value in effective.values}
    bucket = values["zero_optimization.reduce_bucket_size"]
    batch = values["train_batch_size"].value
    return {
        "target": effective.release,
        "world-size": batch // 16 if isinstance(batch, int) else None,
        "consumer": bucket.note.split(" ")[2],
        "model": "config.json" if bucket.value == 64 * 64 else None,
    }


def of_memory(**options: Any) -> dict[str, Any]:
    estimate = dsconfig.memory("ds.json", training_args=ARGS, micro_batch=2, **options)
    return {"target": estimate.release, "world-size": estimate.world_size}


def of_migrate(**options: Any) -> dict[str, Any]:
    moved = dsconfig.migrate("ds.json", to="0.19.8", origin=options.pop("target", None), **options)
    return {"target": moved.origin}


def of_compat(**options: Any) -> dict[str, Any]:
    """Only 4 ranks divide the batch, so the result shows whether the block was read."""
    Path("ds.json").write_text(json.dumps({"$dsconfig": {"world-size": 3}, "train_batch_size": 8}))
    return {
        "world-size": 4 if any(each.word != "ok" for each in dsconfig.compat("ds.json", **options)) else None
    }


FUNCTIONS: list[Callable[..., dict[str, Any]]] = [
    of_check,
    of_fix,
    of_load,
    of_resolve,
    of_show,
    of_memory,
    of_migrate,
    of_compat,
]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_is_read_by_every_function(function: Callable[..., dict[str, Any]]) -> None:
    for field, value in function().items():
        assert value == BLOCK[field], field


@pytest.mark.parametrize("function", [of_check, of_fix, of_resolve, of_show, of_memory])
def test_an_argument_comes_first(function: Callable[..., dict[str, Any]]) -> None:
    result = function(target="0.17.6", world_size=2)
    assert (result["target"], result["world-size"]) == ("0.17.6", 2)


def test_a_launch_file_leads_to_the_block_of_its_config() -> None:
    Path("run.sh").write_text("deepspeed --num_gpus 16 t.py --deepspeed ds.json --output_dir o\n")
    run = dsconfig.resolve("run.sh", training_args=ARGS)
    assert (run.release, run.world_size, run.consumer) == ("0.16.9", 4, "transformers")
    assert {child.target.text for child in dsconfig.check("run.sh").children} == {"0.16.9"}
    assert {child.world_size for child in dsconfig.check("run.sh").children} == {4}


@pytest.mark.parametrize("form", ["path", "text", "bytes", "dict"])
def test_every_form_of_a_config_has_its_block(form: str) -> None:
    text = json.dumps(CONFIG)
    source: Any = {"path": "ds.json", "text": text, "bytes": text.encode(), "dict": CONFIG}[form]
    run = dsconfig.resolve(source, training_args=ARGS)
    assert (run.release, run.world_size, run.consumer) == ("0.16.9", 4, "transformers")
    assert (run.train_batch_size, run.config["zero_optimization"]["reduce_bucket_size"]) == (64, 64 * 64)
    effective = dsconfig.show(source, training_args=ARGS)
    assert effective.release == "0.16.9"
    assert {value.key: value.value for value in effective.values}["train_batch_size"] == 64
    estimate = dsconfig.memory(source, training_args=ARGS)
    assert (estimate.release, estimate.world_size) == ("0.16.9", 4)


@pytest.mark.parametrize("block", [{"world-size": 0}, {"world-size": "4"}, {"world-size": True}, {}, 8])
def test_a_block_that_says_no_number_of_ranks(block: Any) -> None:
    config = {"$dsconfig": block, "train_micro_batch_size_per_gpu": 2}
    with pytest.raises(dsconfig.UnknownWorldSizeError):
        dsconfig.resolve(config)
    assert dsconfig.check(config).world_size is None
    assert dsconfig.resolve(config, world_size=2).train_batch_size == 4


def test_a_block_that_names_no_release() -> None:
    config = {"$dsconfig": {"target": "9.9", "world-size": 2}, "train_micro_batch_size_per_gpu": 2}
    assert dsconfig.check(config).target.text == dsconfig.check({}).target.text
    effective = dsconfig.show({**config, "$dsconfig": {"world-size": 2}})
    assert dsconfig.show(config).release == effective.release
    assert dsconfig.memory(config, model=MODEL).world_size == 2


def test_a_range_of_releases_means_its_newest() -> None:
    config = {"$dsconfig": {"target": ">=0.16,<0.17", "world-size": 2}, "train_micro_batch_size_per_gpu": 2}
    assert dsconfig.resolve(config).release == "0.16.9"
    assert dsconfig.show(config).release == dsconfig.memory(config, model=MODEL).release == "0.16.9"


def test_the_environment_comes_before_the_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert dsconfig.resolve("ds.json", training_args=ARGS).world_size == 2


@pytest.mark.parametrize("leads", ["acc.yaml", "run.sh"])
def test_accelerate_s_launch_file_leads_to_the_block_of_its_config(leads: str) -> None:
    config = {**CONFIG, "$dsconfig": {"target": "0.16.9", "world-size": 4}, "zero_optimization": {"stage": 3}}
    Path("ds.json").write_text(json.dumps(config | {"train_micro_batch_size_per_gpu": 2}))
    Path("acc.yaml").write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 16\ndeepspeed_config: {deepspeed_config_file: ds.json}\n"
    )
    Path("run.sh").write_text("accelerate launch --config_file acc.yaml t.py\n")
    run = dsconfig.resolve(leads)
    assert (run.release, run.world_size, run.train_batch_size) == ("0.16.9", 4, 64)
    assert dsconfig.show(leads).release == "0.16.9"
    report = dsconfig.check(leads)
    while report.children:
        (report,) = report.children
    assert (report.target.text, report.world_size) == ("0.16.9", 4)
