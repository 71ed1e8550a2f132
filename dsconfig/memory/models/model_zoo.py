"""Presets with the sizes of published models, by name and by Hub name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.models.architecture import Architecture
from dsconfig.memory.models.composite_model_zoo import COMPOSITE_CONFIGS, decoder_config

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


# Sizes from the published `config.json` files; only keys that affect memory.


def _tied_decoder_config(kind: str, *sizes: int, **more: Json) -> Mapping[str, Json]:
    return {**decoder_config(kind, *sizes, **more), "tie_word_embeddings": True}


def _expert_keys(count: int, chosen: int, wide: int) -> dict[str, Json]:
    return {"num_experts": count, "num_experts_per_tok": chosen, "moe_intermediate_size": wide}


def _gpt2_config(hidden: int, layers: int, heads: int) -> Mapping[str, Json]:
    return {"model_type": "gpt2", "n_embd": hidden, "n_layer": layers, "n_head": heads}


def _gpt_neox_config(hidden: int, layers: int, heads: int, words: int = 50_304) -> Mapping[str, Json]:
    sizes: dict[str, Json] = {"hidden_size": hidden, "num_hidden_layers": layers, "vocab_size": words}
    sizes |= {"intermediate_size": 4 * hidden, "num_attention_heads": heads}
    return {"model_type": "gpt_neox"} | sizes


def _opt_config(hidden: int, layers: int, heads: int) -> Mapping[str, Json]:
    sizes: dict[str, Json] = {"hidden_size": hidden, "num_hidden_layers": layers, "ffn_dim": 4 * hidden}
    return {"model_type": "opt", "num_attention_heads": heads} | sizes


def _bert_config(
    kind: str, hidden: int, layers: int, words: int, places: int, kinds: int
) -> Mapping[str, Json]:
    sizes: dict[str, Json] = {"hidden_size": hidden, "num_hidden_layers": layers, "vocab_size": words}
    sizes |= {"intermediate_size": 4 * hidden, "num_attention_heads": hidden // 64}
    return {"model_type": kind, "max_position_embeddings": places, "type_vocab_size": kinds} | sizes


def _vit_config(hidden: int, layers: int, wide: int, heads: int) -> Mapping[str, Json]:
    labels: dict[str, Json] = {str(number): "" for number in range(1000)}
    sizes: dict[str, Json] = {"hidden_size": hidden, "num_hidden_layers": layers, "intermediate_size": wide}
    rates = {"hidden_dropout_prob": 0.0}
    return {"model_type": "vit", "num_attention_heads": heads, "id2label": labels} | sizes | rates


LLAMAS = {
    "llama-1-30b": decoder_config("llama", 6656, 60, 17920, 52, 52, 32_000),
    "llama-1-65b": decoder_config("llama", 8192, 80, 22016, 64, 64, 32_000),
    "llama-2-7b": decoder_config("llama", 4096, 32, 11008, 32, 32, 32_000),
    "llama-2-13b": decoder_config("llama", 5120, 40, 13824, 40, 40, 32_000),
    "llama-2-70b": decoder_config("llama", 8192, 80, 28672, 64, 8, 32_000),
    "llama-3-8b": decoder_config("llama", 4096, 32, 14336, 32, 8, 128_256),
    "llama-3-70b": decoder_config("llama", 8192, 80, 28672, 64, 8, 128_256),
    "llama-3.1-405b": decoder_config("llama", 16384, 126, 53248, 128, 8, 128_256),
    "llama-3.2-1b": _tied_decoder_config("llama", 2048, 16, 8192, 32, 8, 128_256),
    "llama-3.2-3b": _tied_decoder_config("llama", 3072, 28, 8192, 24, 8, 128_256),
    "codellama-7b": decoder_config("llama", 4096, 32, 11008, 32, 32, 32_016),
    "codellama-13b": decoder_config("llama", 5120, 40, 13824, 40, 40, 32_016),
    "codellama-34b": decoder_config("llama", 8192, 48, 22016, 64, 8, 32_000),
    "tinyllama-1.1b": decoder_config("llama", 2048, 22, 5632, 32, 4, 32_000),
    "yi-6b": decoder_config("llama", 4096, 32, 11008, 32, 4, 64_000),
    "yi-34b": decoder_config("llama", 7168, 60, 20480, 56, 8, 64_000),
    "smollm2-135m": _tied_decoder_config("llama", 576, 30, 1536, 9, 3, 49_152),
    "smollm2-360m": _tied_decoder_config("llama", 960, 32, 2560, 15, 5, 49_152),
    "smollm2-1.7b": _tied_decoder_config("llama", 2048, 24, 8192, 32, 32, 49_152),
}
MISTRALS = {
    "mistral-7b": decoder_config("mistral", 4096, 32, 14336, 32, 8, 32_000, sliding_window=4096),
    "mistral-7b-v0.2": decoder_config("mistral", 4096, 32, 14336, 32, 8, 32_000, sliding_window=None),
    "mistral-7b-v0.3": decoder_config("mistral", 4096, 32, 14336, 32, 8, 32_768, sliding_window=None),
    "mistral-nemo": decoder_config(
        "mistral", 5120, 40, 14336, 32, 8, 131_072, head_dim=128, sliding_window=None
    ),
    "mistral-small-24b": decoder_config(
        "mistral", 5120, 40, 32768, 32, 8, 131_072, head_dim=128, sliding_window=None
    ),
    "mistral-large-2407": decoder_config("mistral", 12288, 88, 28672, 96, 8, 32_768, sliding_window=None),
    "mixtral-8x7b": decoder_config("mixtral", 4096, 32, 14336, 32, 8, 32_000),
    "mixtral-8x22b": decoder_config("mixtral", 6144, 56, 16384, 48, 8, 32_768),
}
QWENS = {
    "qwen2.5-0.5b": _tied_decoder_config("qwen2", 896, 24, 4864, 14, 2, 151_936),
    "qwen2.5-1.5b": _tied_decoder_config("qwen2", 1536, 28, 8960, 12, 2, 151_936),
    "qwen2.5-3b": _tied_decoder_config("qwen2", 2048, 36, 11008, 16, 2, 151_936),
    "qwen2.5-7b": decoder_config("qwen2", 3584, 28, 18944, 28, 4, 152_064),
    "qwen2.5-14b": decoder_config("qwen2", 5120, 48, 13824, 40, 8, 152_064),
    "qwen2.5-32b": decoder_config("qwen2", 5120, 64, 27648, 40, 8, 152_064),
    "qwen2.5-72b": decoder_config("qwen2", 8192, 80, 29568, 64, 8, 152_064),
    "qwen3-0.6b": _tied_decoder_config("qwen3", 1024, 28, 3072, 16, 8, 151_936),
    "qwen3-1.7b": _tied_decoder_config("qwen3", 2048, 28, 6144, 16, 8, 151_936),
    "qwen3-4b": _tied_decoder_config("qwen3", 2560, 36, 9728, 32, 8, 151_936),
    "qwen3-8b": decoder_config("qwen3", 4096, 36, 12288, 32, 8, 151_936),
    "qwen3-14b": decoder_config("qwen3", 5120, 40, 17408, 40, 8, 151_936),
    "qwen3-32b": decoder_config("qwen3", 5120, 64, 25600, 64, 8, 151_936),
    "qwen1.5-moe-a2.7b": decoder_config(
        "qwen2_moe",
        2048,
        24,
        5632,
        16,
        16,
        151_936,
        shared_expert_intermediate_size=5632,
        **_expert_keys(60, 4, 1408),
    ),
    "qwen2-57b-a14b": decoder_config(
        "qwen2_moe",
        3584,
        28,
        18944,
        28,
        4,
        151_936,
        shared_expert_intermediate_size=20480,
        **_expert_keys(64, 8, 2560),
    ),
    "qwen3-30b-a3b": decoder_config(
        "qwen3_moe", 2048, 48, 6144, 32, 4, 151_936, head_dim=128, **_expert_keys(128, 8, 768)
    ),
    "qwen3-235b-a22b": decoder_config(
        "qwen3_moe", 4096, 94, 12288, 64, 4, 151_936, head_dim=128, **_expert_keys(128, 8, 1536)
    ),
    "qwen3-coder-480b-a35b": decoder_config(
        "qwen3_moe", 6144, 62, 8192, 96, 8, 151_936, head_dim=128, **_expert_keys(160, 8, 2560)
    ),
}
GEMMAS = {
    "gemma-2b": decoder_config("gemma", 2048, 18, 16384, 8, 1, 256_000),
    "gemma-7b": decoder_config("gemma", 3072, 28, 24576, 16, 16, 256_000),
    "gemma-2-2b": decoder_config("gemma2", 2304, 26, 9216, 8, 4, 256_000),
    "gemma-2-9b": decoder_config("gemma2", 3584, 42, 14336, 16, 8, 256_000),
    "gemma-2-27b": decoder_config("gemma2", 4608, 46, 36864, 32, 16, 256_000, head_dim=128),
    "gemma-3-270m": decoder_config("gemma3_text", 640, 18, 2048, 4, 1, 262_144, sliding_window=512),
    "gemma-3-1b": decoder_config("gemma3_text", 1152, 26, 6912, 4, 1, 262_144, sliding_window=512),
}
OTHERS = {
    "phi-3-mini-4k": decoder_config("phi3", 3072, 32, 8192, 32, 32, 32_064, sliding_window=2047),
    "phi-3-mini-128k": decoder_config("phi3", 3072, 32, 8192, 32, 32, 32_064, sliding_window=262_144),
    "phi-3-medium-4k": decoder_config("phi3", 5120, 40, 17920, 40, 10, 32_064, sliding_window=2047),
    "phi-3-medium-128k": decoder_config("phi3", 5120, 40, 17920, 40, 10, 32_064, sliding_window=131_072),
    "phi-4": decoder_config("phi3", 5120, 40, 17920, 40, 10, 100_352),
    "phi-4-mini": _tied_decoder_config(
        "phi3", 3072, 32, 8192, 24, 8, 200_064, sliding_window=262_144, partial_rotary_factor=0.75
    ),
    "olmo-2-1b": decoder_config("olmo2", 2048, 16, 8192, 16, 16, 100_352),
    "olmo-2-7b": decoder_config("olmo2", 4096, 32, 11008, 32, 32, 100_352),
    "olmo-2-13b": decoder_config("olmo2", 5120, 40, 13824, 40, 40, 100_352),
    "olmo-2-32b": decoder_config("olmo2", 5120, 64, 27648, 40, 8, 100_352),
    "gpt2": _gpt2_config(768, 12, 12),
    "gpt2-medium": _gpt2_config(1024, 24, 16),
    "gpt2-large": _gpt2_config(1280, 36, 20),
    "gpt2-xl": _gpt2_config(1600, 48, 25),
    "pythia-70m": _gpt_neox_config(512, 6, 8),
    "pythia-160m": _gpt_neox_config(768, 12, 12),
    "pythia-410m": _gpt_neox_config(1024, 24, 16),
    "pythia-1b": _gpt_neox_config(2048, 16, 8),
    "pythia-1.4b": _gpt_neox_config(2048, 24, 16),
    "pythia-2.8b": _gpt_neox_config(2560, 32, 32),
    "pythia-6.9b": _gpt_neox_config(4096, 32, 32, 50_432),
    "pythia-12b": _gpt_neox_config(5120, 36, 40, 50_688),
    "gpt-neox-20b": _gpt_neox_config(6144, 44, 64, 50_432),
    "opt-125m": _opt_config(768, 12, 12),
    "opt-1.3b": _opt_config(2048, 24, 32),
    "opt-2.7b": _opt_config(2560, 32, 32),
    "opt-6.7b": _opt_config(4096, 32, 32),
    "opt-13b": _opt_config(5120, 40, 40),
    "opt-30b": _opt_config(7168, 48, 56),
    "opt-66b": _opt_config(9216, 64, 72),
    "bert-base-uncased": _bert_config("bert", 768, 12, 30_522, 512, 2),
    "bert-base-cased": _bert_config("bert", 768, 12, 28_996, 512, 2),
    "bert-large-uncased": _bert_config("bert", 1024, 24, 30_522, 512, 2),
    "bert-large-cased": _bert_config("bert", 1024, 24, 28_996, 512, 2),
    "roberta-base": _bert_config("roberta", 768, 12, 50_265, 514, 1),
    "roberta-large": _bert_config("roberta", 1024, 24, 50_265, 514, 1),
    "vit-base": _vit_config(768, 12, 3072, 12),
    "vit-large": _vit_config(1024, 24, 4096, 16),
}
CONFIGS: Mapping[str, Mapping[str, Json]] = {
    **(LLAMAS | MISTRALS | QWENS | GEMMAS | OTHERS),
    **COMPOSITE_CONFIGS,
}


# Presets by name.


def preset(name: str) -> Architecture:
    """Return the architecture of a preset by its exact name.

    Raises:
        KeyError: no preset has this name.
    """
    from dsconfig.memory.models.from_hf_config import architecture_of

    return architecture_of(CONFIGS[name])


NAMES = tuple(CONFIGS)
"""Model names that `--model` accepts."""
LARGEST, MOST_LAYERS = 10**15, 2000


def decoder_of_size(
    parameters: int,
    hidden: int,
    layers: int,
    *,
    heads: int = 0,
    intermediate_size: int = 0,
    vocabulary: int = 0,
) -> Architecture:
    """Return a Llama-like decoder of these sizes, with an `intermediate_size` that matches the parameter count.

    Raises:
        ValueError: no model has these sizes.
    """
    heads, vocab_size = heads or max(1, hidden // 128), vocabulary or 32_000
    if max(parameters, hidden, layers, vocab_size) > LARGEST or layers > MOST_LAYERS:
        raise ValueError(f"no model has more than {LARGEST:.0e} parameters or {MOST_LAYERS:,} layers")
    if hidden % heads:
        raise ValueError(f"a hidden size of {hidden} is not divisible by {heads} heads")
    mlp_numel = parameters - 2 * vocab_size * hidden - layers * (4 * hidden * hidden + 2 * hidden) - hidden
    intermediate_size = intermediate_size or mlp_numel // (3 * hidden * layers)
    if intermediate_size < 1:
        raise ValueError(
            f"{layers} layers of {hidden} with a vocabulary of {vocab_size} have more than {parameters} parameters"
        )
    return Architecture(
        "decoder", hidden, layers, intermediate_size, heads, heads, hidden // heads, vocab_size, name="llama"
    )


# Hub names of presets.


def preset_of(name: str) -> Architecture | None:
    """Return the preset with this name or Hub name, ignoring case, or None."""
    maker, slash, last = name.lower().rpartition("/")
    if slash and maker not in HUB_OWNERS:
        return None
    alias = next((candidate for candidate in _alias_candidates(last) if candidate in NAMES), None)
    return preset(alias) if alias else None


def similar_names(name: str) -> list[str]:
    """Return known model names with a spelling similar to the given one."""
    from difflib import get_close_matches

    last = name.lower().rpartition("/")[2]
    return get_close_matches(_without_training_suffix(last), [*NAMES, *HUB_ALIASES], 3, 0.6)


def _alias_candidates(last: str) -> list[str]:
    """Return a name as given, without training suffixes, and also without its version."""
    bare = _without_training_suffix(last)
    # `-v0.3` or `-2407` mark releases with the same sizes.
    plain = re.sub(r"-(v\d+(\.\d+)?|\d{4})(?=-|$)", "", bare)
    return [HUB_ALIASES.get(name, name) for name in (last, bare, plain)]


def _without_training_suffix(last: str) -> str:
    return re.sub(r"^meta-|-(hf|instruct|chat|base|it|pt|deduped|thinking)(?=-|$)", "", last)


HUB_OWNERS = frozenset(
    (
        *("meta-llama", "codellama", "huggyllama", "tinyllama", "nousresearch", "unsloth", "lmsys", "01-ai"),
        *("mistralai", "qwen", "deepseek-ai", "google", "microsoft", "allenai", "eleutherai", "facebook"),
        *(
            "openai-community",
            "huggingfacetb",
            "google-bert",
            "facebookai",
            "opengvlab",
            "openbmb",
            "llava-hf",
        ),
    )
)
"""Hub organizations whose models have the sizes of these presets."""
HUB_ALIASES = {
    "vit-base-patch16-224": "vit-base",
    "vit-large-patch16-224": "vit-large",
    "llama-7b": "llama-2-7b",
    "llama-13b": "llama-2-13b",
    "llama-30b": "llama-1-30b",
    "llama-65b": "llama-1-65b",
    "vicuna-7b": "llama-2-7b",
    "vicuna-13b": "llama-2-13b",
    "llama-3.1-8b": "llama-3-8b",
    "llama-3.1-70b": "llama-3-70b",
    "llama-3.3-70b": "llama-3-70b",
    "deepseek-r1-distill-llama-8b": "llama-3-8b",
    "deepseek-r1-distill-llama-70b": "llama-3-70b",
    "deepseek-r1-distill-qwen-7b": "qwen2.5-7b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "qwen2-0.5b": "qwen2.5-0.5b",
    "qwen2-1.5b": "qwen2.5-1.5b",
    "qwen2-7b": "qwen2.5-7b",
    "qwen2-72b": "qwen2.5-72b",
    "qwen2.5-coder-7b": "qwen2.5-7b",
    "qwen2.5-coder-32b": "qwen2.5-32b",
    "qwen2.5-math-7b": "qwen2.5-7b",
    "qwen3-coder-30b-a3b": "qwen3-30b-a3b",
    "mistral-7b-v0.1": "mistral-7b",
    "mistral-large-2411": "mistral-large-2407",
    "yi-1.5-6b": "yi-6b",
    "yi-1.5-34b": "yi-34b",
    "gemma-1.1-2b": "gemma-2b",
    "gemma-1.1-7b": "gemma-7b",
    "phi-3.5-mini": "phi-3-mini-128k",
    "internvl2_5-2b": "internvl2-2b",
    "internvl2_5-8b": "internvl2-8b",
    "internvl2_5-26b": "internvl2-26b",
    "llava-1.5-7b-hf": "llava-1.5-7b",
}
"""Presets with the same sizes as a Hub model, by the model's name without training suffixes."""
