"""Model types without a module of their own: parameters as published, and an estimate with activations.

The sizes are those of the published `config.json` files, with the keys that decide memory.
"""

from __future__ import annotations

from typing import Any

import pytest

import dsconfig
from dsconfig.memory.models.architecture import MicroBatch
from dsconfig.memory.models.record_pass_by_family import record_forward_pass
from dsconfig.resolve.model_source import load_model
from tests.memory.model_configs import APPROXIMATE, CONFIGS


@pytest.mark.parametrize("name", CONFIGS)
def test_parameters_are_those_of_the_published_model(name: str) -> None:
    config, billions = CONFIGS[name]
    tape = record_forward_pass(load_model(config).shape, MicroBatch(1, 16, 2))
    count = sum(weight.numel for weight in tape.weights)
    assert count / 1e9 == pytest.approx(billions, rel=APPROXIMATE.get(name, 0.03))


@pytest.mark.parametrize("name", CONFIGS)
def test_activations_grow_with_the_sequence(name: str) -> None:
    config, _ = CONFIGS[name]
    model = load_model(config)
    assert model.unmodelled == ()

    def saved(length: int) -> int:
        tape = record_forward_pass(model.shape, MicroBatch(1, length, 2, image_tokens=0))
        return sum(tensor.bytes for operation in tape.operations for tensor in operation.saved)

    assert saved(512) > 1.8 * saved(256) > 0


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_gets_a_gradient(name: str) -> None:
    """Engines wait for the gradient of each parameter."""
    tape = record_forward_pass(load_model(CONFIGS[name][0]).shape, MicroBatch(1, 16, 2))
    assert not [weight.name for weight in tape.weights if not weight.use_count]


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["mamba-2.8b", "olmoe-1b-7b", "deepseek-v2-lite", "t5-base", "qwen2-vl-7b"])
def test_every_stage_trains_them(name: str, stage: int) -> None:
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage},
    }
    result = dsconfig.memory(
        config, model=CONFIGS[name][0], world_size=2, sequence_length=64, checkpointing=True
    )
    assert result.rank.peak["backward"] > result.rank.at_rest


def text(**sizes: Any) -> dict[str, Any]:
    return {"model_type": "brand_new", "rms_norm_eps": 1e-6, **sizes}


def test_experts_are_copies_of_tokens() -> None:
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    dense = load_model(text(**sizes, intermediate_size=128)).shape
    routed = load_model(text(**sizes, intermediate_size=128, num_experts=8, num_experts_per_tok=4)).shape

    def saved(arch: Any) -> int:
        tape = record_forward_pass(arch, MicroBatch(1, 256, 2))
        return sum(tensor.bytes for operation in tape.operations for tensor in operation.saved)

    assert saved(routed) > 1.9 * saved(dense)


def test_a_model_without_words_has_states_only() -> None:
    """Diffusion transformers have no vocabulary."""
    config = {"_class_name": "FluxTransformer2DModel", "num_layers": 19, "num_attention_heads": 24}
    model = load_model({**config, "attention_head_dim": 128, "in_channels": 64, "patch_size": 1})
    assert model.shape.family == "sized"
    assert [setting.key for setting in model.unmodelled] == ["activations"]


def test_qwen_1_computes_its_loss_in_the_dtype_of_the_logits() -> None:
    """Logits, their shifted copy and log-probabilities coexist (modeling_qwen.py, `QWenLMHeadModel.forward`)."""
    length, vocabulary = 4096, 151_936
    model = {
        "model_type": "qwen",
        "hidden_size": 2048,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 11008,
        "vocab_size": vocabulary,
    }
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}
    estimate = dsconfig.memory(
        config, model=model, world_size=1, sequence_length=length, lora="r=8,target=c_attn,w1"
    )
    assert estimate.parameters - estimate.trained == 1_836_828_672  # of Qwen-1.8B
    terms = {term.name: term.bytes for term in estimate.rank.terms}
    assert terms["logits and loss"] == pytest.approx(3 * 2 * length * vocabulary, rel=1e-3)
