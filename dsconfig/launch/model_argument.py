"""Model that a launch file names, and where its `config.json` is on disk."""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.core.json_types import Json, at
from dsconfig.job.model_files import CONFIG, config_at, is_barred
from dsconfig.launch.repository import search
from dsconfig.launch.training_arguments import plain

KEYS = ("model_name_or_path", "base_model", "model.name_or_path", "model_id_or_path", "model")
"""Keys that name the model, by precedence."""

TARGETS = ("lora_target", "lora_target_modules", "target_modules")
"""Keys that list the modules with LoRA adapters; on a command line, several words."""
ADAPTS = ("use_peft", "use_lora", "lora_enable")
"""Boolean switches for adapters in programs without a tuning type: TRL, FastChat, LLaVA and their forks."""
TUNING = ("finetuning_type", "tuner_type", "train_type", "adapter")
ADAPTED = ("LLaMA-Factory", "ms-swift")
"""Programs that train LoRA adapters and checkpoint activations by default.

Sources: LLaMA-Factory hparams/finetuning_args.py and model_args.py; ms-swift arguments/sft_args.py.
"""


def tuning(data: Mapping[str, Json], program: str) -> str:
    """The tuning type in the program's own words: `full`, `lora` and others."""
    said = next((found for key in TUNING if isinstance(found := data.get(key), str)), None)
    adapts = program in ADAPTED or any(plain(data.get(key)) is True for key in ADAPTS)
    return said or ("lora" if adapts else "full")


def trains_parts(data: Json, program: str) -> bool:
    """Whether most of the model's weights stay frozen."""
    return isinstance(data, Mapping) and tuning(data, program) != "full"


def named(data: Json) -> str | None:
    """The model that a launch file or the flags of a command name."""
    if not isinstance(data, Mapping):
        return None
    return next((found for key in KEYS if isinstance(found := at(data, key), str) and found), None)


def found_from(written: str, launch: str) -> str | None:
    """Path of the model, relative to the launch file or in the Hugging Face cache; None if it is not on disk.
    """
    if is_barred(written, launch):
        return None
    if config_at(written):
        return written
    return search(f"{written}/{CONFIG}", launch).path
