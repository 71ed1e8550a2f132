"""Read the image and audio encoders of a composite model, and their projectors, from its `config.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.memory.models.architecture import Tower
from dsconfig.memory.models.encoders_of_hub_models import (
    HUB_MODELS,
    hub_model_kind,
    hub_text_kind,
    section,
)
from dsconfig.memory.models.image_encoders import (
    encoder_by_type,
    pixtral_encoder,
    qwen_vision_encoder,
    siglip_encoder,
    transformer_encoder,
    with_merger,
)
from dsconfig.memory.models.validate_config_json import count, rate

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

Config: TypeAlias = "Mapping[str, Json]"
TEXT_SECTIONS = ("text_config", "llm_config", "language_config", "llm_cfg")
TEXT_KINDS: Mapping[str, str] = {
    "qwen2_vl_text": "qwen2",
    "qwen2_5_vl_text": "qwen2",
    "qwen3_vl_text": "qwen3",
    "qwen3_vl_moe_text": "qwen3_moe",
    "glm4v_text": "glm4",
    "glm46v_text": "glm4",
    "glm4v_moe_text": "glm4_moe",
    "qwen2_5_omni_text": "qwen2",
    "qwen3_omni_moe_text": "qwen3_moe",
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


def is_composite(config: Config) -> bool:
    """Return whether the model has an encoder that this module, or `encoders_of_hub_models`, reads."""
    return config.get("model_type") in (*COMPOSITES, *AUDIO_ENCODERS) or hub_model_kind(config) != ""


def composite_part(config: Config) -> Config:
    """Return the section with the trained model of an omni model (`thinker_config`), or the config itself."""
    thinker = section(config, "thinker_config")
    return {**thinker, "model_type": config.get("model_type")} if thinker else config


def text_config(config: Config) -> Config:
    """Return the section of the text model, or the whole `config.json` if it has none."""
    config = composite_part(config)
    text = next((config[key] for key in TEXT_SECTIONS if isinstance(config.get(key), Mapping)), config)
    assert isinstance(text, Mapping)
    kind = str(text.get("model_type") or config.get("model_type"))
    defaults = TEXT_DEFAULTS.get(kind, {}) if text is not config else {}
    shared = {key: config[key] for key in ("tie_word_embeddings",) if key in config}
    if "tie_word_embeddings" not in {**shared, **text}:
        if config.get("model_type") in ("gemma3", "paligemma"):
            shared["tie_word_embeddings"] = True
        if hub_model_kind(config) == "minicpmv":  # its class does not tie the head of the text model
            shared["tie_word_embeddings"] = False
    return {**defaults, **text, **shared}


def text_kind(config: Config) -> str:
    """Return the supported decoder type of the text model, or else its model type."""
    if kind := hub_text_kind(config):
        return kind
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
    if not is_composite(config):
        return ()
    text, part = count(text_config(config), "hidden_size"), composite_part(config)
    towers = []
    if (read := HUB_MODELS.get(hub_model_kind(config))) is not None:
        towers.append(read(config, text))
    elif (convert := COMPOSITES.get(str(config.get("model_type")))) is not None:
        towers.append(convert(part, section(part, "vision_config"), text))
    if (hear := AUDIO_ENCODERS.get(str(config.get("model_type")))) is not None:
        towers.append(hear(section(part, "audio_config"), text))
    return tuple(tower for tower in towers if tower is not None)


ENCODER_KEYS = (
    *("vision_config", "audio_config", "visual", "vision_tower_cfg", "visual_tokenizer_config"),
    *("mm_vision_tower", "vision_encoder", "vision_tower", "img_processor", "audio_encoder_config"),
    *("embd_layer", "vision_backbone_config", "encoder_config"),
)
"""Keys of `config.json` that describe an encoder of images or audio."""


def unmodeled_part(config: Config, towers: tuple[Tower, ...]) -> str:
    """Return the config key of an encoder that is not among the towers, or of a talker, or an empty string."""
    part = composite_part(config)
    keys = [key for key in ENCODER_KEYS if isinstance(part.get(key), (Mapping, str)) and part.get(key)]
    if "audio_config" in keys and any(tower.is_audio for tower in towers):
        keys.remove("audio_config")
    if any(not tower.is_audio for tower in towers):
        keys = [key for key in keys if key.startswith("audio")]
    if not keys and section(config, "talker_config") and config.get("enable_audio_output") is not False:
        return "talker_config"  # not loaded by all programs: LLaMA-Factory loads the thinker only
    if not keys and config.get("model_type") == "molmo":  # the encoder's sizes are in its code
        return "model_type"
    return keys[0] if keys else ""


# Composite models.


def _llava(config: Config, vision: Config, text: int) -> Tower:
    tower = encoder_by_type(vision)
    bias = config.get("multimodal_projector_bias", True) is True
    layers = config.get("vision_feature_layer")
    features = tower.hidden_size * (len(layers) if isinstance(layers, list) else 1)
    newline = text if config.get("model_type") != "llava" else 0
    return tower._replace(
        projector=((text, features, bias), (text, text, bias)), projector_other_numel=newline
    )


def _mistral3(config: Config, vision: Config, text: int) -> Tower:
    tower, merge = pixtral_encoder(vision), count(config, "spatial_merge_size", 2) ** 2
    hidden, bias = tower.hidden_size, config.get("multimodal_projector_bias") is True
    return tower._replace(
        merged_patches=merge,
        projector=((hidden, hidden * merge, False), (text, hidden, bias), (text, text, bias)),
        projector_norm=hidden,
    )


def _gemma3(config: Config, vision: Config, text: int) -> Tower:
    tower = siglip_encoder(vision)
    tokens = count(config, "mm_tokens_per_image", 256)
    return tower._replace(
        merged_patches=max(1, tower.image_patches // tokens),
        projector=((text, tower.hidden_size, False),),
        projector_other_numel=tower.hidden_size,
    )


def _paligemma(config: Config, vision: Config, text: int) -> Tower:
    tower = siglip_encoder(vision)
    return tower._replace(projector=((count(config, "projection_dim", text), tower.hidden_size, True),))


def _idefics3(config: Config, vision: Config, text: int) -> Tower:
    tower, factor = (
        siglip_encoder(vision, "model.vision_model", patch=32),
        count(config, "scale_factor", 2) ** 2,
    )
    return tower._replace(merged_patches=factor, projector=((text, tower.hidden_size * factor, False),))


def _internvl(config: Config, vision: Config, text: int) -> Tower:
    tower = transformer_encoder(vision, "model.vision_tower", 448, 14)
    ratio = rate(config, "downsample_ratio", 0.5)
    merge = round(1 / ratio) ** 2 if ratio else 4
    hidden, wide = tower.hidden_size, tower.hidden_size * merge
    has_bias = vision.get("attention_bias", vision.get("qkv_bias")) is True
    uses_rms, norms_heads = (
        vision.get("norm_type") == "rms_norm",
        (vision.get("use_qk_norm") or vision.get("qk_normalization")) is True,
    )
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
    tower = transformer_encoder(vision, "vision_model", 336, 14)
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
    tower = qwen_vision_encoder({**vision, "intermediate_size": None}, hidden, 14)
    tower = tower._replace(intermediate_size=int(hidden * count(vision, "mlp_ratio", 4)))
    return with_merger(tower, text)


def _qwen2_5_vl(_: Config, vision: Config, text: int) -> Tower:
    hidden = count(vision, "hidden_size", 1280)
    tower = qwen_vision_encoder({"intermediate_size": 3420, **vision}, hidden, 14)._replace(
        is_gated=True, norm="llama"
    )
    return with_merger(tower, count(vision, "out_hidden_size", text))


def _qwen3_vl(config: Config, vision: Config, text: int) -> Tower:
    hidden = count(vision, "hidden_size", 1152)
    tower = qwen_vision_encoder({"depth": 27, "intermediate_size": 4304, **vision}, hidden, 16)
    out = count(vision, "out_hidden_size", text)
    positions = count(vision, "num_position_embeddings", 2304)
    tower = with_merger(tower._replace(patch_bias=True, other_numel=positions * hidden), out)
    layers = vision.get("deepstack_visual_indexes", [8, 16, 24])
    mergers = (
        len(layers)
        if isinstance(layers, list) and str(config.get("model_type")).startswith(("qwen3_vl", "qwen3_omni"))
        else 0
    )
    wide = hidden * tower.merged_patches
    # Mergers of the features of single layers, whose tensors are not counted.
    each = 2 * wide + (wide + 1) * wide + (wide + 1) * out
    return tower._replace(projector_other_numel=tower.projector_other_numel + mergers * each)


def _glm4v(_: Config, vision: Config, text: int) -> Tower:
    hidden = count(vision, "hidden_size", 1536)
    out, wide = count(vision, "out_hidden_size", text), count(vision, "intermediate_size", 13696)
    tower = qwen_vision_encoder({"depth": 24, **vision, "num_heads": vision.get("num_heads", 12)}, hidden, 14)
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


def _idefics2(config: Config, vision: Config, text: int) -> Tower:
    """Read SigLIP of Idefics2, whose perceiver turns all patches into a few tokens (`Idefics2Connector`)."""
    tower = siglip_encoder({"image_size": 980, "patch_size": 14, **vision}, "model.vision_model")
    perceiver = section(config, "perceiver_config")
    latents, depth = count(perceiver, "resampler_n_latents", 64), count(perceiver, "resampler_depth", 3)
    head, heads = count(perceiver, "resampler_head_dim", 96), count(perceiver, "resampler_n_heads", 16)
    keys = count(perceiver, "num_key_value_heads", 4)
    wide = count(text_config(config), "intermediate_size")
    layer = 2 * text * head * (heads + keys) + 3 * 4 * text * text + 3 * text
    return tower._replace(
        # Encoders run over tiles of this many patches with the default image processor (980 by 980 pixels).
        merged_patches=max(1, tower.image_patches // latents),
        projector=((wide, tower.hidden_size, False), (text, wide, False)),
        # The gate, and the layers of cross attention, whose few tensors are not counted.
        projector_other_numel=wide * tower.hidden_size + latents * text + depth * layer + text,
        projects_patches=True,
        max_tiles=5,
    )


# Encoders of audio.


def _whisper_encoder(audio: Config, text: int) -> Tower:
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
        is_audio=True,
    )


def _qwen2_5_omni_audio(audio: Config, text: int) -> Tower:
    tower = _whisper_encoder(audio, text)
    hidden, out = tower.hidden_size, count(audio, "output_dim", text)
    # Positions are no parameters; two embeddings mark the ends of an audio.
    return tower._replace(
        other_numel=tower.other_numel - tower.image_patches * hidden + 2 * out,
        projector=((out, hidden, True),),
    )


def _qwen3_omni_audio(audio: Config, text: int) -> Tower:
    tower = _whisper_encoder(audio, text)
    hidden, out = tower.hidden_size, count(audio, "output_dim", text)
    bins, channels = count(audio, "num_mel_bins", 128), count(audio, "downsample_hidden_size", 480)
    for _ in range(3):  # each of three convolutions halves the frequencies
        bins = (bins + 1) // 2
    convolutions = 10 * channels + 2 * (9 * channels + 1) * channels
    return tower._replace(
        patch_numel=channels * bins,
        patch_bias=False,
        biases=4,
        merged_patches=1,
        image_patches=0,
        other_numel=convolutions + 2 * hidden,
        projector=((hidden, hidden, True), (out, hidden, True)),
    )


def _minicpmo_audio(audio: Config, text: int) -> Tower:
    """Read Whisper's encoder and the projector of MiniCPM-o (modeling_minicpmo.py, `MultiModalProjector`)."""
    tower = _whisper_encoder({"d_model": 1024, "num_mel_bins": 80, **audio}, text)
    return tower._replace(name="apm", projector=((text, tower.hidden_size, True), (text, text, True)))


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
    "qwen2_5_omni": _qwen2_5_vl,
    "qwen3_omni_moe": _qwen3_vl,
    "glm4v": _glm4v,
    "glm46v": _glm4v,
    "glm4v_moe": _glm4v,
    "idefics2": _idefics2,
}
"""Function that converts the config of the image encoder, by model type."""
AUDIO_ENCODERS: Mapping[str, Callable[[Config, int], Tower]] = {
    "qwen2_audio": _whisper_encoder,
    "qwen2_5_omni": _qwen2_5_omni_audio,
    "qwen3_omni_moe": _qwen3_omni_audio,
    "minicpmo": _minicpmo_audio,
}
"""Function that converts the config of the audio encoder, by model type."""
