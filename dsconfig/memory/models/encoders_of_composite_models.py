"""Read the image and audio encoders of a composite model, and their projectors, from its `config.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.memory.models.architecture import Tower
from dsconfig.memory.models.validate_config_json import count, rate

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

Config: TypeAlias = "Mapping[str, Json]"
TEXT_SECTIONS = ("text_config", "llm_config", "language_config")
TEXT_KINDS: Mapping[str, str] = {
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "glm4v_text": "glm4",
}
"""Decoder types by the type of a composite model's text model."""
TEXT_DEFAULTS: Mapping[str, Config] = {
    "llama": {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "vocab_size": 32000,
        "rms_norm_eps": 1e-6,
    },
    "mistral": {
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 32000,
        "rms_norm_eps": 1e-6,
    },
    "gemma3_text": {
        "hidden_size": 2304,
        "num_hidden_layers": 26,
        "intermediate_size": 9216,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "vocab_size": 262_208,
        "rms_norm_eps": 1e-6,
    },
}
"""Sizes that a composite `config.json` omits because they are the defaults of the text model's class."""


def text_config(config: Config) -> Config:
    """Return the section of the text model, or the whole `config.json` if it has none."""
    text = next((config[key] for key in TEXT_SECTIONS if isinstance(config.get(key), Mapping)), config)
    assert isinstance(text, Mapping)
    kind = str(text.get("model_type") or config.get("model_type"))
    defaults = TEXT_DEFAULTS.get(kind, {}) if text is not config else {}
    shared = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
    if "tie_word_embeddings" not in {**shared, **text} and config.get("model_type") in (
        "gemma3",
        "paligemma",
    ):
        shared["tie_word_embeddings"] = True
    return {**defaults, **text, **shared}


def text_kind(config: Config) -> str:
    """Return the supported decoder type of the text model, or else its model type."""
    text = text_config(config)
    kind = str(text.get("model_type") or "")
    if text.get("model_type") == config.get("model_type"):  # Qwen2-VL, whose file has no text section
        kind = f"{kind}_text"
    return TEXT_KINDS.get(kind, kind)


def towers_of(config: Config) -> tuple[Tower, ...]:
    """Return the encoders of a composite model; empty if the encoder is absent or unknown.

    Raises:
        InvalidModelError: a size is invalid.
    """
    kind = config.get("model_type")
    convert = COMPOSITES.get(kind) if isinstance(kind, str) else None
    if convert is None:
        return ()
    section = config.get("audio_config" if kind == "qwen2_audio" else "vision_config")
    vision = section if isinstance(section, Mapping) else {}
    return (convert(config, vision, count(text_config(config), "hidden_size")),)


# Encoders.


def _side(vision: Config, key: str, default: int) -> int:
    value = vision.get(key)
    return count({key: value[0]}, key) if isinstance(value, list) and value else count(vision, key, default)


def _transformer(vision: Config, name: str, image: int = 224, patch: int = 16) -> Tower:
    """Return an encoder with layer norms and biases, as in SigLIP, without a projector."""
    hidden = count(vision, "hidden_size", 768)
    side, size = _side(vision, "image_size", image), _side(vision, "patch_size", patch)
    return Tower(
        name,
        hidden,
        count(vision, "num_hidden_layers", 12),
        count(vision, "intermediate_size", 3072),
        count(vision, "num_attention_heads", 12),
        count(vision, "num_channels", 3) * size * size,
        image_patches=(side // size) ** 2,
    )


def _siglip(vision: Config, name: str = "model.vision_tower", image: int = 224, patch: int = 16) -> Tower:
    tower = _transformer(vision, name, image, patch)
    hidden = tower.hidden_size
    return tower._replace(patch_bias=True, other_numel=(tower.image_patches + 2) * hidden)


def _clip(vision: Config) -> Tower:
    tower = _transformer(vision, "model.vision_tower", patch=32)
    # Class embedding, a position for it, and two layer norms.
    activation = "gelu" if str(vision.get("hidden_act", "quick_gelu")).startswith("gelu") else "quick_gelu"
    return tower._replace(activation=activation, other_numel=(tower.image_patches + 6) * tower.hidden_size)


def _pixtral(vision: Config) -> Tower:
    tower = _transformer({"hidden_size": 1024, "num_hidden_layers": 24, **vision}, "model.vision_tower", 1024)
    return tower._replace(
        intermediate_size=count(vision, "intermediate_size", 4096),
        num_heads=count(vision, "num_attention_heads", 16),
        image_patches=0,
        biases=0,
        mlp_bias=False,
        is_gated=True,
        rotary="separate",
        norm="llama",
        other_numel=tower.hidden_size,
    )


def _encoder(vision: Config) -> Tower:
    """Return the encoder of a LLaVA model."""
    kinds = {"pixtral": _pixtral, "siglip_vision_model": _siglip}
    return kinds.get(str(vision.get("model_type")), _clip)(vision)


def _qwen_vision(vision: Config, hidden: int, patch: int) -> Tower:
    size = count(vision, "patch_size", patch)
    channels = count(vision, "in_channels", count(vision, "in_chans", 3))
    merge = count(vision, "spatial_merge_size", 2)
    return Tower(
        "model.visual",
        hidden,
        count(vision, "depth", 32),
        count(vision, "intermediate_size", 4 * hidden),
        count(vision, "num_heads", 16),
        channels * count(vision, "temporal_patch_size", 2) * size * size,
        merge * merge,
        rotary="fused",
    )


# Composite models.


def _llava(config: Config, vision: Config, text: int) -> Tower:
    tower = _encoder(vision)
    bias = config.get("multimodal_projector_bias", True) is True
    layers = config.get("vision_feature_layer")
    features = tower.hidden_size * (len(layers) if isinstance(layers, list) else 1)
    newline = text if config.get("model_type") != "llava" else 0
    return tower._replace(
        projector=((text, features, bias), (text, text, bias)), projector_other_numel=newline
    )


def _mistral3(config: Config, vision: Config, text: int) -> Tower:
    tower, merge = _pixtral(vision), count(config, "spatial_merge_size", 2) ** 2
    hidden, bias = tower.hidden_size, config.get("multimodal_projector_bias") is True
    return tower._replace(
        merged_patches=merge,
        projector=((hidden, hidden * merge, False), (text, hidden, bias), (text, text, bias)),
        projector_norm=hidden,
    )


def _gemma3(config: Config, vision: Config, text: int) -> Tower:
    tower = _siglip(vision)
    tokens = count(config, "mm_tokens_per_image", 256)
    return tower._replace(
        merged_patches=max(1, tower.image_patches // tokens),
        projector=((text, tower.hidden_size, False),),
        projector_other_numel=tower.hidden_size,
    )


def _paligemma(config: Config, vision: Config, text: int) -> Tower:
    tower = _siglip(vision)
    return tower._replace(projector=((count(config, "projection_dim", text), tower.hidden_size, True),))


def _idefics3(config: Config, vision: Config, text: int) -> Tower:
    tower, factor = _siglip(vision, "model.vision_model", patch=32), count(config, "scale_factor", 2) ** 2
    return tower._replace(merged_patches=factor, projector=((text, tower.hidden_size * factor, False),))


def _internvl(config: Config, vision: Config, text: int) -> Tower:
    tower = _transformer(vision, "model.vision_tower", 448, 14)
    ratio = rate(config, "downsample_ratio", 0.5)
    merge = round(1 / ratio) ** 2 if ratio else 4
    hidden, wide = tower.hidden_size, tower.hidden_size * merge
    has_bias = vision.get("attention_bias", vision.get("qkv_bias")) is True
    uses_rms, norms_heads = vision.get("norm_type") == "rms_norm", vision.get("use_qk_norm") is True
    return tower._replace(
        patch_bias=True,
        biases=4 if has_bias else 1,
        norm="llama" if uses_rms else "layer",
        other_numel=(tower.image_patches + 2) * hidden,
        layer_other_numel=(4 if norms_heads else 2) * hidden,
        merged_patches=merge,
        projector=((text, wide, True), (text, text, True)),
        projector_norm=wide,
    )


def _llama4(_: Config, vision: Config, text: int) -> Tower:
    tower = _transformer(vision, "vision_model", 336, 14)
    ratio = rate(vision, "pixel_shuffle_ratio", 0.5)
    merge = round(1 / ratio) ** 2 if ratio else 4
    wide, out = count(vision, "projector_input_dim", 4096), count(vision, "projector_output_dim", 4096)
    return tower._replace(
        merged_patches=merge,
        other_numel=(tower.image_patches + 6) * tower.hidden_size,
        projector=(
            (wide, tower.hidden_size * merge, False),
            (out, wide, False),
            (text, count(vision, "vision_output_dim", out), False),
        ),
    )


def _qwen2_vl(_: Config, vision: Config, text: int) -> Tower:
    hidden = count(vision, "embed_dim", 1280)
    tower = _qwen_vision({**vision, "intermediate_size": None}, hidden, 14)
    tower = tower._replace(intermediate_size=int(hidden * count(vision, "mlp_ratio", 4)))
    return _with_merger(tower, text)


def _qwen2_5_vl(_: Config, vision: Config, text: int) -> Tower:
    hidden = count(vision, "hidden_size", 1280)
    tower = _qwen_vision({"intermediate_size": 3420, **vision}, hidden, 14)._replace(
        is_gated=True, norm="llama"
    )
    return _with_merger(tower, count(vision, "out_hidden_size", text))


def _with_merger(tower: Tower, text: int) -> Tower:
    """Return the encoder with Qwen's merger: a norm and two linear layers over the merged patches."""
    wide = tower.hidden_size * tower.merged_patches
    return tower._replace(
        projector=((wide, wide, True), (text, wide, True)), projector_norm=tower.hidden_size
    )


def _qwen3_vl(config: Config, vision: Config, text: int) -> Tower:
    hidden = count(vision, "hidden_size", 1152)
    tower = _qwen_vision({"depth": 27, "intermediate_size": 4304, **vision}, hidden, 16)
    out = count(vision, "out_hidden_size", text)
    positions = count(vision, "num_position_embeddings", 2304)
    tower = _with_merger(tower._replace(patch_bias=True, other_numel=positions * hidden), out)
    layers = vision.get("deepstack_visual_indexes", [8, 16, 24])
    mergers = (
        len(layers)
        if isinstance(layers, list) and str(config.get("model_type")).startswith("qwen3_vl")
        else 0
    )
    wide = hidden * tower.merged_patches
    # Mergers of the features of single layers, whose tensors are not counted.
    each = 2 * wide + (wide + 1) * wide + (wide + 1) * out
    return tower._replace(projector_other_numel=tower.projector_other_numel + mergers * each)


def _glm4v(_: Config, vision: Config, text: int) -> Tower:
    hidden = count(vision, "hidden_size", 1536)
    out, wide = count(vision, "out_hidden_size", text), count(vision, "intermediate_size", 13696)
    tower = _qwen_vision({"depth": 24, **vision, "num_heads": vision.get("num_heads", 12)}, hidden, 14)
    side = count(vision, "image_size", 336) // count(vision, "patch_size", 14)
    merge = tower.merged_patches
    return tower._replace(
        intermediate_size=out,
        patch_bias=True,
        biases=0,
        mlp_bias=False,
        is_gated=True,
        norm="llama",
        # Positions, two RMS norms, and the convolution that merges patches.
        other_numel=(side * side + 2) * hidden + merge * hidden * out + out,
        # The merger's gate is not counted as a layer of its own.
        projector=((out, out, False), (wide, out, False), (out, wide, False)),
        projector_other_numel=2 * out + wide * out,
    )


def _mllama(_: Config, vision: Config, text: int) -> Tower:
    hidden, size = count(vision, "hidden_size", 1280), count(vision, "patch_size", 14)
    patches = (count(vision, "image_size", 448) // size) ** 2 + 1
    tiles, gated_layers = count(vision, "max_num_tiles", 4), count(vision, "num_global_layers", 8)
    ratios = 1 + tiles * (tiles + 1) // 2 - 2 if tiles == 4 else 1 + tiles  # supported aspect ratios
    tables = patches * hidden + ratios * tiles * (patches + 2) * hidden
    return Tower(
        "model.vision_model",
        hidden,
        count(vision, "num_hidden_layers", 32) + gated_layers,
        count(vision, "intermediate_size", 5120),
        count(vision, "attention_heads", 16),
        count(vision, "num_channels", 3) * size * size,
        image_patches=tiles * patches,
        biases=0,
        # The class, positions of patches and tiles with three gates, two norms, and two gates of each global layer.
        other_numel=hidden + tables + 3 + 4 * hidden + 2 * gated_layers,
        projector=((text, count(vision, "vision_output_dim", 7680), True),),
    )


def _audio(_: Config, audio: Config, text: int) -> Tower:
    hidden, bins = count(audio, "d_model", 1280), count(audio, "num_mel_bins", 128)
    positions = count(audio, "max_source_positions", 1500)
    return Tower(
        "model.audio_tower",
        hidden,
        count(audio, "encoder_layers", 32),
        count(audio, "encoder_ffn_dim", 5120),
        count(audio, "encoder_attention_heads", 20),
        3 * bins,
        merged_patches=2,
        image_patches=positions,
        patch_bias=True,
        biases=3,
        # Positions, the second convolution, and the last norm.
        other_numel=positions * hidden + 3 * hidden * hidden + hidden + 2 * hidden,
        projector=((text, hidden, True),),
    )


COMPOSITES: Mapping[str, Callable[[Config, Config, int], Tower]] = {
    "llava": _llava,
    "llava_next": _llava,
    "llava_next_video": _llava,
    "llava_onevision": _llava,
    "mistral3": _mistral3,
    "gemma3": _gemma3,
    "paligemma": _paligemma,
    "idefics3": _idefics3,
    "smolvlm": _idefics3,
    "internvl": _internvl,
    "internvl_chat": _internvl,
    "llama4": _llama4,
    "mllama": _mllama,
    "qwen2_vl": _qwen2_vl,
    "qwen2_5_vl": _qwen2_5_vl,
    "qwen3_vl": _qwen3_vl,
    "qwen3_vl_moe": _qwen3_vl,
    "qwen3_5": _qwen3_vl,
    "qwen3_5_moe": _qwen3_vl,
    "glm4v": _glm4v,
    "qwen2_audio": _audio,
}
"""Function that converts the encoder's config, by model type."""
