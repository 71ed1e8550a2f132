"""`dsconfig memory` with models and sizes that cannot be: one line that says what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runs

MICRO = "train_micro_batch_size_per_gpu"


@pytest.fixture(autouse=True)
def config(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    (here / "ds.json").write_text('{"train_micro_batch_size_per_gpu": 1}')


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"resid_pdrop": 1, "model_type": "gpt2"}, ""),
        (
            {"resid_pdrop": [1], "model_type": "gpt2"},
            "`resid_pdrop` in config.json is `[1]`; expected a number from 0",
        ),
        ({"embd_pdrop": -3, "model_type": "gpt2"}, "`embd_pdrop` in config.json is `-3`"),
        ({"model_type": "llava", "text_config": {"model_type": "odd"}}, "`llava` is not supported yet"),
        ({"model_type": ["llama"]}, "the model type `['llama']` is not supported yet"),
        (
            {"model_type": "llama", "num_attention_heads": 1e400},
            "`num_attention_heads` in config.json is `inf`",
        ),
        ([], "not a JSON object"),
    ],
)
def test_what_is_no_config_of_a_model_is_refused(run: Runs, here: Path, values: Any, message: str) -> None:
    (here / "config.json").write_text(json.dumps(values))
    code, _, err = run("memory", "ds.json", "--model", "config.json", "--world-size", "8")
    assert (code, message in err) == (2 if message else 0, True)
    assert err.count("\n") == (1 if message else 0)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (
            ("--params", "1e400", "--hidden", "8", "--layers", "1"),
            "expected a number below 1e+18, got `1e400`",
        ),
        (("--model", "gpt2", "--sequence-length", "1e17"), "sequence_length 100000000000000000: expected at"),
        (("--model", "gpt2", "--world-size", "1000000000"), "expected at most 999999999, got `1000000000`"),
        (
            ("--model", "gpt2", "--world-size", "200000"),
            "runs of more than 100,000 ranks are not supported",
        ),
        (
            ("--model", "gpt2", "--set", f"{MICRO}={10**400}"),
            f"`{MICRO}` 10000000000000000000: expected at most",
        ),
        (
            ("--model", "gpt2", "--set", f"{MICRO}=1e400"),
            f"`{MICRO}` is `inf`: a micro batch needs a whole number of samples",
        ),
        (
            ("--model", "gpt2", "--set", f"{MICRO}=1.5"),
            f"`{MICRO}` is `1.5`: a micro batch needs a whole number of samples",
        ),
        (
            ("--model", "gpt2", "--gpu", "80"),
            "expected an amount such as 80GiB, got `80`, which means bytes",
        ),
        (("--params", "7x", "--hidden", "8", "--layers", "1"), "such as 4096 or 7e9, got `7x`"),
        (("--model", "gpt2", "--fit", "8GiB", "--gpu", "8GiB"), "--fit and --gpu exclude each other"),
    ],
)
def test_sizes_that_are_too_large_say_what_is_the_most(
    run: Runs, argv: tuple[str, ...], message: str
) -> None:
    code, _, err = run("memory", "ds.json", "--world-size", "8", *argv)
    assert code == 2
    assert message in err


def test_a_finding_has_its_place_whatever_is_set(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text('{\n"train_micro_batch_size_per_gpu": 1,\n"amp": {"enabled": true}}')
    argv = ("memory", "ds.json", "--model", "gpt2", "--world-size", "8", "--target", "0.19.8")
    plain = run(*argv).err
    assert plain.startswith("error: ds.json:3: DSC")
    assert run(*argv, "--micro-batch", "2").err == plain


def test_a_batch_that_does_not_go_with_the_ranks_may_be_given(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text('{"train_batch_size": 10}')
    argv = ("memory", "ds.json", "--model", "gpt2", "--world-size", "8")
    assert run(*argv).err.endswith("= or pass `--micro-batch 1`: the other batch keys are derived from it\n")
    assert run(*argv, "--micro-batch", "1").code == 0
    (here / "ds.json").write_text('{"bf16": {"enabled": 7}, "train_batch_size": 8}')
    assert "--micro-batch" not in run(*argv).err
