"""What preference training and reinforcement learning add: sequences, frozen models, generation, vLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dsconfig.resolve.launch_settings import selected_method
from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate, phases_of

CONFIG = config_of(2)
GIB = 1 << 30
NUMEL = 8_030_261_248
RUN = (
    *("memory", "ds.json", "--model", "llama-3-8b", "--world-size", "8", "--sequence-length", "1024"),
    "--checkpointing",
)

pytestmark = pytest.mark.usefixtures("ds_json")


def terms(run: Runs, *argv: str, codes: tuple[int, ...] = (0,)) -> dict[str, Any]:
    return phases_of(estimate(run, *RUN, *argv, codes=codes))


@pytest.mark.parametrize(("stage", "share"), [(2, 1), (3, 8)])
def test_a_reference_model_is_whole_or_partitioned(run: Runs, stage: int, share: int) -> None:
    found = terms(run, "--trainer", "dpo", "--set", f"zero_optimization.stage={stage}", "--zero-init")
    assert found["frozen models"]["at_rest"] == -(-2 * NUMEL // share)


@pytest.mark.parametrize("trainer", ["orpo", "simpo", "cpo", "reward"])
def test_methods_without_a_reference_have_two_sequences(run: Runs, trainer: str) -> None:
    found = terms(run, "--trainer", trainer)
    assert "frozen models" not in found
    assert found["activations"] == terms(run, "--micro-batch", "2")["activations"]


def test_adapters_share_the_reference(run: Runs) -> None:
    assert "frozen models" not in terms(run, "--trainer", "dpo", "--lora", "r=16,target=all")


def test_ppo_trains_a_value_model_and_asks_for_the_reward_model(run: Runs) -> None:
    result = estimate(run, *RUN, "--trainer", "ppo")
    assert [each["key"] for each in result["not_modelled"]] == ["the reward model"]
    assert phases_of(result)["value model"]["at_rest"] > 3 * NUMEL
    known = estimate(run, *RUN, "--trainer", "ppo", "--frozen-model", "llama-3.2-1b")
    assert known["not_modelled"] == []
    assert phases_of(known)["frozen models"]["at_rest"] == 2 * (NUMEL + 1_235_814_400)


def test_generation_gathers_the_model_at_stage_3(run: Runs) -> None:
    cache = 2 * 32 * 8 * 128 * 2 * 1024
    for stage, gathered in ((2, 0), (3, 2 * NUMEL)):
        result = estimate(run, *RUN, "--trainer", "grpo", "--set", f"zero_optimization.stage={stage}")
        needed = phases_of(result).get("generation", {}).get("forward", 0)
        assert needed in (0, cache + gathered)


def test_vllm_takes_its_fraction_of_the_gpu(run: Runs) -> None:
    found = terms(run, "--trainer", "grpo", "--vllm", "0.25", "--gpu", "h200", codes=(0, 2))
    assert found["vLLM"]["at_rest"] == int(0.25 * int(139.7 * GIB))
    assert "vLLM" not in terms(run, "--trainer", "grpo", "--vllm", "0")
    result = estimate(run, *RUN, "--trainer", "grpo", "--vllm", "0.25")
    assert [each["key"] for each in result["not_modelled"]] == ["vLLM"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--trainer", "magic"), "trainer 'magic': expected one of sft, dpo"),
        (("--vllm", "1.5"), "vllm 1.5: expected a fraction"),
    ],
)
def test_impossible_values_name_what_is_expected(run: Runs, options: tuple[str, ...], message: str) -> None:
    code, _, err = run(*RUN, *options)
    assert (code, message in err) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "trainer", "reference", "vllm"),
    [
        ({"stage": "dpo"}, "dpo", None, None),
        ({"stage": "dpo", "pref_loss": "orpo"}, "dpo", False, None),
        ({"stage": "rm"}, "reward", None, None),
        ({"rlhf_type": "gkd"}, "gkd", None, None),
        ({"rl": "simpo"}, "simpo", None, None),
        ({"SCRIPT": "trl/scripts/online_dpo.py"}, "online_dpo", None, None),
        ({"SCRIPT": "run_grpo.py", "beta": 0.0}, "grpo", False, None),
        ({"SCRIPT": "run_grpo.py", "beta": "0.04"}, "grpo", True, None),
        ({"rlhf_type": "grpo", "use_vllm": True}, "grpo", None, 0.3),
        ({"rlhf_type": "grpo", "use_vllm": "true", "vllm_mode": "server"}, "grpo", None, 0.0),
        ({"stage": "sft"}, "sft", None, None),
        ({"stage": "unheard_of"}, None, None, None),
        ({}, None, None, None),
    ],
)
def test_launch_files_name_the_method(
    arguments: dict[str, Any], trainer: str | None, reference: bool | None, vllm: float | None
) -> None:
    assert selected_method(arguments) == (trainer, reference, vllm)


def test_a_recipe_for_dpo_has_an_estimate(run: Runs, here: Path) -> None:
    (here / "ds.json").write_text(json.dumps({key: CONFIG[key] for key in CONFIG if key != "optimizer"}))
    recipe = {
        "model_name_or_path": "meta-llama/Meta-Llama-3-8B",
        "deepspeed": "ds.json",
        "stage": "dpo",
        "finetuning_type": "full",
        "per_device_train_batch_size": 1,
        "bf16": True,
        "cutoff_len": 1024,
    }
    (here / "train.yaml").write_text(json.dumps(recipe))
    result = estimate(run, "memory", "train.yaml", "--world-size", "8")
    assert result["not_modelled"] == []
    assert phases_of(result)["frozen models"]["at_rest"] == 2 * NUMEL
