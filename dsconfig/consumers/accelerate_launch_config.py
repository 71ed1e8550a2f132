"""The config that Accelerate makes of a launch file's block `deepspeed_config`, and where its values stand.

Sources: accelerate 1.15 utils/launch.py, prepare_deepspeed_cmd_env; utils/dataclasses.py, DeepSpeedPlugin.
"""

from __future__ import annotations

from collections.abc import Mapping

from dsconfig.consumers.accelerate_launch_file import BLOCK, LINK, block
from dsconfig.consumers.consumer_versions import does
from dsconfig.core.json_types import Json, JsonObject, KeyPath


def stage(written: Mapping[str, Json]) -> int:
    """The ZeRO stage of a block.

    Raises:
        ValueError: it is not an integer.
    """
    value = written.get("zero_stage")
    return 2 if value is None else int(str(value))


def config(data: Mapping[str, Json], version: str | None = None) -> JsonObject | None:
    """The config that the plugin of a version makes of a block; version None: the newest.

    None where the block names a file, cannot be read, or is not looked at.
    """
    written = block(data)
    if LINK in written or data.get("distributed_type") != "DEEPSPEED":
        return None
    try:
        made = _plugin_config(written, version)
    except ValueError:
        return None
    precision = str(data.get("mixed_precision")).lower()
    if precision == "fp16":
        made["fp16"] = {"enabled": True, "auto_cast": True}
    elif precision == "bf16" or (precision == "fp8" and does("fp8", "accelerate", version)):
        made["bf16"] = {"enabled": True}
    return made


def _plugin_config(written: Mapping[str, Json], version: str | None) -> JsonObject:
    default = "auto" if does("clipping", "accelerate", version) else "0"
    clipping = str(_or(written.get("gradient_clipping"), default)).lower()
    default = "auto" if does("accumulation", "accelerate", version) else "1"
    steps = str(_or(written.get("gradient_accumulation_steps"), default))
    zero: JsonObject = {"stage": stage(written)}
    for name in ("offload_optimizer", "offload_param"):
        device = str(_or(written.get(f"{name}_device"), "none")).lower()
        if device != "none":
            # The launcher passes no path on, and the plugin's own default is this word.
            zero[name] = {"device": device} | ({"nvme_path": "none"} if device == "nvme" else {})
    if str(written.get("zero3_save_16bit_model")).lower() == "true":
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    made: JsonObject = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": int(steps) if steps.isdecimal() and len(steps) < 20 else "auto",
        "zero_optimization": zero,
    }
    if clipping == "auto" or float(clipping):
        made["gradient_clipping"] = clipping if clipping == "auto" else float(clipping)
    return made


def _or(value: Json, default: str) -> Json:
    return default if value is None else value


_ZERO = "zero_optimization"
_PLACES: Mapping[tuple[str, ...], KeyPath] = {
    ("gradient_accumulation_steps",): (BLOCK, "gradient_accumulation_steps"),
    ("gradient_clipping",): (BLOCK, "gradient_clipping"),
    (_ZERO, "stage"): (BLOCK, "zero_stage"),
    (_ZERO, "offload_optimizer"): (BLOCK, "offload_optimizer_device"),
    (_ZERO, "offload_param"): (BLOCK, "offload_param_device"),
    (_ZERO, "stage3_gather_16bit_weights_on_model_save"): (BLOCK, "zero3_save_16bit_model"),
    ("fp16",): ("mixed_precision",),
    ("bf16",): ("mixed_precision",),
}


def place(path: KeyPath, data: Mapping[str, Json]) -> KeyPath | None:
    """Where the launch file writes what stands at `path` of the config; None where it does not."""
    for length in range(len(path), 0, -1):
        found = _PLACES.get(tuple(str(part) for part in path[:length]))
        if found is not None:
            holder = data if len(found) == 1 else block(data)
            return found if found[-1] in holder else None
    return None
