"""Named config presets that ship with other programs, for machines on which these programs are not installed.

Sources: ms-swift 4.6 swift/config/*.json; trl 1.16 trl/accelerate_configs/*.yaml. Releases differ only in
details that affect no diagnostic.
"""

from __future__ import annotations

import re

from dsconfig.core.json_types import Json, JsonObject

PRESET = "preset"
"""Value of `Format.builds` for a job whose config is a preset."""
_NAME = r"(?:default-)?zero([0-3])([-_]offload)?"
"""Pattern of preset names in ms-swift and TRL. `default-zero3` and `zero3-offload` are names of ms-swift 1 and 2
(swift/llm/utils/argument.py:SftArguments)."""


def framework_preset(program: str, name: str) -> JsonObject | None:
    """Return a program's preset by name, as a config or an Accelerate launch file, or None if unknown."""
    match = re.fullmatch(_NAME, name)
    if match is None or (program == "TRL" and "-" in name):
        return None
    stage, is_offloaded = int(match[1]), match[2] is not None
    if program == "ms-swift" and not (is_offloaded and stage < 2):
        return _swift_preset(stage, is_offloaded=is_offloaded)
    if program == "TRL" and stage and not is_offloaded:
        return _trl_preset(stage)
    return None


def _swift_preset(stage: int, *, is_offloaded: bool) -> JsonObject:
    offload: JsonObject = {"device": "cpu" if is_offloaded else "none", "pin_memory": True}
    zero: JsonObject = {"stage": stage, "overlap_comm": False, "contiguous_gradients": True}
    if stage:
        zero["offload_optimizer"] = offload
    if stage == 3:
        zero |= {
            "offload_param": dict(offload),
            "sub_group_size": 10**9,
            "stage3_max_live_parameters": 10**9,
            "stage3_max_reuse_distance": 10**9,
            "stage3_gather_16bit_weights_on_model_save": True,
            "reduce_bucket_size": "auto",
            "stage3_prefetch_bucket_size": "auto",
            "stage3_param_persistence_threshold": "auto",
        }
    else:
        zero |= {"allgather_bucket_size": 2 * 10**8, "reduce_bucket_size": 2 * 10**8}
    batch: dict[str, Json] = dict.fromkeys(
        (
            "train_batch_size",
            "train_micro_batch_size_per_gpu",
            "gradient_accumulation_steps",
            "gradient_clipping",
        ),
        "auto",
    )
    precision: JsonObject = {"fp16": {"enabled": "auto"}, "bf16": {"enabled": "auto"}}
    return {**precision, "zero_optimization": zero, **batch}


def _trl_preset(stage: int) -> JsonObject:
    block: JsonObject = {
        "zero_stage": stage,
        "zero3_init_flag": stage == 3,
        "offload_optimizer_device": "none",
        "offload_param_device": "none",
    }
    if stage == 3:
        block["zero3_save_16bit_model"] = True
    return {
        "distributed_type": "DEEPSPEED",
        "deepspeed_config": block,
        "mixed_precision": "bf16",
        "num_machines": 1,
        "num_processes": 8,
    }
