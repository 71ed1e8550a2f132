"""Encoders of images that several composite models share, as CLIP, SigLIP and Qwen's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from dsconfig.memory.models.architecture import Resampler, Tower
from dsconfig.memory.models.validate_config_json import count

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

Config: TypeAlias = "Mapping[str, Json]"


def _side(vision: Config, key: str, default: int) -> int:
    value = vision.get(key)
    return count({key: value[0]}, key) if isinstance(value, list) and value else count(vision, key, default)


def transformer_encoder(vision: Config, name: str, image: int = 224, patch: int = 16) -> Tower:
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


def siglip_encoder(
    vision: Config, name: str = "model.vision_tower", image: int = 224, patch: int = 16
) -> Tower:
    """Return the encoder of SigLIP without its pooling head: positions and a last norm."""
    tower = transformer_encoder(vision, name, image, patch)
    hidden = tower.hidden_size
    return tower._replace(patch_bias=True, other_numel=(tower.image_patches + 2) * hidden)


def clip_encoder(vision: Config) -> Tower:
    """Return the encoder of CLIP: a class embedding, positions, and norms before and after the layers."""
    tower = transformer_encoder(vision, "model.vision_tower", patch=32)
    # Class embedding, a position for it, and two layer norms.
    activation = "gelu" if str(vision.get("hidden_act", "quick_gelu")).startswith("gelu") else "quick_gelu"
    return tower._replace(activation=activation, other_numel=(tower.image_patches + 6) * tower.hidden_size)


def pixtral_encoder(vision: Config) -> Tower:
    """Return the encoder of Pixtral, whose layers are those of Llama, for images of any size."""
    tower = transformer_encoder(
        {"hidden_size": 1024, "num_hidden_layers": 24, **vision}, "model.vision_tower", 1024
    )
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


def encoder_by_type(vision: Config) -> Tower:
    """Return the encoder of a LLaVA model."""
    kinds = {"pixtral": pixtral_encoder, "siglip_vision_model": siglip_encoder}
    return kinds.get(str(vision.get("model_type")), clip_encoder)(vision)


def qwen_vision_encoder(vision: Config, hidden: int, patch: int) -> Tower:
    """Return the encoder of Qwen2-VL and later models, for images of any size, without its merger."""
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


def with_merger(tower: Tower, text: int) -> Tower:
    """Return the encoder with Qwen's merger: a norm and two linear layers over the merged patches."""
    wide = tower.hidden_size * tower.merged_patches
    return tower._replace(
        projector=((wide, wide, True), (text, wide, True)), projector_norm=tower.hidden_size
    )


def with_resampler(tower: Tower, queries: int, hidden: int) -> Tower:
    """Return the encoder with one layer of cross attention, whose queries replace the patches (MiniCPM-V, Qwen-VL)."""
    return tower._replace(resampler=Resampler(queries, hidden, max(1, hidden // 128)))


# Encoders that a config refers to by name.

_CLIP_LARGE: dict[str, Json] = {
    "model_type": "clip_vision_model",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_attention_heads": 16,
    "num_hidden_layers": 24,
    "patch_size": 14,
}
_SIGLIP_SO400M: dict[str, Json] = {
    "model_type": "siglip_vision_model",
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_attention_heads": 16,
    "num_hidden_layers": 27,
    "patch_size": 14,
}
_SIGLIP_LARGE: dict[str, Json] = {**_CLIP_LARGE, "model_type": "siglip_vision_model", "patch_size": 16}
NAMED_ENCODERS: Mapping[str, Config] = {
    "clip-vit-large-patch14-336": {**_CLIP_LARGE, "image_size": 336},
    "clip-vit-large-patch14": {**_CLIP_LARGE, "image_size": 224},
    "clip-vit-base-patch16": {"model_type": "clip_vision_model", "patch_size": 16, "image_size": 224},
    "siglip-so400m-patch14-384": {**_SIGLIP_SO400M, "image_size": 384},
    "siglip-so400m-patch14-224": {**_SIGLIP_SO400M, "image_size": 224},
    "siglip_so400m_patch14_384": {**_SIGLIP_SO400M, "image_size": 384},
    "vit_so400m_patch14_siglip_384": {**_SIGLIP_SO400M, "image_size": 384},
    "siglip-large-patch16-384": {**_SIGLIP_LARGE, "image_size": 384},
    "siglip_large_patch16_384": {**_SIGLIP_LARGE, "image_size": 384},
}
"""Configs of encoders by the last part of their name on the Hub, or their name in timm."""


def named_encoder(name: object) -> Tower | None:
    """Return the encoder of this name, or None if its sizes are not known."""
    last = str(name).rstrip("/").rpartition("/")[2].removesuffix(".webli") if isinstance(name, str) else ""
    config = NAMED_ENCODERS.get(last)
    return encoder_by_type(config) if config is not None else None
