"""Presets with the sizes of published vision-language models, by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


# Sizes from the published `config.json` files; only keys that affect memory.


def decoder_config(
    kind: str,
    hidden: int,
    layers: int,
    intermediate: int,
    heads: int,
    kv_heads: int,
    vocab: int,
    **more: Json,
) -> dict[str, Json]:
    """Return the keys of a decoder's `config.json` that have its sizes."""
    sizes: dict[str, Json] = {
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "intermediate_size": intermediate,
    }
    sizes |= {"num_attention_heads": heads, "num_key_value_heads": kv_heads, "vocab_size": vocab}
    return {"model_type": kind} | sizes | more


def _text(kind: str, *sizes: int, **more: Json) -> dict[str, Json]:
    return decoder_config(kind, *sizes, rms_norm_eps=1e-6, **more)


def _qwen2_vl(*sizes: int, tied: bool = False) -> Mapping[str, Json]:
    vision: Json = {"depth": 32, "embed_dim": 1280, "mlp_ratio": 4, "num_heads": 16, "patch_size": 14}
    return _text("qwen2_vl", *sizes) | {"vision_config": vision, "tie_word_embeddings": tied}


def _qwen2_5_vl(*sizes: int, wide: int = 3420, tied: bool = False) -> Mapping[str, Json]:
    vision: Json = {"depth": 32, "hidden_size": 1280, "intermediate_size": wide, "num_heads": 16}
    return _text("qwen2_5_vl", *sizes) | {"vision_config": vision, "tie_word_embeddings": tied}


def _qwen3_vl(*sizes: int, large: bool = True, tied: bool = False) -> Mapping[str, Json]:
    layers: list[Json] = [8, 16, 24] if large else [5, 11, 17]
    vision: dict[str, Json] = {"depth": 27, "hidden_size": 1152, "intermediate_size": 4304}
    if not large:
        vision = {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096}
    vision |= {"num_heads": 16, "patch_size": 16, "deepstack_visual_indexes": layers}
    text = _text("qwen3_vl_text", *sizes, head_dim=128)
    return {
        "model_type": "qwen3_vl",
        "text_config": text,
        "vision_config": vision,
        "tie_word_embeddings": tied,
    }


_INTERNVIT: Mapping[str, Json] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "qkv_bias": True,
}
_INTERNVIT_6B: Mapping[str, Json] = {
    "hidden_size": 3200,
    "intermediate_size": 12800,
    "num_attention_heads": 25,
    "num_hidden_layers": 45,
    "norm_type": "rms_norm",
    "qk_normalization": True,
    "qkv_bias": False,
}


def _internvl(kind: str, *sizes: int, large: bool = False) -> Mapping[str, Json]:
    vision = dict(_INTERNVIT_6B if large else _INTERNVIT)
    text = _text(kind, *sizes, tie_word_embeddings=False)
    return {"model_type": "internvl_chat", "llm_config": text, "vision_config": vision}


def _siglip_400m(image: int) -> Json:
    return {
        "model_type": "siglip_vision_model",
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_attention_heads": 16,
        "num_hidden_layers": 27,
        "image_size": image,
        "patch_size": 14,
    }


def _gemma3(
    hidden: int, layers: int, wide: int, heads: int, kv_heads: int, head_dim: int = 256
) -> Mapping[str, Json]:
    sizes = (hidden, layers, wide, heads, kv_heads, 262_208)
    text = _text("gemma3_text", *sizes, head_dim=head_dim, sliding_window=1024)
    return {"model_type": "gemma3", "text_config": text, "vision_config": _siglip_400m(896)}


def _minicpm_v(version: str, queries: int, text: Mapping[str, Json]) -> Mapping[str, Json]:
    top_level: dict[str, Json] = {"model_type": "minicpmv", "version": version, "query_num": queries}
    return {**text, **top_level, "vision_config": _siglip_400m(980), "tie_word_embeddings": False}


def _llava(kind: str, text: Mapping[str, Json]) -> Mapping[str, Json]:
    vision: Json = {
        "model_type": "clip_vision_model",
        "hidden_size": 1024,
        "intermediate_size": 4096,
        "num_attention_heads": 16,
        "num_hidden_layers": 24,
        "image_size": 336,
        "patch_size": 14,
    }
    return {
        "model_type": kind,
        "text_config": dict(text),
        "vision_config": vision,
        "tie_word_embeddings": False,
    }


_VICUNA_13B = _text("llama", 5120, 40, 13824, 40, 40, 32_064)
COMPOSITE_CONFIGS: Mapping[str, Mapping[str, Json]] = {
    "qwen2-vl-2b": _qwen2_vl(1536, 28, 8960, 12, 2, 151_936, tied=True),
    "qwen2-vl-7b": _qwen2_vl(3584, 28, 18944, 28, 4, 152_064),
    "qwen2-vl-72b": _qwen2_vl(8192, 80, 29568, 64, 8, 152_064),
    "qwen2.5-vl-3b": _qwen2_5_vl(2048, 36, 11008, 16, 2, 151_936, tied=True),
    "qwen2.5-vl-7b": _qwen2_5_vl(3584, 28, 18944, 28, 4, 152_064),
    "qwen2.5-vl-32b": _qwen2_5_vl(5120, 64, 27648, 40, 8, 152_064, wide=3456),
    "qwen2.5-vl-72b": _qwen2_5_vl(8192, 80, 29568, 64, 8, 152_064, wide=3456),
    "qwen3-vl-2b": _qwen3_vl(2048, 28, 6144, 16, 8, 151_936, large=False, tied=True),
    "qwen3-vl-4b": _qwen3_vl(2560, 36, 9728, 32, 8, 151_936, large=False, tied=True),
    "qwen3-vl-8b": _qwen3_vl(4096, 36, 12288, 32, 8, 151_936),
    "qwen3-vl-32b": _qwen3_vl(5120, 64, 25600, 64, 8, 151_936),
    "internvl2-2b": _internvl("internlm2", 2048, 24, 8192, 16, 8, 92_553),
    "internvl2-8b": _internvl("internlm2", 4096, 32, 14336, 32, 8, 92_553),
    "internvl2-26b": _internvl("internlm2", 6144, 48, 16384, 48, 8, 92_553, large=True),
    "internvl2_5-4b": _internvl("qwen2", 2048, 36, 11008, 16, 2, 151_674),
    "internvl3-1b": _internvl("qwen2", 896, 24, 4864, 14, 2, 151_674),
    "internvl3-2b": _internvl("qwen2", 1536, 28, 8960, 12, 2, 151_674),
    "internvl3-8b": _internvl("qwen2", 3584, 28, 18944, 28, 4, 151_674),
    "internvl3-14b": _internvl("qwen2", 5120, 48, 13824, 40, 8, 151_674),
    "internvl3-38b": _internvl("qwen2", 5120, 64, 27648, 40, 8, 151_674, large=True),
    "internvl3-78b": _internvl("qwen2", 8192, 80, 29568, 64, 8, 151_674, large=True),
    "gemma-3-4b": _gemma3(2560, 34, 10240, 8, 4),
    "gemma-3-12b": _gemma3(3840, 48, 15360, 16, 8),
    "gemma-3-27b": _gemma3(5376, 62, 21504, 32, 16, head_dim=128),
    "minicpm-llama3-v-2_5": _minicpm_v("2.5", 96, _text("llama", 4096, 32, 14336, 32, 8, 128_256)),
    "minicpm-v-2_6": _minicpm_v("2.6", 64, _text("qwen2", 3584, 28, 18944, 28, 4, 151_666)),
    "minicpm-v-4_5": _minicpm_v("4.5", 64, _text("qwen3", 4096, 36, 12288, 32, 8, 151_748)),
    "llava-1.5-7b": _llava("llava", _text("llama", 4096, 32, 11008, 32, 32, 32_064)),
    "llava-1.5-13b": _llava("llava", _VICUNA_13B),
    "llava-v1.6-vicuna-7b": _llava("llava_next", _text("llama", 4096, 32, 11008, 32, 32, 32_064)),
    "llava-v1.6-vicuna-13b": _llava("llava_next", _VICUNA_13B),
    "llava-v1.6-mistral-7b": _llava(
        "llava_next", _text("mistral", 4096, 32, 14336, 32, 8, 32_064, sliding_window=None)
    ),
}
"""Sizes of vision-language models."""
