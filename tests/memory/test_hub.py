"""Models by the hub's names, and files that are no model."""

from __future__ import annotations

from pathlib import Path

import pytest

from dsconfig import NotModelledError
from dsconfig.memory.models.model_zoo import preset, preset_of
from dsconfig.resolve.model_source import load_model

LLAMA = '{"model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, '
LLAMA += '"intermediate_size": 128, "vocab_size": 100}'


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("llama-3-8b", "llama-3-8b"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("mistralai/Mistral-7B-v0.1", "mistral-7b"),
        ("Qwen/Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("openai-community/gpt2-xl", "gpt2-xl"),
        ("llama-3.1-8b", "llama-3-8b"),
        ("Llama-3.1-8B-Instruct", "llama-3-8b"),
        ("META-LLAMA/Llama-3.3-70B-Instruct", "llama-3-70b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507", "qwen3-30b-a3b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        ("google/gemma-3-1b-pt", "gemma-3-1b"),
        ("microsoft/phi-4", "phi-4"),
        ("microsoft/Phi-3-mini-4k-instruct", "phi-3-mini-4k"),
        ("allenai/OLMo-2-1124-7B", "olmo-2-7b"),
        ("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B", "qwen2.5-7b"),
        ("llama", None),
        ("someone/llama-3-8b", None),
        ("someone/else", None),
        ("../llama-3-8b", None),
    ],
)
def test_names_of_the_hub_lead_to_presets(name: str, known: str | None) -> None:
    assert preset_of(name) == (preset(known) if known else None)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lama-3-8b", "did you mean llama-3-8b or"),
        ("Qwen/Qwen3-31B", "nor in the hub's cache on this machine"),
        ("qwen3-30b-a4b", "did you mean qwen3-30b-a3b"),
        ("nothing-like-it", "pass its config.json"),
    ],
)
def test_an_unknown_name_is_told_what_it_is_like(name: str, said: str) -> None:
    with pytest.raises(NotModelledError) as refused:
        load_model(name)
    assert said in f"{refused.value} {refused.value.help}"
    assert len(str(refused.value.help)) < 160


def test_a_model_in_the_hub_s_cache_is_found_without_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    folder = tmp_path / "models--someone--else"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("abc123\n")
    with pytest.raises(NotModelledError, match="unknown model `someone/else`"):
        load_model("someone/else")
    (folder / "snapshots" / "abc123").mkdir(parents=True)
    (folder / "snapshots" / "abc123" / "config.json").write_text(LLAMA)
    assert load_model("someone/else").shape.hidden_size == 64


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('"num_hidden_layers": 2', f'"num_hidden_layers": 1{"0" * 400}'),
        ('"num_attention_heads": 4', '"num_attention_heads": 7'),
        ('"num_attention_heads": 4', '"num_attention_heads": 4, "num_key_value_heads": 3'),
        ('"hidden_size": 64', '"hidden_size": -64'),
        ('"hidden_size": 64', '"hidden_size": 64.5'),
    ],
)
def test_sizes_of_no_model_are_refused(tmp_path: Path, change: str, said: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(LLAMA.replace(change, said))
    with pytest.raises(NotModelledError):
        load_model(path)
