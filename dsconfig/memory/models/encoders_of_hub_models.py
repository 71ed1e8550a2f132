"""Read the image and audio encoders of models whose code is in their own repository, not in Transformers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING

from dsconfig.memory.models.architecture import Tower
from dsconfig.memory.models.image_encoders import (
    Config,
    encoder_by_type,
    named_encoder,
    siglip_encoder,
    transformer_encoder,
    with_resampler,
)
from dsconfig.memory.models.validate_config_json import count

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

MINICPMV_TEXT = {"2.5": "llama", "2.6": "qwen2", "4.0": "llama", "4": "llama", "4.5": "qwen3"}
"""Text models of MiniCPM-V by the version in `config.json` (modeling_minicpmv.py, `MiniCPMV.__init__`)."""


def section(config: Config, key: str) -> Config:
    """Return a section of the config, empty if it is absent."""
    value = config.get(key)
    return value if isinstance(value, Mapping) else {}


def hub_model_kind(config: Config) -> str:
    """Return the key in `HUB_MODELS` of a composite model, or an empty string for other models."""
    kind = str(config.get("model_type"))
    if isinstance(config.get("mm_vision_tower"), str):
        return "mm_vision_tower"
    if kind == "qwen":
        return "qwen-vl" if section(config, "visual") else ""
    if kind == "chatglm":
        return "glm-4v" if section(config, "vision_config") else ""
    return kind if kind in HUB_MODELS else ""


def hub_text_kind(config: Config) -> str:
    """Return the decoder type of a model in `HUB_MODELS` without a section for its text model."""
    kind = hub_model_kind(config)
    if kind in ("minicpmv", "minicpmo"):
        default = "2.5" if section(config, "vision_config") else ""
        return MINICPMV_TEXT.get(str(config.get("version") or default), "minicpm")
    if kind == "mm_vision_tower":
        names = f"{config.get('architectures')} {config.get('model_type')}".lower()
        return next((text for word, text in LLAVA_TEXT.items() if word in names), "")
    return {"qwen-vl": "qwen", "glm-4v": "chatglm", "phi3_v": "phi3"}.get(kind, "")


LLAVA_TEXT = {"qwen": "qwen2", "mistral": "mistral", "gemma": "gemma", "phi": "phi", "llama": "llama"}
"""Text models of LLaVA's repository and its forks, by a word in the name of their class."""


def _minicpmv(config: Config, text: int) -> Tower | None:
    """Read SigLIP and the resampler of MiniCPM-V (resampler.py, `Resampler`)."""
    vision = section(config, "vision_config")
    tower = siglip_encoder(vision, "vpm", 980, 14) if vision else named_encoder(config.get("vision_encoder"))
    if tower is None:
        return None
    tile = count(config, "image_size", 448) // count(vision, "patch_size", 14)
    if config.get("drop_vision_last_layer", not vision) is True:
        tower = tower._replace(num_layers=max(1, tower.num_layers - 1))
    slices = section(config, "slice_config") or config
    most = count(slices, "max_slice_nums", 9)
    # Images are cut into tiles of about 448 by 448 pixels, next to the whole image.
    tower = tower._replace(name="vpm", image_patches=tile * tile, max_tiles=1 + most)
    return with_resampler(tower, count(config, "query_num", 64), text)


def _qwen_vl(config: Config, text: int) -> Tower:
    """Read the OpenCLIP encoder and the resampler of Qwen-VL (visual.py, `VisionTransformer`)."""
    visual = section(config, "visual")
    hidden = count(visual, "width", 1664)
    ratio = visual.get("mlp_ratio", 4.9231)
    wide = int(hidden * ratio) if isinstance(ratio, (int, float)) and 0 < ratio < 64 else 4 * hidden
    sizes: dict[str, Json] = {
        "hidden_size": hidden,
        "intermediate_size": wide,
        "num_hidden_layers": count(visual, "layers", 48),
        "num_attention_heads": count(visual, "heads", 16),
        "image_size": count(visual, "image_size", 448),
        "patch_size": count(visual, "patch_size", 14),
    }
    tower = transformer_encoder(sizes, "transformer.visual")
    out, queries = count(visual, "output_dim", text), count(visual, "n_queries", 256)
    # Interpolated positions of 16 by 16 patches, a norm before the layers, and positions of the queries.
    tower = tower._replace(
        attends_eagerly=True, other_numel=(256 + 2) * hidden, projector_other_numel=queries * out
    )
    return with_resampler(tower, queries, out)


def llava_tower(config: Config, text: int) -> Tower | None:
    """Read the encoder that LLaVA's repository loads by name (llava/model/multimodal_encoder)."""
    tower = named_encoder(config.get("mm_vision_tower"))
    if tower is None:
        return None
    if "siglip" in str(config.get("mm_vision_tower")).lower():  # `SigLipVisionTower` deletes the last layer
        tower = tower._replace(num_layers=tower.num_layers - 1)
    kind = str(config.get("mm_projector_type") or "linear")
    depth = kind.removeprefix("mlp").removesuffix("x_gelu")
    layers = int(depth) if depth.isdecimal() and 0 < int(depth) < 10 else 2 if kind.startswith("mlp") else 1
    sizes = (tower.hidden_size, *[text] * layers)
    pinpoints = config.get("image_grid_pinpoints")
    has_newline = "unpad" in str(config.get("mm_patch_merge_type"))
    return tower._replace(
        is_frozen=config.get("unfreeze_mm_vision_tower") is not True
        and "mm_vision_tower" not in str(config.get("mm_tunable_parts")),
        projector=tuple((out, into, True) for into, out in pairwise(sizes)),
        projector_other_numel=text if has_newline else 0,
        max_tiles=5
        if isinstance(pinpoints, list) or "anyres" in str(config.get("image_aspect_ratio"))
        else 1,
    )


def _glm_4v(config: Config, text: int) -> Tower:
    """Read the EVA encoder of GLM-4V (visual.py, `EVA2CLIPModel`), and its gated projector."""
    vision = section(config, "vision_config")
    hidden, size = count(vision, "hidden_size", 1792), count(vision, "patch_size", 14)
    heads = count(vision, "num_heads", 16)
    tower = transformer_encoder({**vision, "num_attention_heads": heads}, "transformer.vision", 1120, 14)
    wide = count(config, "ffn_hidden_size", 13696)
    positions = count(vision, "num_positions", tower.image_patches + 1)
    merged = 4  # a convolution of 2 by 2 patches
    return tower._replace(
        patch_numel=count(vision, "in_channels", 3) * size * size,
        patch_bias=True,
        merged_patches=merged,
        # Positions, the class embedding, and the convolution that merges patches.
        other_numel=(positions + 1) * hidden + (merged * hidden + 1) * text,
        projector=((text, text, False), (wide, text, False), (text, wide, False)),
        # The gate, a norm, and embeddings of the first and last token.
        projector_other_numel=wide * text + 4 * text,
    )


def _phi3_v(config: Config, text: int) -> Tower | None:
    """Read CLIP of Phi-3-vision (image_embedding_phi3_v.py, `Phi3ImageEmbedding`)."""
    tower = named_encoder(section(config, "img_processor").get("model_name"))
    if tower is None:
        return None
    hidden = 4 * tower.hidden_size
    return tower._replace(
        name="model.vision_embed_tokens",
        merged_patches=4,
        projector=((text, hidden, True), (text, text, True)),
        projector_other_numel=2 * hidden,  # separators of tiles
        max_tiles=17,
    )


def _kimi_vl(config: Config, text: int) -> Tower:
    """Read MoonViT and the projector of Kimi-VL (modeling_kimi_vl.py, `MoonVitPretrainedModel`)."""
    vision = section(config, "vision_config")
    tower = transformer_encoder(vision, "vision_tower", 896, 14)
    hidden = tower.hidden_size
    positions = count(vision, "init_pos_emb_height", 64) * count(vision, "init_pos_emb_width", 64)
    wide = 4 * hidden
    return tower._replace(
        image_patches=0,
        patch_bias=True,
        rotary="fused",
        merged_patches=4,
        other_numel=(positions + 2) * hidden,
        projector=((wide, wide, True), (text, wide, True)),
        projector_norm=hidden,
    )


def _deepseek_vl2(config: Config, text: int) -> Tower:
    """Read SigLIP and the projector of DeepSeek-VL2 (modeling_deepseek_vl_v2.py, `MlpProjector`)."""
    vision, projector = section(config, "vision_config"), section(config, "projector_config")
    named = named_encoder(vision.get("model_name")) or siglip_encoder({}, "vision", 384, 14)
    out = count(projector, "n_embed", text)
    hidden = named.hidden_size
    # The pooling head of SigLIP is built, but skipped.
    pooling = 4 * (hidden + 1) * hidden + 2 * hidden * named.intermediate_size
    pooling += named.intermediate_size + 4 * hidden
    merged = 4
    return named._replace(
        name="vision",
        merged_patches=merged,
        other_numel=named.other_numel + pooling,
        projector=((out, hidden * merged, True), (out, out, True)),
        projector_other_numel=2 * out,  # ends of lines, and separators of views
        max_tiles=10,
    )


def _llava_cfg(config: Config, text: int) -> Tower | None:
    """Read the encoder of VILA and NVILA, whose config has sections for its parts."""
    vision = section(config, "vision_tower_cfg")
    if not vision:
        return None
    tower = encoder_by_type(vision)
    merged = 4 if "downsample" in str(section(config, "mm_projector_cfg")) else 1
    wide = tower.hidden_size * merged
    return tower._replace(
        merged_patches=merged, projector=((text, wide, True), (text, text, True)), projector_norm=wide
    )


HUB_MODELS: Mapping[str, Callable[[Config, int], Tower | None]] = {
    "minicpmv": _minicpmv,
    "minicpmo": _minicpmv,
    "qwen-vl": _qwen_vl,
    "mm_vision_tower": llava_tower,
    "glm-4v": _glm_4v,
    "phi3_v": _phi3_v,
    "kimi_vl": _kimi_vl,
    "deepseek_vl_v2": _deepseek_vl2,
    "llava_llama": _llava_cfg,
}
"""Function that reads the encoder, by model; it returns None if the encoder is not known."""
