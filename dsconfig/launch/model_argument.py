"""Model that a launch file names, and where its `config.json` is on disk."""

from __future__ import annotations

import re
from collections.abc import Mapping

from dsconfig.core.json_types import Json, value_at_dotted_path
from dsconfig.job.model_config_json import CONFIG_NAME, find_config_json, is_model_outside_repository
from dsconfig.launch.repository import resolve_written_path
from dsconfig.launch.training_arguments import parse_argument_text

# In order: Transformers, TRL and LLaMA-Factory; Axolotl; ArcticTraining; older ms-swift; ms-swift.
MODEL_KEYS = ("model_name_or_path", "base_model", "model.name_or_path", "model_id_or_path", "model")
"""Keys that name the model, by precedence."""

LORA_TARGET_KEYS = ("lora_target", "lora_target_modules", "target_modules")
"""Keys that list the modules with LoRA adapters; on a command line, several words."""
_ADAPTER_SWITCHES = ("use_peft", "use_lora", "lora_enable")
"""Boolean switches for adapters in programs without a tuning type: TRL, FastChat, LLaVA and their forks."""
_TUNING_KEYS = ("finetuning_type", "tuner_type", "train_type", "adapter")
ADAPTER_PROGRAMS = ("LLaMA-Factory", "ms-swift")
"""Programs that train LoRA adapters and checkpoint activations by default.

Sources: LLaMA-Factory hparams/finetuning_args.py and model_args.py; ms-swift arguments/sft_args.py.
"""


def tuning_type(data: Mapping[str, Json], program: str) -> str:
    """Return the tuning type in the program's own words: `full`, `lora` and others."""
    explicit = next((value for key in _TUNING_KEYS if isinstance(value := data.get(key), str)), None)
    has_adapters = program in ADAPTER_PROGRAMS or any(
        parse_argument_text(data.get(key)) is True for key in _ADAPTER_SWITCHES
    )
    return explicit or ("lora" if has_adapters else "full")


def trains_adapters(data: Json, program: str) -> bool:
    """Whether most of the model's weights stay frozen."""
    return isinstance(data, Mapping) and tuning_type(data, program) != "full"


def model_name_in_launch_file(data: Json) -> str | None:
    """Return the model that a launch file or the flags of a command name."""
    if not isinstance(data, Mapping):
        return None
    return next(
        (name for key in MODEL_KEYS if isinstance(name := value_at_dotted_path(data, key), str) and name),
        None,
    )


_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_hub_name(name: str) -> bool:
    """Whether a name may be one on the Hugging Face Hub, `owner/model`."""
    return _HUB_NAME.fullmatch(name) is not None


def find_model_on_disk(name: str, launch: str) -> str | None:
    """Path of the model, relative to the launch file or in the Hugging Face cache; None if it is not on disk."""
    if is_model_outside_repository(name, launch):
        return None
    if find_config_json(name):
        return name
    return resolve_written_path(f"{name}/{CONFIG_NAME}", launch).path
