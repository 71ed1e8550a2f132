"""Losses without logits, Liger kernels, offloaded checkpoints and quantized bases."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Runs
from tests.cli.estimates import config_of, estimate, phases_of

CONFIG = config_of(2)
RUN = ("memory", "ds.json", "--model", "llama-3-8b", "--world-size", "8", "--sequence-length", "4096")
LORA = ("--lora", "r=16,target=all", "--checkpointing")
TOKENS, WORDS, HIDDEN = 4096, 128_256, 4096

pytestmark = pytest.mark.usefixtures("ds_json")


def peak(result: dict[str, Any], phase: str = "backward") -> int:
    return int(result["rank"]["peak"][phase])


@pytest.mark.parametrize("loss", ["chunked", "fused"])
def test_a_loss_without_logits_saves_them(run: Runs, loss: str) -> None:
    full, less = (estimate(run, *RUN, "--no-checkpointing", "--loss", each) for each in ("full", loss))
    assert "logits and loss" not in phases_of(less)
    assert peak(full, "forward") - peak(less, "forward") > 7 * TOKENS * WORDS
    assert any(line.startswith("the loss is computed ") for line in less["assumptions"])


def test_a_fused_loss_makes_the_gradients_of_the_head_in_the_forward_pass(run: Runs) -> None:
    fused = phases_of(estimate(run, *RUN, "--checkpointing", "--loss", "fused"))
    head, hidden = 2 * WORDS * HIDDEN, 2 * TOKENS * HIDDEN
    chunk = 6 * 128 * WORDS  # 4096 tokens in 32 chunks
    assert fused["temporaries"]["forward"] == head + hidden + chunk


def test_liger_kernels_of_the_trainer_apply_to_norms_mlps_and_loss(run: Runs, here: Path) -> None:
    (here / "args.json").write_text(
        '{"use_liger_kernel": true, "bf16": true, "gradient_checkpointing": false}'
    )
    plain = phases_of(estimate(run, *RUN, "--no-checkpointing"))["activations"]["backward"]
    result = estimate(run, *RUN, "--training-args", "args.json", "--no-checkpointing")
    assert "norms and MLPs run as Liger kernels" in result["assumptions"]
    # Two norms save 4 instead of 8 bytes per element, and an MLP 6 instead of 8.
    saved = 32 * TOKENS * (2 * 4 * HIDDEN + 2 * 14336)
    assert plain - phases_of(result)["activations"]["backward"] == pytest.approx(saved, rel=0.02)


def test_offloaded_checkpoints_are_on_the_host(run: Runs, here: Path) -> None:
    recipe = {
        "base_model": "meta-llama/Meta-Llama-3-8B",
        "deepspeed": "ds.json",
        "sequence_len": 4096,
        "micro_batch_size": 1,
        "gradient_accumulation_steps": 1,
        "bf16": True,
    }
    (here / "ds.json").write_text(json.dumps({key: CONFIG[key] for key in CONFIG if key != "optimizer"}))
    results = []
    for value in (True, "offload"):
        (here / "train.yaml").write_text(json.dumps(recipe | {"gradient_checkpointing": value}))
        results.append(estimate(run, "memory", "train.yaml", "--world-size", "8"))
    kept, offloaded = (phases_of(result)["activations"]["forward"] for result in results)
    inputs = 32 * 2 * TOKENS * HIDDEN
    assert kept - offloaded == pytest.approx(inputs, rel=0.1)
    assert phases_of(results[1], "host")["offloaded activations"]["forward"] == 8 * inputs


@pytest.mark.parametrize(
    ("kind", "per_weight"),
    [
        ("nf4", 0.5159),
        ("nf4-single", 0.5625),
        ("fp4", 0.5159),
        ("int8", 1.001),
        ("gptq-4", 0.52),
        ("gptq-8", 1.0234),
    ],
)
def test_frozen_linear_layers_are_stored_packed(run: Runs, kind: str, per_weight: float) -> None:
    plain, packed = (estimate(run, *RUN, *LORA, *more) for more in ((), ("--quantize", kind)))
    linear = 32 * (HIDDEN * (2 * HIDDEN + 2 * 1024) + 3 * HIDDEN * 14336)
    saved = phases_of(plain)["parameters"]["at_rest"] - phases_of(packed)["parameters"]["at_rest"]
    assert saved == pytest.approx((2 - per_weight) * linear, rel=0.001)
    assert packed["parameters"] == plain["parameters"]


@pytest.mark.parametrize(
    ("section", "stored"),
    [
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "4-bit bitsandbytes"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "8-bit bitsandbytes"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "4-bit GPTQ"),
        ({"quant_method": "awq", "bits": 4, "group_size": 64}, "4-bit AWQ"),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, None),
        ({"quant_method": "mxfp4"}, None),
    ],
)
def test_a_config_json_says_how_its_weights_are_stored(
    run: Runs, here: Path, section: dict[str, Any], stored: str | None
) -> None:
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config = {"model_type": "llama", "vocab_size": 100, **sizes, "quantization_config": section}
    (here / "config.json").write_text(json.dumps(config))
    command = ("memory", "ds.json", "--model", "config.json", *RUN[4:])
    lines = estimate(run, *command, "--lora", "r=8")["assumptions"]
    assert any(f"stored as {stored}" in line for line in lines) is (stored is not None)
    full = run(*command)
    assert (full.code, "only trained with adapters" in full.err) == ((2, True) if stored else (0, False))


def test_an_unknown_quantization_says_what_to_pass(run: Runs, here: Path) -> None:
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128}
    config = {
        "model_type": "llama",
        "vocab_size": 100,
        **sizes,
        "quantization_config": {"quant_method": "hqq"},
    }
    (here / "config.json").write_text(json.dumps(config))
    code, _, err = run("memory", "ds.json", "--model", "config.json", *RUN[4:], "--lora", "r=8")
    assert (code, "pass `--quantize` with one of nf4" in err) == (2, True)


@pytest.mark.parametrize(
    ("optimizer", "bytes_each"),
    [("adafactor", 4), ("lion-8bit", 1), ("rmsprop", 4), ("ademamix", 12), ("ademamix-8bit", 3)],
)
def test_states_of_other_optimizers(run: Runs, here: Path, optimizer: str, bytes_each: int) -> None:
    (here / "ds.json").write_text(
        json.dumps({key: value for key, value in CONFIG.items() if key != "optimizer"})
    )
    result = estimate(run, *RUN, "--checkpointing", "--optimizer", optimizer)
    states = phases_of(result)["optimizer states"]["at_rest"]
    assert states == pytest.approx(bytes_each * result["parameters"] / 8, rel=0.05)


def test_liger_changes_nothing_of_a_model_type_that_it_does_not_know(run: Runs, here: Path) -> None:
    (here / "args.json").write_text('{"use_liger_kernel": true, "bf16": true}')
    for model, has_kernels in (("qwen2.5-7b", True), ("gpt2", False)):
        command = ("memory", "ds.json", "--model", model, "--world-size", "1", "--training-args", "args.json")
        assert (
            "norms and MLPs run as Liger kernels" in estimate(run, *command)["assumptions"]
        ) is has_kernels


@pytest.mark.parametrize("model", ["qwen3-30b-a3b", "mixtral-8x7b"])
def test_experts_are_stored_packed_if_the_quantization_covers_them(run: Runs, model: str) -> None:
    command = ("memory", "ds.json", "--model", model, "--world-size", "1", "--lora", "r=8,target=q_proj")
    linear, experts = (
        phases_of(estimate(run, *command, "--quantize", kind))["parameters"]["at_rest"]
        for kind in ("nf4", "nf4+experts")
    )
    assert experts < 0.45 * linear
    code, _, err = run(*command, "--quantize", "magic+experts")
    assert (code, "quantize 'magic': expected one of nf4" in err) == (2, True)


def test_axolotl_quantizes_experts(run: Runs, here: Path) -> None:
    recipe = {
        "base_model": "Qwen/Qwen3-30B-A3B",
        "deepspeed": "ds.json",
        "adapter": "qlora",
        "load_in_4bit": True,
    }
    recipe |= {"quantize_moe_experts": True, "lora_r": 8, "lora_target_modules": ["q_proj"], "bf16": True}
    recipe |= {"micro_batch_size": 1, "gradient_accumulation_steps": 1, "sequence_len": 2048}
    (here / "ds.json").write_text(json.dumps({key: CONFIG[key] for key in CONFIG if key != "optimizer"}))
    (here / "qlora.yaml").write_text(json.dumps(recipe))
    assumptions = estimate(run, "memory", "qlora.yaml", "--world-size", "1")["assumptions"]
    assert any("frozen linear layers and experts are stored as 4-bit" in line for line in assumptions)


@pytest.mark.parametrize("target", ["query_key_value", "dense_h_to_4h", "q_proj", "all-linear"])
def test_adapters_of_a_generic_model_are_named_as_in_its_own_code(run: Runs, here: Path, target: str) -> None:
    config = {"model_type": "bloom", "hidden_size": 1024, "n_layer": 4, "n_head": 8, "vocab_size": 25088}
    (here / "bloom.json").write_text(json.dumps(config))
    command = (
        "memory",
        "ds.json",
        "--model",
        "bloom.json",
        "--world-size",
        "1",
        "--lora",
        f"r=8,target={target}",
    )
    result = estimate(run, *command)
    assert result["trained"] > 0
    name = "all linear layers" if target == "all-linear" else target
    assert f"adapters of rank 8 are trained and nothing else (LoRA: {name})" in result["assumptions"]
