"""The `config.json` of the most used models: their parameters to the last one, and activations.

The numbers of parameters are those of the classes of Transformers 5.24, built from the same file on the `meta` device;
that of Gemma 3n, whose encoder needs another library, is the published one.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import dsconfig
from dsconfig.memory.models.architecture import MicroBatch
from dsconfig.memory.models.record_pass_by_family import record_forward_pass
from dsconfig.resolve.model_source import load_model
from tests.parity.judges.memory import predict

FOLDER = Path(__file__).parent
LINES = (FOLDER / "published_configs.jsonl").read_text("utf-8").splitlines()
MODELS: dict[str, tuple[dict[str, Any], int]] = {
    line["name"]: (line["config"], line["parameters"]) for line in map(json.loads, LINES)
}
TOWERS = [json.loads(line) for line in (FOLDER / "towers.jsonl").read_text("utf-8").splitlines()]
APPROXIMATE = {
    "gemma-3n-e4b": 0.15,
    "gemma-4": 0.03,
    "kimi-linear-48b": 0.01,
    "phi-4-multimodal": 0.12,
    "wav2vec2-large": 0.05,
}
"""Models with parts whose weights are not counted exactly, and by which fraction they are off."""
STATES_ONLY = ("clip-vit-large-patch14", "dinov2-large")


@pytest.mark.parametrize("name", MODELS)
def test_every_parameter_is_counted(name: str) -> None:
    config, parameters = MODELS[name]
    tape = record_forward_pass(load_model(config).shape, MicroBatch(1, 1, 2, records_pass=False))
    count = sum(weight.numel for weight in tape.weights)
    if name in APPROXIMATE:
        assert count == pytest.approx(parameters, rel=APPROXIMATE[name])
    else:
        assert count == parameters


def test_activations_are_known_of_almost_all_models() -> None:
    assert len(MODELS) >= 150
    unknown = [name for name, (config, _) in MODELS.items() if load_model(config).unmodelled]
    assert unknown == list(STATES_ONLY)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in STATES_ONLY])
def test_every_parameter_takes_part_in_the_pass(name: str) -> None:
    """Engines wait for the gradient of each parameter."""
    shape = load_model(MODELS[name][0]).shape
    tape = record_forward_pass(shape, MicroBatch(1, 16, 2))
    assert not [weight.name for weight in tape.weights if not weight.use_count]


@pytest.mark.parametrize("case", TOWERS, ids=[case["trial"]["id"] for case in TOWERS])
def test_engines_of_models_with_encoders(case: dict[str, Any]) -> None:
    """Recorded engines of vision-language models: peaks within 1.5 %."""
    prediction = predict(case["trial"], case["release"])
    assert prediction.parameters == case["measured"]["parameters"]
    for phase, count in case["measured"]["peak"].items():
        assert prediction.peak[phase] == pytest.approx(count, rel=0.015), phase


@pytest.mark.parametrize(
    "name", ["qwen2.5-vl-3b", "t5-base", "mamba2-2.7b", "gpt-oss-20b", "bloom-7b1", "falcon-7b"]
)
@pytest.mark.parametrize("options", [{}, {"checkpointing": True}, {"train_vision": False}])
def test_all_activations_are_freed(name: str, options: dict[str, Any]) -> None:
    result = estimated(name, sequence_length=256, **options)
    terms = {term.name: term.phases for term in result.rank.terms}
    assert "at_rest" not in terms["activations"]


def estimated(name: str, **options: Any) -> dsconfig.Estimate:
    config = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}}
    options = {"world_size": 1, "checkpointing": False, **options}
    return dsconfig.memory(config, model=MODELS[name][0], **options)


def test_images_add_activations_unless_the_encoder_is_frozen() -> None:
    name = "qwen2.5-vl-3b"
    none, one = (estimated(name, sequence_length=4096, image_tokens=count) for count in (0, 1024))
    frozen = estimated(name, sequence_length=4096, image_tokens=1024, train_vision=False)
    assert one.rank.peak["forward"] > none.rank.peak["forward"] + 2**30
    assert frozen.rank.at_rest < one.rank.at_rest
    assert frozen.rank.peak["forward"] < one.rank.peak["forward"] - 2**30
    assert any("1024 tokens" in line and "frozen" in line for line in frozen.assumptions)


@pytest.mark.parametrize(
    ("name", "length"),
    [("bert-base-uncased", 512), ("modernbert-base", 8192), ("t5-base", 512), ("whisper-small", 448)],
)
def test_an_encoder_is_given_sequences_of_its_own_length(name: str, length: int) -> None:
    assert any(f"1 × {length} tokens" in line for line in estimated(name).assumptions)


def test_an_encoder_without_a_language_head_has_no_logits() -> None:
    """Embedding models have 250,000 words, but no scores for them."""
    terms = {term.name: term.bytes for term in estimated("bge-m3", sequence_length=512).rank.terms}
    assert "logits and loss" not in terms


def test_negative_image_tokens_are_rejected() -> None:
    with pytest.raises(ValueError, match="image_tokens"):
        estimated("qwen2.5-vl-3b", image_tokens=-1)


def test_linear_attention_needs_its_kernels() -> None:
    keys = [setting.key for setting in estimated("mamba-2.8b").assumed]
    assert "the kernels of linear attention" in keys


def test_adapters_of_all_layers_may_include_experts() -> None:
    settings = estimated("olmoe-1b-7b", lora="r=8,target=all").unmodelled
    assert [setting.key for setting in settings] == ["adapters of experts"]
    assert not estimated("olmoe-1b-7b", lora="r=8,target=q_proj").unmodelled


def test_experts_before_transformers_5_are_not_estimated() -> None:
    config = {"train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
    for version, count in (("4.51.0", 1), ("5.2.0", 0)):
        result = dsconfig.memory(
            config, model=MODELS["olmoe-1b-7b"][0], world_size=1, consumer=f"transformers=={version}"
        )
        assert len(result.unmodelled) == count


SAVED = {
    "bloom": ({"hidden_size": 128, "n_layer": 4, "n_head": 4, "vocab_size": 500}, 22_417_412),
    "gpt_neo": (
        {
            "hidden_size": 128,
            "num_layers": 4,
            "num_heads": 4,
            "vocab_size": 500,
            "max_position_embeddings": 256,
        },
        29_626_372,
    ),
    "llama4_text": (
        {
            "hidden_size": 128,
            "num_hidden_layers": 4,
            "intermediate_size": 384,
            "vocab_size": 500,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 32,
            "rms_norm_eps": 1e-5,
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "intermediate_size_mlp": 384,
            "interleave_moe_layer_step": 2,
            "tie_word_embeddings": False,
        },
        29_629_444,
    ),
}
"""Bytes that torch saves for the backward pass of two sequences of 256 tokens in bf16."""


@pytest.mark.parametrize("kind", SAVED)
def test_generic_transformers_save_what_torch_saves(kind: str) -> None:
    config, saved_bytes = SAVED[kind]
    tape = record_forward_pass(load_model({"model_type": kind, **config}).shape, MicroBatch(2, 256, 2))
    saved = {
        id(tensor): tensor.bytes
        for operation in tape.operations
        if operation.output.requires_grad
        for tensor in operation.saved
    }
    assert sum(saved.values()) == pytest.approx(saved_bytes, rel=0.1)
