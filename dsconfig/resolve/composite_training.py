"""Arguments of training scripts that add, train or freeze the parts of a composite model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.launch.training_arguments import parse_argument_text

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

_TRAINS_ENCODER: Mapping[str, bool] = {
    "unfreeze_mm_vision_tower": True,
    "tune_mm_vision": True,
    "tune_vision": True,
    "freeze_vision_tower": False,
    "freeze_vit": False,
    "fix_vit": False,
}
"""Value with which an argument trains the encoder: LLaVA, Qwen2.5-VL, MiniCPM-V, LLaMA-Factory, ms-swift, Qwen-VL."""
_FREEZES_TEXT: Mapping[str, bool] = {
    "freeze_llm": True,
    "freeze_language_model": True,
    "tune_mm_mlp_adapter": True,
    "tune_mm_llm": False,
    "tune_llm": False,
}
"""Value with which an argument freezes the language model: InternVL and ms-swift, LLaMA-Factory, LLaVA, Qwen2.5-VL,
MiniCPM-V.
"""
_INTERNVL = ("use_llm_lora", "freeze_mlp", "use_backbone_lora")
"""Arguments of InternVL's script, in which `freeze_backbone` means the image encoder, not the language model."""
_LLAVA_KEYS = (
    *("mm_projector_type", "image_aspect_ratio", "image_grid_pinpoints", "mm_patch_merge_type"),
    *("unfreeze_mm_vision_tower", "mm_tunable_parts"),
)
"""Arguments of LLaVA's script that become keys of `config.json` (llava/train/train.py)."""


class CompositeTraining(NamedTuple):
    """Which parts of a composite model a job trains, and the encoder that its script adds."""

    trains_towers: bool = True
    """Whether encoders of images and audio are trained."""
    trains_towers_beside_adapters: bool = False
    checkpoints_towers: bool | None = None
    """Whether the layers of these encoders are checkpointed; None: as those of the language model."""
    trains_language_model: bool = True
    encoder_keys: tuple[tuple[str, str | bool], ...] = ()
    """Keys for `config.json` of the encoder that LLaVA's script adds to a text model."""


def composite_training(data: Mapping[str, Json], program: str) -> CompositeTraining:
    """Return which parts of a composite model the arguments of a job train."""
    tuner = parse_argument_text(data.get("tuner_type") or data.get("train_type"))
    checkpoints = parse_argument_text(data.get("vit_gradient_checkpointing"))
    return CompositeTraining(
        _trains_encoder(data, program, tuner),
        # ms-swift's `lora_llm` adds adapters to the language model, and trains the rest (swift/tuner_plugin).
        tuner == "lora_llm",
        checkpoints if isinstance(checkpoints, bool) else None,
        not any(parse_argument_text(data.get(key)) is value for key, value in _FREEZES_TEXT.items()),
        _encoder_keys(data),
    )


def _trains_encoder(data: Mapping[str, Json], program: str, tuner: Json) -> bool:
    """Return whether image and audio encoders are trained; LLaMA-Factory and ms-swift freeze them by default."""
    for key, value in _TRAINS_ENCODER.items():
        argument = parse_argument_text(data.get(key))
        if isinstance(argument, bool):
            return argument is value
    if any(key in data for key in _INTERNVL):
        return parse_argument_text(data.get("freeze_backbone")) is not True
    return tuner == "lora_llm" or program not in ("LLaMA-Factory", "ms-swift")


def _encoder_keys(data: Mapping[str, Json]) -> tuple[tuple[str, str | bool], ...]:
    """Return the encoder that LLaVA's script adds (`initialize_vision_modules`), as keys of `config.json`."""
    name = data.get("vision_tower")
    if not isinstance(name, str) or not name:
        return ()
    values = ((key, parse_argument_text(data.get(key))) for key in _LLAVA_KEYS)
    keys = tuple((key, value) for key, value in values if isinstance(value, (str, bool)))
    return (("mm_vision_tower", name), *keys)
