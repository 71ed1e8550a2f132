"""Encoders of images and audio: their parameters, tokens and activations, and which of them are trained."""

from __future__ import annotations

from typing import Any

import pytest

import dsconfig
from dsconfig.memory.models.architecture import MicroBatch
from dsconfig.memory.models.composite_model_zoo import COMPOSITE_CONFIGS
from dsconfig.memory.models.encoders_of_hub_models import hub_text_kind
from dsconfig.memory.models.model_zoo import preset, preset_of
from dsconfig.memory.models.record_pass_by_family import record_forward_pass
from dsconfig.resolve.model_source import load_model, parse_lora_settings

TEXT = {
    "hidden_size": 256,
    "num_hidden_layers": 1,
    "intermediate_size": 256,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "rms_norm_eps": 1e-6,
    "tie_word_embeddings": False,
}
VISION = {
    "hidden_size": 64,
    "image_size": 448,
    "intermediate_size": 256,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "patch_size": 14,
}
MINICPM = {
    **TEXT,
    "model_type": "minicpmv",
    "version": "2.5",
    "query_num": 64,
    "image_size": 448,
    "vision_config": VISION,
}
LLAVA = {
    **TEXT,
    "model_type": "llava",
    "architectures": ["LlavaLlamaForCausalLM"],
    "mm_vision_tower": "openai/clip-vit-large-patch14-336",
    "mm_projector_type": "mlp2x_gelu",
}
CONFIG = {"train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": True}, "zero_optimization": {"stage": 2}}


PUBLISHED = {
    "qwen2-vl-2b": 2_208_985_600,
    "qwen2-vl-7b": 8_291_375_616,
    "qwen2.5-vl-3b": 3_754_622_976,
    "qwen2.5-vl-7b": 8_292_166_656,
    "qwen2.5-vl-72b": 73_410_777_344,
    "qwen3-vl-4b": 4_437_815_808,
    "qwen3-vl-8b": 8_767_123_696,
    "internvl2-8b": 8_075_365_376,
    "internvl2_5-4b": 3_712_637_952,
    "internvl3-8b": 7_944_373_760,
    "gemma-3-4b": 4_300_079_472,
    "gemma-3-12b": 12_187_325_040,
    "gemma-3-27b": 27_432_406_640,
    "minicpm-v-2_6": 8_099_175_152,
}
"""Parameters of presets."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_has_the_parameters_of_its_model(name: str) -> None:
    tape = record_forward_pass(preset(name), MicroBatch(1, 1, 2, records_pass=False))
    assert sum(weight.numel for weight in tape.weights) == PUBLISHED[name]


@pytest.mark.parametrize("name", COMPOSITE_CONFIGS)
def test_every_preset_has_an_encoder(name: str) -> None:
    assert preset(name).towers


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Qwen/Qwen2.5-VL-7B-Instruct", "qwen2"),
        ("OpenGVLab/InternVL3-8B-hf", "qwen2"),
        ("openbmb/MiniCPM-V-2_6", "qwen2"),
        ("llava-hf/llava-v1.6-mistral-7b-hf", "mistral"),
        ("google/gemma-3-4b-it", "gemma3_text"),
    ],
)
def test_hub_names_are_found(name: str, text: str) -> None:
    arch = preset_of(name)
    assert arch is not None
    assert arch.name == text


def estimate(model: dict[str, Any], **options: Any) -> dsconfig.Estimate:
    options = {"world_size": 1, "sequence_length": 512, "checkpointing": False, **options}
    return dsconfig.memory(CONFIG, model=model, **options)


def saved_bytes(model: dict[str, Any], tokens: int) -> int:
    tape = record_forward_pass(load_model(model).shape, MicroBatch(1, 512, 2, image_tokens=tokens))
    saved = {
        id(tensor): tensor.bytes
        for operation in tape.operations
        if operation.output.requires_grad
        for tensor in operation.saved
    }
    return sum(saved.values())


def trained(model: dict[str, Any], **options: Any) -> int:
    batch = MicroBatch(1, 16, 2, records_pass=False, **options)
    tape = record_forward_pass(load_model(model).shape, batch)
    return sum(weight.numel for weight in tape.weights if weight.requires_grad)


def test_a_resampler_saves_what_torch_saves() -> None:
    """Three tiles of 1024 patches in bf16, as `saved_tensors_hooks` counts them for SigLIP and a resampler."""
    torch_bytes = 16_707_584 + 9_548_800 - 3_612_672  # the images are counted as inputs
    assert saved_bytes(MINICPM, 192) - saved_bytes(MINICPM, 0) == pytest.approx(torch_bytes, rel=0.06)


def test_each_tile_of_an_image_is_encoded() -> None:
    none, one, two = (saved_bytes(MINICPM, tokens) for tokens in (0, 64, 128))
    assert two - none == pytest.approx(2 * (one - none), rel=0.02)


@pytest.mark.parametrize(
    ("version", "kind"), [("2.5", "llama"), (2.6, "qwen2"), (4.5, "qwen3"), (None, "llama")]
)
def test_the_version_decides_the_text_model_of_minicpm_v(version: str | float | None, kind: str) -> None:
    assert hub_text_kind({**MINICPM, "version": version}) == kind


def test_llava_loads_its_encoder_by_name_and_freezes_it() -> None:
    (tower,) = load_model(LLAVA).shape.towers
    assert (tower.hidden_size, tower.num_layers, tower.image_tokens) == (1024, 24, 576)
    encoder = trained(LLAVA) - trained({**LLAVA, "mm_projector_type": "linear"}) - (256 + 1) * 256
    assert encoder == 0
    assert trained({**LLAVA, "unfreeze_mm_vision_tower": True}) - trained(LLAVA) > 300e6


def test_llava_trains_its_projector_next_to_adapters() -> None:
    adapter = parse_lora_settings("r=8,target=q_proj")
    assert trained(LLAVA, adapter=adapter) == 8 * (256 + 256) + (1024 + 1) * 256 + (256 + 1) * 256


def test_an_encoder_of_unknown_name_is_reported() -> None:
    model = {**LLAVA, "mm_vision_tower": "somebody/new-encoder"}
    result = estimate(model)
    assert [each.key for each in result.assumed if "part" in each.key] == [
        "a part of the model (`mm_vision_tower`)"
    ]
    assert result.verdict("rank", 1 << 40) == "tight"


@pytest.mark.parametrize("key", ["vision_config", "audio_config", "visual_tokenizer_config"])
def test_an_encoder_with_unknown_layers_is_reported(key: str) -> None:
    model = {**TEXT, "model_type": "brand_new", key: VISION}
    assert any(f"`{key}`" in each.key for each in estimate(model).assumed)


def test_an_encoder_is_trained_beside_adapters_on_request() -> None:
    adapter = parse_lora_settings("r=8,target=q_proj")
    alone = trained(MINICPM, adapter=adapter)
    beside = trained(MINICPM, adapter=adapter, trains_towers_beside_adapters=True)
    total = sum(
        weight.numel
        for weight in record_forward_pass(load_model(MINICPM).shape, MicroBatch(1, 16, 2)).weights
        if weight.name.startswith("vpm")
    )
    assert beside - alone == total


def test_saved_modules_keep_their_originals() -> None:
    """MiniCPM-V's finetune.py saves its encoder and resampler whole next to adapters."""
    plain = estimate(MINICPM, lora="r=8,target=q_proj", image_tokens=64)
    saved = estimate(MINICPM, lora="r=8,target=q_proj,save=vpm+resampler", image_tokens=64)
    copies = saved.trained - plain.trained
    assert copies > 0
    assert saved.parameters - plain.parameters == copies


def test_the_expected_range_covers_any_number_of_images() -> None:
    none, one, all_tokens = (estimate(MINICPM, image_tokens=count) for count in (0, 64, 512))
    unknown = estimate(MINICPM)
    assert none.device is not None
    assert all_tokens.device is not None
    assert unknown.device is not None
    assert unknown.device.allocated == none.device.allocated
    assert unknown.device.bound == all_tokens.device.bound
    assert unknown.rank.highest_peak == one.rank.highest_peak
    assert any("0 to 512 such tokens" in line for line in unknown.assumptions)


def test_audio_next_to_images_gets_no_tokens() -> None:
    audio = {"d_model": 64, "encoder_layers": 1, "encoder_ffn_dim": 64, "encoder_attention_heads": 2}
    model = {**MINICPM, "model_type": "minicpmo", "version": "2.6", "audio_config": audio}
    result = estimate(model, image_tokens=64)
    kinds = [line.partition(", whose")[0] for line in result.assumptions if "whose encoder" in line]
    assert kinds == [
        "64 tokens of a sequence are those of images",
        "0 tokens of a sequence are those of audio",
    ]


def test_chatglm_has_a_head() -> None:
    """Its files name `ChatGLMModel`, but `auto_map` loads the class with a head."""
    model = {**TEXT, "model_type": "chatglm", "architectures": ["ChatGLMModel"], "rmsnorm": True}
    tape = record_forward_pass(load_model(model).shape, MicroBatch(1, 16, 2))
    assert any(weight.name == "lm_head" for weight in tape.weights)


def test_a_talker_may_not_be_loaded() -> None:
    thinker = {"text_config": {**TEXT, "model_type": "qwen2_5_omni_text"}, "vision_config": {"depth": 1}}
    model = {"model_type": "qwen2_5_omni", "thinker_config": thinker, "talker_config": {"hidden_size": 64}}
    assert any("`talker_config`" in line for line in estimate(model, image_tokens=0).assumptions)
    assert not any("talker" in line for line in estimate(model | {"enable_audio_output": False}).assumptions)
