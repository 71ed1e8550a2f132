"""The file that `accelerate launch --config_file` reads: which keys it has, and which config it names.

Sources: accelerate 1.15 commands/config/config_args.py, ClusterConfig; commands/launch.py,
_validate_launch_command; utils/dataclasses.py, DeepSpeedPlugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dsconfig.consumers.consumer_versions import number
from dsconfig.core.json_types import Json, JsonObject

if TYPE_CHECKING:
    from typing import TypeGuard


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
"""Fields of `ClusterConfig`, and the two old names that it rewrites. Any other key is refused."""
BLOCK_KEYS = frozenset((
    "zero_stage", "gradient_accumulation_steps", "gradient_clipping", "offload_optimizer_device",
    "offload_param_device", "offload_optimizer_nvme_path", "offload_param_nvme_path", "zero3_init_flag",
    "zero3_save_16bit_model", "deepspeed_config_file", "deepspeed_hostfile", "deepspeed_exclusion_filter",
    "deepspeed_inclusion_filter", "deepspeed_multinode_launcher", "deepspeed_moe_layer_cls_names",
))  # fmt: skip
_SINCE = {
    "dynamo_config": "0.17", "tpu_env": "0.17", "tpu_use_cluster": "0.17", "tpu_use_sudo": "0.17",
    "tpu_vm": "0.17", "debug": "0.22", "mpirun_config": "0.28", "enable_cpu_affinity": "0.29",
    "fp8_config": "0.34", "parallelism_config": "1.10", "deepspeed_moe_layer_cls_names": "0.30",
    "nossh": "1.6", "fp8": "0.17",
}  # fmt: skip
"""Keys and words that came later than the others. Source: the wheels of each version."""
_GONE = {"ipex_config": ("0.19", "1.13"), "tp_config": ("1.4", "1.7")}
"""Keys of the root that only some versions knew: from the first of these on, until the second."""


def known_to(words: Iterable[str], version: str | None) -> frozenset[str]:
    """The keys or words among these that a version of Accelerate knows; None: the newest."""
    if version is None:
        return frozenset(words)
    return frozenset(each for each in words if number(_SINCE.get(each, "0")) <= number(version))


def root_keys(version: str | None) -> frozenset[str]:
    """The keys at the top that a version of Accelerate takes; None: the newest."""
    if version is None:
        return ROOT_KEYS
    gone = {key for key, (since, until) in _GONE.items() if number(since) <= number(version) < number(until)}
    return known_to(ROOT_KEYS, version) | gone


def came(key: str) -> str | None:
    """The version of Accelerate that brought a key, where not all have it."""
    return _SINCE.get(key)


def went(key: str) -> str | None:
    """The version of Accelerate that gave a key up, where one did."""
    return _GONE[key][1] if key in _GONE else None


NOT_BESIDE_LINK = frozenset((
    "zero_stage", "gradient_accumulation_steps", "gradient_clipping", "offload_optimizer_device",
    "offload_param_device", "offload_optimizer_nvme_path", "offload_param_nvme_path",
    "zero3_save_16bit_model",
))  # fmt: skip
"""`DeepSpeedPlugin._deepspeed_config_checks` raises for these, and for `mixed_precision` at the top."""
DISTRIBUTED_TYPES = (
    "NO", "MULTI_CPU", "MULTI_GPU", "MULTI_NPU", "MULTI_MLU", "MULTI_SDAA", "MULTI_MUSA", "MULTI_XPU",
    "DEEPSPEED", "FSDP", "XLA", "MEGATRON_LM", "MULTI_HPU", "MULTI_NEURON",
)  # fmt: skip
"""What `distributed_type` may be."""
PRECISIONS = ("no", "fp8", "fp16", "bf16")
LAUNCHERS = ("pdsh", "standard", "openmpi", "mvapich", "mpich", "nossh", "slurm")


def is_launch_file(data: object) -> TypeGuard[JsonObject]:
    """Whether a root is that of a launch file which has to do with DeepSpeed."""
    if not isinstance(data, dict) or not (BLOCK in data or "distributed_type" in data):
        return False
    return (
        bool(isinstance(data.get(BLOCK), dict) and data[BLOCK]) or data.get("distributed_type") == "DEEPSPEED"
    )


def block(data: Mapping[str, Json]) -> JsonObject:
    """The block `deepspeed_config`, empty where there is none."""
    found = data.get(BLOCK)
    return found if isinstance(found, dict) else {}


def processes(data: Json) -> int | None:
    """The world size that the file asks for."""
    count = data.get("num_processes") if isinstance(data, dict) else None
    return count if type(count) is int and count > 0 else None
