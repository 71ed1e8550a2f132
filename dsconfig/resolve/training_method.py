"""The training method of a job, such as DPO or GRPO: from training arguments or a launch file."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.launch.training_arguments import parse_argument_text
from dsconfig.memory.trainer_memory import TRAINERS, TrainingMethodTraits
from dsconfig.memory.verdict import RANK, UnmodeledSetting

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

METHODS = ("stage", "rlhf_type", "rl")
"""Arguments with which LLaMA-Factory, ms-swift and Axolotl select a training method."""
_SCRIPT = r"(?<![a-z])(online_dpo|dpo|ipo|kto|orpo|cpo|simpo|ppo|grpo|rloo|gkd|reward|rm)(?![a-z])"
"""Training method in a script's name, as in TRL, OpenRLHF and the alignment handbook."""
_ALIASES = {"rm": "reward", "ipo": "dpo", "reward_modeling": "reward", "pt": "sft"}
_RANK = frozenset((RANK,))


class TrainingMethod(NamedTuple):
    """A training method with the settings that decide its memory."""

    trainer: str | None = None
    """A name of `TRAINERS`; None if none is named, or it is not known."""
    has_reference: bool | None = None
    """Whether a reference model is loaded; None: as usual for the method."""
    vllm: float | None = None
    """Fraction of the GPU that vLLM reserves, 0 if it runs elsewhere; None: it is not used."""
    casts_logits: bool = False
    """Whether preference losses cast all logits to fp32 (LLaMA-Factory)."""

    def adapt(self, trainer: TrainingMethodTraits) -> TrainingMethodTraits:
        """Adapt a trainer to these settings."""
        if self.has_reference is None:
            return trainer
        return trainer._replace(has_reference=trainer.has_reference and self.has_reference)


def selected_method(data: Mapping[str, Json]) -> TrainingMethod:
    """The method that training arguments or a launch file select."""
    names = [parse_argument_text(data.get(key)) for key in METHODS]
    script = data.get("SCRIPT")
    if isinstance(script, str) and (match := re.search(_SCRIPT, script.lower())):
        names.append(match[1])
    name = next((word.lower() for word in names if isinstance(word, str)), None)
    name = _ALIASES.get(name or "", name)
    if name not in TRAINERS:
        return TrainingMethod()
    return TrainingMethod(name, _loads_reference_model(name, data), _vllm_memory_fraction(data))


def _loads_reference_model(name: str, data: Mapping[str, Json]) -> bool | None:
    """Whether the reference model is loaded, if the arguments decide it."""
    if parse_argument_text(data.get("precompute_ref_log_probs")) is True or data.get("pref_loss") in (
        "orpo",
        "simpo",
    ):
        return False
    if name == "grpo":  # TRL's `beta` is 0.0 by default since 0.18
        beta = parse_argument_text(data.get("beta"))
        return beta not in (None, 0) if "beta" in data else None
    return None


def _vllm_memory_fraction(data: Mapping[str, Json]) -> float | None:
    if parse_argument_text(data.get("use_vllm")) is not True:
        return None
    if str(data.get("vllm_mode", "")).lower() == "server":
        return 0.0
    share = parse_argument_text(data.get("vllm_gpu_memory_utilization"))
    return float(share) if isinstance(share, (int, float)) and 0 <= share < 1 else 0.3  # TRL's default


def vllm_memory(
    method: TrainingMethod, requested: float | None, gpu: int | None
) -> tuple[int | None, tuple[UnmodeledSetting, ...]]:
    """Bytes that vLLM reserves, None if it is not used; and what is missing to know them."""
    share = method.vllm if requested is None else requested
    if share is None:
        return None, ()
    if share and gpu is None:
        text = f"it reserves {share:g} of the GPU; pass `--gpu`"
        return 0, (UnmodeledSetting("vLLM", text, raises=_RANK),)
    return int(share * (gpu or 0)), ()


def missing_frozen_model(kind: str) -> UnmodeledSetting:
    """The setting for a frozen model that is not given."""
    text = "it is not given; pass its config.json or name as `--frozen-model` if it is on the same GPUs"
    return UnmodeledSetting(f"the {kind} model", text, raises=_RANK)


def trainer_notes(name: str, has_adapters: bool, stage: int) -> Iterator[str]:
    """Assumptions about the training method."""
    trainer = TRAINERS[name]
    if name == "sft":
        return
    parts = []
    if trainer.sequences_per_sample > 1 and not trainer.has_value_model:
        parts.append(f"{trainer.sequences_per_sample} sequences per sample")
    if trainer.has_value_model:
        parts.append("a value model of the same size is trained too")
    if trainer.has_reference:
        where = ", partitioned" if stage == 3 else ""
        parts.append(
            "the reference is the model without its adapters"
            if has_adapters
            else f"a reference model is loaded{where}"
        )
    yield f"{name.upper()}: {', '.join(parts) or 'no further model'}"
