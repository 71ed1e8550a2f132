"""Shapes: published counts of parameters, config.json as Transformers writes it, and what is refused."""

from __future__ import annotations

import pytest

from dsconfig import NotModelledError
from dsconfig.sizing.models.families import record
from dsconfig.sizing.models.hugging_face import shape_of
from dsconfig.sizing.models.named import PRESETS, like
from dsconfig.sizing.models.shape import Work
from dsconfig.sizing.optimizers import CLIENTS

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
        ("gpt2", 124_439_808),
        ("gpt2-xl", 1_557_611_200),
        ("vit-base", 86_567_656),
    ],
)
def test_presets_have_the_published_number_of_parameters(name: str, count: int) -> None:
    tape = record(PRESETS[name], Work(1, 16, 2))
    assert sum(weight.elements for weight in tape.weights) == count


def test_a_model_of_a_number_of_parameters_has_about_as_many() -> None:
    tape = record(like(7_000_000_000, 4096, 32), Work(1, 16, 2))
    assert sum(weight.elements for weight in tape.weights) == pytest.approx(7e9, rel=0.001)


def test_sizes_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="more than 1000000 parameters"):
        like(1_000_000, 4096, 32)
    with pytest.raises(ValueError, match="cannot be divided among 3 heads"):
        like(7_000_000_000, 4096, 32, heads=3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model_type": "mamba"}, "the model type `mamba` is not modelled"),
        ({"model_type": None}, "a model without `model_type` is not modelled"),
        ({"model_type": ["llama"]}, "is not modelled"),
        ({"hidden_size": None}, "`hidden_size` of the model is `null`"),
        ({"hidden_size": "64"}, "`hidden_size` of the model is `64`"),
        ({"vocab_size": True}, "`vocab_size` of the model is `true`"),
        ({"num_hidden_layers": -1}, "`num_hidden_layers` of the model is `-1`"),
    ],
)
def test_what_is_no_model_is_refused_by_name(change: dict[str, object], said: str) -> None:
    with pytest.raises(NotModelledError) as refused:
        shape_of({**LLAMA, **change})
    assert said in str(refused.value)


def test_a_missing_key_of_a_model_is_named() -> None:
    with pytest.raises(NotModelledError, match="`hidden_size` of the model is missing"):
        shape_of({key: value for key, value in LLAMA.items() if key != "hidden_size"})


def test_quantised_states_are_those_of_bitsandbytes() -> None:
    """Measured on a partition of 1,262,144 elements: two bytes each, scales of blocks of 256, two tables."""
    assert CLIENTS["adamw-8bit"].kept(1_262_144) == 2_565_784
    assert CLIENTS["adamw-8bit"].kept(1000) == 8000
