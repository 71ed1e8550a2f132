"""What other estimators say of a trial: DeepSpeed's own, and `accelerate estimate-memory`."""

from __future__ import annotations

from typing import Any

DEEPSPEED, ACCELERATE = "DeepSpeed's estimator", "accelerate estimate-memory"


def estimates(trial: dict[str, Any], parameters: int, largest: int) -> dict[str, int]:
    """Bytes of a GPU; `largest`: parameters of the module that has most of its own.

    Sources: `estimate_zero2_model_states_mem_needs` (runtime/zero/stage_1_and_2.py) and
    `estimate_zero3_model_states_mem_needs` (runtime/zero/stage3.py) of DeepSpeed, which know no other stages;
    `estimate_training_usage` (commands/estimate.py) of Accelerate: model, gradients, and twice the model.
    """
    zero, world = trial["config"]["zero_optimization"], trial["world_size"]
    half = any(trial["config"].get(key, {}).get("enabled") for key in ("bf16", "fp16"))
    said = {ACCELERATE: parameters * (8 if half else 16)}
    offloads, all_of_it = "offload_optimizer" in zero, "offload_param" in zero
    if zero["stage"] == 2:
        said[DEEPSPEED] = 2 * parameters if offloads else 2 * parameters + 18 * parameters // world
    if zero["stage"] == 3:
        share = 0 if offloads and all_of_it else 2 if offloads else 18
        said[DEEPSPEED] = 4 * largest + share * parameters // world
    return said
