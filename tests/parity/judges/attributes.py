"""Where a release's config object keeps the value of a key, and whether a value shown is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NamedTuple

BITS = 10_000
"""Of integers with more bits `config_values.py` says only how many they have."""
MISSING = object()
"""The config object has no such attribute."""

_QUANTIZED = "compression_training.weight_quantization.shared_parameters"
_COMPRESSED = "compression_config.weight_quantization.shared_parameters"
PLACES: Mapping[str, str] = {
    "zero_optimization": "zero_config",
    "fp16": "float16_config",
    "bf16": "bfloat16_config",
    "comms_logger": "comms_config.comms_logger",
    "tensorboard": "monitor_config.tensorboard",
    "wandb": "monitor_config.wandb",
    "csv_monitor": "monitor_config.csv_monitor",
    "comet": "monitor_config.comet",
    "activation_checkpointing": "activation_checkpointing_config",
    "flops_profiler": "flops_profiler_config",
    "autotuning": "autotuning_config",
    "aio": "aio_config",
    "checkpoint": "checkpoint_config",
    "checkpoint.load_universal": "load_universal_checkpoint",
    "checkpoint.use_node_local_storage": "use_node_local_storage",
    "checkpoint.parallel_write.pipeline_stage": "checkpoint_parallel_write_pipeline",
    "compile": "compile_config",
    "timers": "_",
    "timers.throughput": "timers_config",
    "tensor_parallel": "tensor_parallel_config",
    "expert_parallel": "expert_parallel_config",
    "data_efficiency": "data_efficiency_config",
    "weight_quantization": "weight_quantization_config",
    "compression_training": "compression_config",
    f"{_QUANTIZED}.fp16_mixed_quantize.enabled": f"{_COMPRESSED}.fp16_mixed_quantize",
    f"{_QUANTIZED}.fp16_mixed_quantize.quantize_change_ratio": f"{_COMPRESSED}.quantize_change_ratio",
    "nebula": "nebula_config",
    "nebula.nebula_load_path": "nebula_config.load_path",
    "amp": "amp_params",
    "curriculum_learning.enabled": "curriculum_enabled_legacy",
    "curriculum_learning": "curriculum_params_legacy",
    "elasticity.enabled": "elasticity_enabled",
    "sparse_gradients": "sparse_gradients_enabled",
    "data_types": "",
    "optimizer.type": "optimizer_name",
    "optimizer.legacy_fusion": "optimizer_legacy_fusion",
    "optimizer.params": "optimizer_params",
    "scheduler.type": "scheduler_name",
    "scheduler.params": "scheduler_params",
    "torch_autocast.enabled": "torch_autocast_enabled",
    "torch_autocast.dtype": "torch_autocast_dtype",
    "torch_autocast.lower_precision_safe_modules": "torch_autocast_lower_precision_safe_modules",
    "amp.enabled": "amp_enabled",
    "progressive_layer_drop.enabled": "pld_enabled",
    "progressive_layer_drop": "pld_params",
    "seq_parallel_comm_data_type": "seq_parallel_communication_data_type",
    "use_data_before_expert_parallelism": "use_data_before_expert_parallel_",
}
"""Key, or section, by the attribute that holds it; others have an attribute of their own name."""


class Made(NamedTuple):
    """A key whose value is put together from attributes, in releases that have the attribute `holds`."""

    holds: str
    value: Callable[[Mapping[str, Any]], Any]


def _of_scaler(name: str) -> Made:
    def value(values: Mapping[str, Any]) -> Any:
        found = values["dynamic_loss_scale_args"]
        return MISSING if found is None else found[name]

    return Made("dynamic_loss_scale_args", value)


def _tag(values: Mapping[str, Any]) -> str:
    if not values["checkpoint_tag_validation_enabled"]:
        return "IGNORE"
    return "FAIL" if values["checkpoint_tag_validation_fail"] else "WARN"


_MADE: Mapping[str, Made] = {
    "checkpoint.tag_validation": Made("checkpoint_tag_validation_enabled", _tag),
    "fp16.enabled": Made("fp16_enabled", itemgetter("fp16_enabled")),
    "fp16.auto_cast": Made("fp16_auto_cast", itemgetter("fp16_auto_cast")),
    "fp16.loss_scale": Made("loss_scale", itemgetter("loss_scale")),
    "fp16.initial_scale_power": Made("initial_dynamic_scale", itemgetter("initial_dynamic_scale")),
    "fp16.loss_scale_window": _of_scaler("scale_window"),
    "fp16.hysteresis": _of_scaler("delayed_shift"),
    "fp16.consecutive_hysteresis": _of_scaler("consecutive_hysteresis"),
    "fp16.min_loss_scale": _of_scaler("min_scale"),
    "fp16.fp16_master_weights_and_grads": Made(
        "fp16_master_weights_and_gradients", itemgetter("fp16_master_weights_and_gradients")
    ),
    "bf16.enabled": Made("bfloat16_enabled", itemgetter("bfloat16_enabled")),
    "bf16.immediate_grad_update": Made(
        "bfloat16_immediate_grad_update", itemgetter("bfloat16_immediate_grad_update")
    ),
}
"""Releases up to 0.17.0 keep what is said of precision in attributes of their own."""
_DTYPES: Mapping[str, tuple[str, ...]] = {
    "torch.float32": ("fp32", "float32", "float"),
    "torch.float16": ("fp16", "float16", "half"),
    "torch.bfloat16": ("bf16", "bfloat16", "bfp16"),
    "torch.int8": ("int8",),
}
"""torch's types by the words that DeepSpeed understands (runtime/config.py, DtypeEnum)."""
_SENTINEL = "object"
"""What stands for `object()`, by which a class says that a field was not given."""


def attribute(values: Mapping[str, Any], key: str) -> Any:
    """The value of a key in a release's config object; MISSING where there is none."""
    parts = key.split(".")
    made = _MADE.get(key)
    if made is not None and made.holds in values:
        return made.value(values)
    for length in range(len(parts), 0, -1):
        place = PLACES.get(".".join(parts[:length]))
        if place is not None:
            found = _at(values, [*filter(None, place.split(".")), *parts[length:]])
            break
    else:
        found = _at(values, parts)
    return MISSING if found == _SENTINEL else found


def kept(values: Mapping[str, Any], key: str, shown: Any) -> Any:
    """The value of a key in the form in which the config object keeps it."""
    if key != "fp16.initial_scale_power" or "initial_dynamic_scale" not in values:
        return shown
    if isinstance(shown, int) and shown >= BITS:
        return f"{shown + 1} bits"
    return 2**shown if isinstance(shown, int | float) else shown


def _at(values: Any, path: list[str]) -> Any:
    for step in path:
        if not isinstance(values, Mapping) or step not in values:
            return MISSING
        values = values[step]
    return values


def same(shown: Any, found: Any) -> bool:
    """Whether DeepSpeed has the value that is shown: numbers by size, torch's types by the words for them."""
    if isinstance(shown, dict) and isinstance(found, dict):
        return shown.keys() <= found.keys() and all(same(value, found[key]) for key, value in shown.items())
    if isinstance(shown, list) and isinstance(found, list):
        return len(shown) == len(found) and all(map(same, shown, found))
    if isinstance(shown, bool) is not isinstance(found, bool):
        return False
    if isinstance(found, str) and isinstance(shown, str):
        return found == shown or shown in _DTYPES.get(found, ())
    return bool(shown == found) or (shown != shown and found != found)  # noqa: PLR0124  NaN
