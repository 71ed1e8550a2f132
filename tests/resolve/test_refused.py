"""`resolve` ends with the finding wherever `check` says that the run stops, and never with a config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig import ResolveError, check, resolve
from dsconfig.resolve.effective_values import effective_values_of

BATCH = {"train_micro_batch_size_per_gpu": 2}


def told(source: Any, size: int | None = 2, target: str = "0.19.8", **options: Any) -> ResolveError:
    with pytest.raises(ResolveError) as caught:
        resolve(source, world_size=size, target=target, **options)
    assert caught.value.diagnostics
    return caught.value


@pytest.mark.parametrize(
    ("part", "code"),
    [
        ({"zero_optimization": {"stge": 2}}, "DSC102"),
        ({"zero_optimization": {"stage": 3, "reduce_bucket_size": "1e9"}}, "DSC115"),
        ({"zero_optimization": {"stage": 4}}, "DSC"),
        ({"zero_optimization": {"stage": 2}, "optimizer": {"type": "AdamW", "params": {"lrr": 1}}}, "DSC5"),
        ({"fp16": {"enabled": True}, "bf16": {"enabled": True}}, "DSC3"),
    ],
)
def test_a_config_that_is_refused(part: dict[str, Any], code: str) -> None:
    error = told({**BATCH, **part})
    assert {found.severity for found in error.diagnostics} == {"error"}
    assert any(found.code.startswith(code) for found in error.diagnostics), error


def test_the_place_and_the_help_are_told(tmp_path: Path) -> None:
    path = tmp_path / "ds.yaml"
    path.write_text("train_batch_size: 8\nzero_optimization:\n  stage: 2\n  reduce_bucket_size: 1e9\n")
    error = told(str(path))
    assert error.reason.startswith(f"{path}:4: DSC115 `reduce_bucket_size` is the string")
    (hint,) = error.hints
    assert hint.startswith("use `1000000000`: YAML 1.1 reads")


def test_what_only_a_file_can_hold() -> None:
    error = told('{"train_batch_size": 8, "train_batch_size": 8}')
    assert "twice" in error.reason


def test_what_the_consumer_refuses() -> None:
    assert (
        "Lightning rejects" in told({**BATCH, "gradient_accumulation_steps": 2}, consumer="lightning").reason
    )


def test_what_only_another_loop_dies_of() -> None:
    casts = {**BATCH, "fp16": {"enabled": False, "auto_cast": True}, "bf16": {"enabled": True}}
    casts["zero_optimization"] = {"stage": 0}
    assert "auto_cast" in told(casts, consumer="deepspeed").reason
    run = resolve(casts, world_size=2, target="0.19.8", consumer="transformers", training_args={"bf16": True})
    assert run.triplet == (4, 2, 1), "the Trainer gives inputs by name"


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("zero_optimization.stge", 2, "did you mean `stage`?"),
        ("zero_optimisation.stage", 2, "did you mean `zero_optimization`?"),
        ("train_micro_batch_size", 2, "use `train_micro_batch_size_per_gpu`"),
        ("stage", 2, "zero_optimization"),
        ("nothing_like_it", 2, "remove it"),
        ("zero_optimization.stage", "two", "use `0`, `1`, `2` or `3`"),
    ],
)
@pytest.mark.parametrize("release", ["0.14.5", "0.19.8"])
def test_a_misspelt_set(key: str, value: Any, said: str, release: str) -> None:
    error = told(BATCH, 2, release, set={key: value})
    assert said in str(error)


def test_set_repairs_what_is_written() -> None:
    config = {**BATCH, "zero_optimization": {"stage": 7}}
    assert "stage" in told(config).reason
    run = resolve(config, world_size=2, target="0.19.8", set={"zero_optimization.stage": 2})
    assert run.config["zero_optimization"] == {"stage": 2}


@pytest.mark.parametrize(
    ("part", "taken"),
    [
        ({"optimizer": {"type": "AdamW", "params": {"max_grad_norm": 1.0}}}, True),
        ({"fp16": {"enabled": True}, "bf16": {"enabled": True}}, False),
    ],
)
def test_what_the_file_silences(part: dict[str, Any], taken: bool) -> None:
    """That an engine stops may be silenced, not that the release refuses the config."""
    codes = [found.code for found in told({**BATCH, **part}).diagnostics]
    silent = {"$dsconfig": {"ignore": codes}, **BATCH, **part}
    for source in (silent, json.dumps(silent)):
        assert check(source, target="0.19.8", world_size=2).ok
        if taken:
            assert resolve(source, world_size=2, target="0.19.8").triplet == (4, 2, 1)
        else:
            assert told(source).diagnostics[0].code == codes[0]


def test_the_ranks_that_share_a_model_do_not_count_as_batches() -> None:
    run = resolve({"train_batch_size": 4}, world_size=8, target="0.19.8", tp=2)
    assert run.triplet == (4, 1, 1)


def test_show_tells_refused_values() -> None:
    shown = effective_values_of({**BATCH, "zero_optimization": {"stge": 2}}, 2, "0.19.8")
    assert {value.key: value.origin for value in shown.values}["zero_optimization.stge"] == "refused"
    assert {value.key: value.value for value in shown.values}["train_batch_size"] == 4
