"""Models by the hub's names, and files that are no model."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconfig import NotModelledError
from dsconfig.resolving.models import model_of
from dsconfig.sizing.models.hub import preset_of
from dsconfig.sizing.models.named import PRESETS

LLAMA = '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, '
LLAMA += '"intermediate_size": 128, "vocab_size": 100}'


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("llama-3-8b", "llama-3-8b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("mistralai/Mistral-7B-v0.1", "mistral-7b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("openai-community/gpt2-xl", "gpt2-xl"),
        ("someone/else", None),
        ("../llama-3-8b", None),
    ],
)
def test_names_of_the_hub_lead_to_presets(name: str, preset: str | None) -> None:
    assert preset_of(name) == (PRESETS[preset] if preset else None)


def test_a_model_in_the_hub_s_cache_is_found_without_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--someone--else"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc123\n")
    with pytest.raises(NotModelledError, match="there is no model `someone/else`"):
        model_of("someone/else")
    (folder / "snapshots" / "abc123").mkdir(parents=True)
    (folder / "snapshots" / "abc123" / "config.json").write_text(LLAMA)
    assert model_of("someone/else").shape.hidden == 64


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('"num_hidden_layers": 2', f'"num_hidden_layers": 1{"0" * 400}'),
        ('"num_attention_heads": 4', '"num_attention_heads": 7'),
        ('"num_attention_heads": 4', '"num_attention_heads": 4, "num_key_value_heads": 3'),
        ('"hidden_size": 64', '"hidden_size": -64'),
        ('"hidden_size": 64', '"quantization_config": {"bits": 4}, "hidden_size": 64'),
    ],
)
def test_sizes_of_no_model_are_refused(tmp_path: Path, change: str, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(LLAMA.replace(change, said))
    with pytest.raises(NotModelledError):
        model_of(path)
