"""Shapes: published counts of parameters, config.json as Transformers writes it, and what is refused."""

from __future__ import annotations

import pytest

from dsconfig import NotModelledError
from dsconfig.memory.models.architecture import MicroBatch
from dsconfig.memory.models.from_hf_config import architecture_of
from dsconfig.memory.models.model_zoo import decoder_of_size, preset
from dsconfig.memory.models.record_pass_by_family import record_forward_pass
from dsconfig.memory.setup_from_config import CLIENTS

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("llama-2-7b", 6_738_415_616),
        ("llama-2-70b", 68_976_648_192),
        ("llama-3-8b", 8_030_261_248),
        ("mistral-7b", 7_241_732_096),
        ("mixtral-8x7b", 46_702_792_704),
        ("qwen3-8b", 8_190_735_360),
        ("mistral-7b-v0.3", 7_248_023_552),
        ("mistral-nemo", 12_247_782_400),
        ("qwen1.5-moe-a2.7b", 14_315_784_192),
        ("qwen3-30b-a3b", 30_532_122_624),
        ("qwen3-235b-a22b", 235_093_634_560),
        ("gemma-7b", 8_537_680_896),
        ("gemma-2-9b", 9_241_705_984),
        ("gemma-2-27b", 27_227_128_320),
        ("gemma-3-1b", 999_885_952),
        ("phi-3-mini-4k", 3_821_079_552),
        ("phi-4", 14_659_507_200),
        ("phi-4-mini", 3_836_021_760),
        ("olmo-2-7b", 7_298_617_344),
        ("pythia-160m", 162_322_944),
        ("pythia-6.9b", 6_857_302_016),
        ("gpt-neox-20b", 20_554_567_680),
        ("opt-125m", 125_239_296),
        ("opt-6.7b", 6_658_473_984),
        ("bert-base-uncased", 109_514_298),
        ("roberta-base", 124_697_433),
        ("gpt2", 124_439_808),
        ("gpt2-xl", 1_557_611_200),
        ("vit-base", 86_567_656),
    ],
)
def test_presets_have_the_published_number_of_parameters(name: str, count: int) -> None:
    tape = record_forward_pass(preset(name), MicroBatch(1, 16, 2))
    assert sum(weight.numel for weight in tape.weights) == count


def test_a_model_of_a_number_of_parameters_has_about_as_many() -> None:
    tape = record_forward_pass(decoder_of_size(7_000_000_000, 4096, 32), MicroBatch(1, 16, 2))
    assert sum(weight.numel for weight in tape.weights) == pytest.approx(7e9, rel=0.001)


def test_sizes_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 1000000 parameters"):
        decoder_of_size(1_000_000, 4096, 32)
    with pytest.raises(ValueError, match="is not divisible by 3 heads"):
        decoder_of_size(7_000_000_000, 4096, 32, heads=3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "mamba"}, "the model type `mamba` is not supported yet"),
        ({"model_type": "blip_2", "text_config": {"model_type": "opt"}}, "pass its `text_config`"),
        ({"model_type": None}, "a model without `model_type` is not supported yet"),
        ({"model_type": ["llama"]}, "is not supported yet"),
        ({"hidden_size": None}, "`hidden_size` in config.json is `null`"),
        ({"hidden_size": "64"}, "`hidden_size` in config.json is `64`"),
        ({"vocab_size": True}, "`vocab_size` in config.json is `true`"),
        ({"num_hidden_layers": -1}, "`num_hidden_layers` in config.json is `-1`"),
        ({"attention_dropout": "much"}, "`attention_dropout` in config.json is `much`"),
        ({"model_type": "qwen3_moe", "num_experts": 0}, "`num_experts` in config.json is `0`"),
        (
            {"model_type": "qwen3_moe", "mlp_only_layers": [0.5]},
            "`mlp_only_layers` in config.json is `[0.5]`",
        ),
        ({"model_type": "qwen3_moe", "num_experts": 2}, "8 experts per token exceed the 2 experts"),
        ({"model_type": "gemma2", "layer_types": ["full_attention"]}, "`layer_types` in config.json is"),
        ({"model_type": "gemma2", "sliding_window": -5}, "`sliding_window` in config.json is `-5`"),
        ({"model_type": "phi3", "partial_rotary_factor": 2}, "`partial_rotary_factor` in config.json is `2`"),
        ({"model_type": "opt", "do_layer_norm_before": False}, "`do_layer_norm_before` is `false`"),
        ({"model_type": "bert", "architectures": ["BertModel"]}, "`architectures` in config.json is"),
        ({"model_type": "bert", "is_decoder": True}, "`is_decoder` is `true` is not supported yet"),
    ],
)
def test_what_is_no_model_is_refused_by_name(change: dict[str, object], said: str) -> None:
    with pytest.raises(NotModelledError) as refused:
        architecture_of({**LLAMA, **change})
    assert said in str(refused.value)


def test_a_missing_key_of_a_model_is_named() -> None:
    with pytest.raises(NotModelledError, match=r"`hidden_size` in config\.json is missing"):
        architecture_of({key: value for key, value in LLAMA.items() if key != "hidden_size"})


def test_quantised_states_are_those_of_bitsandbytes() -> None:
    """Measured on a partition of 1,262,144 elements: two bytes each, scales of blocks of 256, two tables."""
    assert CLIENTS["adamw-8bit"].states_nbytes(1_262_144) == 2_565_784
    assert CLIENTS["adamw-8bit"].states_nbytes(1000) == 8000


@pytest.mark.parametrize(
    ("config", "layers"),
    [
        ({"model_type": "mistral"}, (0, 1, 2, 3)),
        ({"model_type": "mistral", "sliding_window": None}, ()),
        ({"model_type": "qwen2", "sliding_window": 64}, ()),
        ({"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 3}, (3,)),
        ({"model_type": "qwen3_moe", "use_sliding_window": True}, (0, 1, 2, 3)),
        ({"model_type": "gemma2"}, (0, 2)),
        ({"model_type": "gemma3_text", "sliding_window_pattern": 3}, (0, 1, 3)),
        ({"model_type": "gemma2", "layer_types": ["full_attention", "sliding_attention"] * 2}, (1, 3)),
        ({"model_type": "olmo3"}, (0, 1, 2)),
    ],
)
def test_the_layers_with_a_window_are_those_of_transformers(
    config: dict[str, object], layers: tuple[int, ...]
) -> None:
    shape = architecture_of({**LLAMA, "num_hidden_layers": 4, "num_experts": 8, **config})
    assert shape.sliding_layers == layers


def test_experts_are_in_the_layers_that_the_config_says() -> None:
    config = {**LLAMA, "model_type": "qwen3_moe", "num_hidden_layers": 5, "decoder_sparse_step": 2}
    assert architecture_of({**config, "mlp_only_layers": [1]}).mlp_only_layers == (0, 1, 2, 4)
    assert architecture_of({**config, "num_local_experts": 16, "num_experts": None}).num_experts == 16
