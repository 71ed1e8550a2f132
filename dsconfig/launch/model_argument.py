"""The model that a launch file names, as it is found on disk."""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.core.json_types import Json, at
from dsconfig.job.model_files import CONFIG, config_at, is_barred
from dsconfig.launch.repository import search
from dsconfig.launch.training_arguments import plain

KEYS = ("model_name_or_path", "base_model", "model.name_or_path", "model_id_or_path", "model")
"""Where launch files name it; the first that is there counts."""

TARGETS = ("lora_target", "lora_target_modules", "target_modules")
"""Where they name the layers that get adapters; on a command line, several words."""
ADAPTS = ("use_peft", "use_lora", "lora_enable")
"""What programs without a word for what is trained call it: TRL, FastChat and LLaVA, and their kin."""
TUNING = ("finetuning_type", "tuner_type", "train_type", "adapter")
ADAPTED = ("LLaMA-Factory", "ms-swift")
"""Programs that train adapters, and checkpoint activations, unless they are told otherwise.

Sources: LLaMA-Factory hparams/finetuning_args.py and model_args.py; ms-swift arguments/sft_args.py.
"""


def tuning(data: Mapping[str, Json], program: str) -> str:
    """What of the model is trained, in the program's own words: `full`, `lora` and others."""
    said = next((found for key in TUNING if isinstance(found := data.get(key), str)), None)
    adapts = program in ADAPTED or any(plain(data.get(key)) is True for key in ADAPTS)
    return said or ("lora" if adapts else "full")


def trains_parts(data: Json, program: str) -> bool:
    """Whether most of the model is left as it is."""
    return isinstance(data, Mapping) and tuning(data, program) != "full"


def named(data: Json) -> str | None:
    """The model that a launch file, or the flags of a command, name."""
    if not isinstance(data, Mapping):
        return None
    return next((found for key in KEYS if isinstance(found := at(data, key), str) and found), None)


def found_from(written: str, launch: str) -> str | None:
    """Where it is on disk, from the launch file's own folder or the hub's cache; None: nowhere."""
    if is_barred(written, launch):
        return None
    if config_at(written):
        return written
    return search(f"{written}/{CONFIG}", launch).path
