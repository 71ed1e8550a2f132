"""`dsconfig explain "<error message>"`: cause, remedies, the key that was meant, and whether it applies to a config."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import Runs, Spawns

BATCH = (
    "AssertionError: Check batch related parameters. train_batch_size is not equal to "
    "micro_batch_per_gpu * gradient_acc_step * world_size 256 != 4 * 8 * 4"
)
EXTRA = """pydantic_core._pydantic_core.ValidationError: 2 validation errors for DeepSpeedZeroConfig
overlap_com
  Extra inputs are not permitted [type=extra_forbidden, input_value=True, input_type=bool]
offload_param.ratioo
  Extra inputs are not permitted [type=extra_forbidden, input_value=0.5, input_type=float]
    For further information visit https://errors.pydantic.dev/2.9/v/extra_forbidden
"""


TRIPLET = {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8}


def test_cause_remedies_rules_and_source(run: Runs) -> None:
    code, out, err = run("explain", BATCH)
    assert (code, err) == (0, "")
    for part in (
        "Cause:",
        "Remedies:",
        "DSC202",
        "config.py:DeepSpeedConfig._batch_assertion",
        "/messages/batch-product/",
    ):
        assert part in out


def test_words_without_quotes(run: Runs) -> None:
    assert "no optimizer" in run("explain", "zero", "stage", "2", "requires", "an", "optimizer").out


def test_a_traceback_on_stdin(spawn: Spawns) -> None:
    result = spawn("explain", "-", stdin=f"Traceback (most recent call last):\n  x\n{BATCH}\n".encode())
    assert (result.code, result.err) == (0, "")
    assert "deepspeed: AssertionError" in result.out


def test_an_unknown_error_is_said_to_be_unknown(run: Runs) -> None:
    code, out, err = run("explain", "ValueError: the moon is too low")
    assert (code, out) == (2, "")
    assert "no known error message" in err


def test_a_similar_message_admits_its_score(run: Runs) -> None:
    out = run("explain", "no_sync manager is incompatible with the gradient partitioning logic of ZeRO").out
    assert out.startswith("No known message matches the text exactly. The most similar one (score 0.")


def test_the_keys_that_pydantic_rejects(run: Runs) -> None:
    out = run("explain", EXTRA, "--target", "0.19.8").out
    assert "`zero_optimization.overlap_com`: " in out
    assert "did you mean `overlap_comm`?" in out
    assert "`zero_optimization.offload_param.ratioo`: " in out


def test_a_key_of_a_later_release(run: Runs) -> None:
    reason = "extra fields not permitted (type=value_error.extra)"
    text = f"1 validation error for DeepSpeedZeroConfig\nzero_hpz_partition_size\n  {reason}"
    out = run("explain", text, "--target", "0.19.8").out
    assert (
        "DeepSpeed 0.19.8 accepts it, but the release that printed this message does not. The key exists from 0.10.0"
        in out
    )


@pytest.mark.parametrize(
    ("config", "options", "expected"),
    [
        (
            {"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8},
            ["4"],
            "It applies:",
        ),
        (
            {"train_batch_size": 128, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8},
            ["4"],
            "no diagnostics from DSC202",
        ),
        (
            {"train_batch_size": 128},
            [],
            "The number of ranks is unknown: pass `--world-size N` to check more.",
        ),
    ],
)
def test_whether_it_applies_to_a_config(
    run: Runs, here: Path, config: dict[str, int], options: list[str], expected: str
) -> None:
    (here / "ds.json").write_text(json.dumps(config))
    world_size = ["--world-size", *options] if options else []
    assert expected in run("explain", BATCH, "--config", "ds.json", *world_size).out


def test_json(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text('{"train_batch_size": 3}')
    result = json.loads(run("explain", BATCH, "--config", "ds.json", "--output-format", "json").out)
    assert result["matches"][0]["id"] == "batch-product"
    assert result["matches"][0]["score"] == 1
    assert result["diagnostics"] == []
    assert "no diagnostics from DSC202" in result["config"]


def test_a_config_that_is_not_there(run: Runs) -> None:
    code, _, err = run("explain", BATCH, "--config", "none.json")
    assert code == 2
    assert "none.json" in err
