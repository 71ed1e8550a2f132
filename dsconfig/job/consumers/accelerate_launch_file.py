"""Accelerate launch files: their keys, and the DeepSpeed config that they name or describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dsconfig.core.json_types import Json, JsonObject, KeyPath
from dsconfig.job.consumers.consumer_versions import version_includes_change, version_tuple

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from typing import TypeGuard


# Keys of the file that `accelerate launch --config_file` reads.
#
# Sources: accelerate 1.15 commands/config/config_args.py, ClusterConfig; commands/launch.py,
# _validate_launch_command; utils/dataclasses.py, DeepSpeedPlugin.

BLOCK = "deepspeed_config"
LINK = "deepspeed_config_file"
ROOT_KEYS = frozenset((
    "compute_environment", "distributed_type", "mixed_precision", "use_cpu", "debug", "num_processes",
    "machine_rank", "num_machines", "gpu_ids", "main_process_ip", "main_process_port", "rdzv_backend",
    "same_network", "main_training_function", "enable_cpu_affinity", "fp8_config", "deepspeed_config",
    "fsdp_config", "parallelism_config", "megatron_lm_config", "mpirun_config", "downcast_bf16", "tpu_name",
    "tpu_zone", "tpu_use_cluster", "tpu_use_sudo", "command_file", "commands", "tpu_vm", "tpu_env",
    "dynamo_config", "fp16", "dynamo_backend",
))  # fmt: skip
"""Fields of Accelerate's `ClusterConfig`, and two old names that it converts; `from_yaml_file` rejects other keys."""
BLOCK_KEYS = frozenset((
    "zero_stage", "gradient_accumulation_steps", "gradient_clipping", "offload_optimizer_device",
    "offload_param_device", "offload_optimizer_nvme_path", "offload_param_nvme_path", "zero3_init_flag",
    "zero3_save_16bit_model", "deepspeed_config_file", "deepspeed_hostfile", "deepspeed_exclusion_filter",
    "deepspeed_inclusion_filter", "deepspeed_multinode_launcher", "deepspeed_moe_layer_cls_names",
))  # fmt: skip
_ADDED = {
    "dynamo_config": "0.17", "tpu_env": "0.17", "tpu_use_cluster": "0.17", "tpu_use_sudo": "0.17",
    "tpu_vm": "0.17", "debug": "0.22", "mpirun_config": "0.28", "enable_cpu_affinity": "0.29",
    "fp8_config": "0.34", "parallelism_config": "1.10", "deepspeed_moe_layer_cls_names": "0.30",
    "nossh": "1.6", "fp8": "0.17",
}  # fmt: skip
"""Version of Accelerate that added a key or value; others are older. Source: the wheels of each version."""
_REMOVED = {"ipex_config": ("0.19", "1.13"), "tp_config": ("1.4", "1.7")}
"""Root keys that were removed, each with the first version that has the key and the first one without it."""


def words_available_in_version(words: Iterable[str], version: str | None) -> frozenset[str]:
    """Return which of these keys or values a version of Accelerate supports; None is the newest version."""
    if version is None:
        return frozenset(words)
    return frozenset(each for each in words if version_tuple(_ADDED.get(each, "0")) <= version_tuple(version))


def root_keys_of_version(version: str | None) -> frozenset[str]:
    """Return the root keys that a version of Accelerate accepts; None is the newest version."""
    if version is None:
        return ROOT_KEYS
    removed = {
        key
        for key, (since, until) in _REMOVED.items()
        if version_tuple(since) <= version_tuple(version) < version_tuple(until)
    }
    return words_available_in_version(ROOT_KEYS, version) | removed


def version_adding_key(key: str) -> str | None:
    """Return the version of Accelerate that added `key`, or None if all versions have the key."""
    return _ADDED.get(key)


def version_removing_key(key: str) -> str | None:
    """Return the version of Accelerate that removed `key`, or None if no version did."""
    return _REMOVED[key][1] if key in _REMOVED else None


NOT_BESIDE_LINK = frozenset((
    "zero_stage", "gradient_accumulation_steps", "gradient_clipping", "offload_optimizer_device",
    "offload_param_device", "offload_optimizer_nvme_path", "offload_param_nvme_path",
    "zero3_save_16bit_model",
))  # fmt: skip
"""Keys that `DeepSpeedPlugin._deepspeed_config_checks` rejects together with a config file, as it does a
root `mixed_precision`.
"""
DISTRIBUTED_TYPES = (
    "NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU",
    "DEEPSPEED", "FSDP", "XLA", "MEGATRON_LM", "MULTI_HPU", "MULTI_NEURON",
)  # fmt: skip
"""Valid values of `distributed_type`."""
PRECISIONS = ("no", "fp8", "fp16", "bf16")
LAUNCHERS = ("pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm")


def is_launch_file(data: object) -> TypeGuard[JsonObject]:
    """Return whether an object is an Accelerate launch file that uses DeepSpeed."""
    if not isinstance(data, dict) or not (BLOCK in data or "distributed_type" in data):
        return False
    return (
        bool(isinstance(data.get(BLOCK), dict) and data[BLOCK]) or data.get("distributed_type") == "DEEPSPEED"
    )


def deepspeed_block(data: Mapping[str, Json]) -> JsonObject:
    """Return the `deepspeed_config` block of a launch file, or an empty object without one."""
    value = data.get(BLOCK)
    return value if isinstance(value, dict) else {}


def world_size_in_launch_file(data: Json) -> int | None:
    """Return the world size (`num_processes`, counted over all nodes), or None if it is unknown."""
    count = data.get("num_processes") if isinstance(data, dict) else None
    return count if type(count) is int and count > 0 else None


# The config that Accelerate builds from the block `deepspeed_config`, and the keys that its values come from.
#
# Sources: accelerate 1.15 utils/launch.py, prepare_deepspeed_cmd_env; utils/dataclasses.py, DeepSpeedPlugin.


def zero_stage_of_block(settings: Mapping[str, Json]) -> int:
    """Return the ZeRO stage in a `deepspeed_config` block; the default is 2.

    Raises:
        ValueError: the value is not an integer.
    """
    value = settings.get("zero_stage")
    return 2 if value is None else int(str(value))


def disables_partitioned_loading(data: Json) -> bool:
    """Return whether a launch file disables partitioned model loading, the default at stage 3.

    Source: accelerate utils/dataclasses.py:DeepSpeedPlugin.__post_init__, `zero3_init_flag`.
    """
    return (
        is_launch_file(data)
        and isinstance(data, Mapping)
        and deepspeed_block(data).get("zero3_init_flag") is False
    )


def build_plugin_config(data: Mapping[str, Json], version: str | None = None) -> JsonObject | None:
    """Return the config that Accelerate's plugin builds from a `deepspeed_config` block.

    `version` is the version of Accelerate; None is the newest. Return None if the block names a file, has invalid
    values, or belongs to another backend.
    """
    settings = deepspeed_block(data)
    if LINK in settings or data.get("distributed_type") != "DEEPSPEED":
        return None
    try:
        config = _build_plugin_config(settings, version)
    except ValueError:
        return None
    precision = str(data.get("mixed_precision")).lower()
    if precision == "fp16":
        config["fp16"] = {"enabled": True, "auto_cast": True}
    elif precision == "bf16" or (
        precision == "fp8" and version_includes_change("fp8", "accelerate", version)
    ):
        config["bf16"] = {"enabled": True}
    return config


def _build_plugin_config(settings: Mapping[str, Json], version: str | None) -> JsonObject:
    default = "auto" if version_includes_change("clipping", "accelerate", version) else "0"
    clipping = str(_value_or_default(settings.get("gradient_clipping"), default)).lower()
    default = "auto" if version_includes_change("accumulation", "accelerate", version) else "1"
    steps = str(_value_or_default(settings.get("gradient_accumulation_steps"), default))
    zero: JsonObject = {"stage": zero_stage_of_block(settings)}
    for name in ("offload_optimizer", "offload_param"):
        device = str(_value_or_default(settings.get(f"{name}_device"), "none")).lower()
        if device != "none":
            # The launcher passes no NVMe path, so the plugin uses its default, the word "none".
            zero[name] = {"device": device} | ({"nvme_path": "none"} if device == "nvme" else {})
    if str(settings.get("zero3_save_16bit_model")).lower() == "true":
        zero["stage3_gather_16bit_weights_on_model_save"] = True
    config: JsonObject = {
        "train_batch_size": "auto",
        "train_micro_batch_size_per_gpu": "auto",
        "gradient_accumulation_steps": int(steps) if steps.isdecimal() and len(steps) < 20 else "auto",
        "zero_optimization": zero,
    }
    if clipping == "auto" or float(clipping):
        config["gradient_clipping"] = clipping if clipping == "auto" else float(clipping)
    return config


def _value_or_default(value: Json, default: str) -> Json:
    return default if value is None else value


_ZERO = "zero_optimization"
_LAUNCH_PATHS: Mapping[tuple[str, ...], KeyPath] = {
    ("gradient_accumulation_steps",): (BLOCK, "gradient_accumulation_steps"),
    ("gradient_clipping",): (BLOCK, "gradient_clipping"),
    (_ZERO, "stage"): (BLOCK, "zero_stage"),
    (_ZERO, "offload_optimizer"): (BLOCK, "offload_optimizer_device"),
    (_ZERO, "offload_param"): (BLOCK, "offload_param_device"),
    (_ZERO, "stage3_gather_16bit_weights_on_model_save"): (BLOCK, "zero3_save_16bit_model"),
    ("fp16",): ("mixed_precision",),
    ("bf16",): ("mixed_precision",),
}


def path_in_launch_file(path: KeyPath, data: Mapping[str, Json]) -> KeyPath | None:
    """Return the path of the launch-file key that sets the config value at `path`, or None if there is none."""
    for length in range(len(path), 0, -1):
        launch_path = _LAUNCH_PATHS.get(tuple(str(part) for part in path[:length]))
        if launch_path is not None:
            holder = data if len(launch_path) == 1 else deepspeed_block(data)
            return launch_path if launch_path[-1] in holder else None
    return None
