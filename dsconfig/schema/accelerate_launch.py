"""JSON Schema of the launch file that `accelerate launch` reads.

Sources: accelerate 1.15 commands/config/config_args.py, ClusterConfig; commands/launch.py;
utils/dataclasses.py, DeepSpeedPlugin.
"""

from __future__ import annotations

from dsconfig.core.releases import LATEST
from dsconfig.job.consumers import accelerate_launch_file
from dsconfig.schema.schema_keywords import DRAFT, Schema, required_keys

_DEVICE: Schema = {
    "enum": ["none", "cpu", "nvme"],
    "enumDescriptions": ["stays on the GPU", "offload to host memory", "offload to an NVMe drive"],
    "default": "none",
}
_FLAG: Schema = {"anyOf": [{"type": "boolean"}, {"enum": ["true", "false"]}]}
_TEXT: Schema = {"type": "string"}
_AUTO = {"const": "auto", "errorMessage": 'expected a number or "auto"'}
_BLOCK: dict[str, tuple[str, Schema]] = {
    "zero_stage": (
        "ZeRO stage: shards nothing (0), optimizer state (1), also gradients (2), also parameters (3).",
        {
            "enum": [0, 1, 2, 3],
            "enumDescriptions": [
                "shards nothing",
                "shards optimizer state",
                "shards optimizer state and gradients",
                "shards optimizer state, gradients and parameters",
            ],
            "default": 2,
        },
    ),
    "gradient_accumulation_steps": (
        "Micro-batches per rank whose gradients are accumulated before an optimizer step.",
        {
            "anyOf": [{"type": "integer", "minimum": 1, "errorMessage": _AUTO["errorMessage"]}, _AUTO],
            "default": 1,
        },
    ),
    "gradient_clipping": (
        "Maximum global gradient norm.",
        {
            "anyOf": [{"type": "number", "minimum": 0, "errorMessage": _AUTO["errorMessage"]}, _AUTO],
            "default": 1.0,
        },
    ),
    "offload_optimizer_device": ("Where optimizer state is kept.", _DEVICE),
    "offload_param_device": ("Where parameters are kept; stage 3.", _DEVICE),
    "offload_optimizer_nvme_path": ("Directory on the drive; required with device nvme.", _TEXT),
    "offload_param_nvme_path": ("Directory on the drive; required with device nvme.", _TEXT),
    "zero3_init_flag": (
        "Build the model partitioned, with `deepspeed.zero.Init`; stage 3.",
        {**_FLAG, "default": False},
    ),
    "zero3_save_16bit_model": (
        "Gather the partitioned weights when the model is saved; stage 3.",
        {**_FLAG, "default": False},
    ),
    "deepspeed_config_file": (
        "DeepSpeed config file. Keys that it contains must not be set here.",
        _TEXT,
    ),
    "deepspeed_hostfile": ("Hostfile, which lists the nodes and their GPUs.", _TEXT),
    "deepspeed_exclusion_filter": ("Nodes and GPUs to exclude.", _TEXT),
    "deepspeed_inclusion_filter": ("Nodes and GPUs to include; all others are excluded.", _TEXT),
    "deepspeed_multinode_launcher": (
        "Launcher that starts the processes on all nodes.",
        {"enum": list(accelerate_launch_file.LAUNCHERS), "default": "pdsh"},
    ),
    "deepspeed_moe_layer_cls_names": ("Classes of mixture-of-experts layers, separated by commas.", _TEXT),
}
_ROOT: dict[str, tuple[str, Schema]] = {
    "compute_environment": ("Where the job runs.", {"enum": ["LOCAL_MACHINE", "AMAZON_SAGEMAKER"]}),
    "distributed_type": (
        "Type of distributed training; `deepspeed_config` applies only with DEEPSPEED.",
        {"enum": list(accelerate_launch_file.DISTRIBUTED_TYPES)},
    ),
    "mixed_precision": (
        "Training precision.",
        {"anyOf": [{"enum": list(accelerate_launch_file.PRECISIONS)}, {"const": False}]},
    ),
    "num_processes": (
        "Total number of processes on all nodes, one per GPU.",
        {"type": "integer", "minimum": 1},
    ),
    "num_machines": ("Number of nodes.", {"type": "integer", "minimum": 1, "default": 1}),
    "machine_rank": ("Rank of this node, starting at 0.", {"type": "integer", "minimum": 0, "default": 0}),
    "main_process_ip": ("Address of the node with rank 0.", {"type": ["string", "null"]}),
    "main_process_port": ("Port on the node with rank 0.", {"type": ["integer", "null"]}),
    "main_training_function": ("Function that a notebook or SageMaker calls.", _TEXT),
    "same_network": ("Whether all nodes are in the same network.", {"type": "boolean"}),
    "use_cpu": ("Train on the CPU.", {"type": "boolean"}),
    "debug": ("Check the shapes of tensors in collectives.", {"type": "boolean"}),
}


def accelerate_launch_schema() -> Schema:
    """Return the schema of the file that `accelerate launch --config_file` reads."""
    block = {
        "type": "object",
        "properties": {key: {"description": text, **value} for key, (text, value) in _BLOCK.items()},
        "additionalProperties": False,
        "allOf": [
            _keys_excluded_by_config_file(),
            *map(_nvme_path_required, ("offload_optimizer", "offload_param")),
        ],
    }
    documented = {key: {"description": text, **value} for key, (text, value) in _ROOT.items()}
    others: Schema = {key: {} for key in sorted(accelerate_launch_file.ROOT_KEYS - documented.keys())}
    return {
        "$schema": DRAFT,
        "title": "Accelerate config",
        "x-dsconfig-target": LATEST,
        "type": "object",
        "properties": {
            **documented,
            **others,
            "deepspeed_config": {
                "$ref": "#/definitions/DeepSpeed",
                "description": "Settings for DeepSpeed, or its config file.",
                "defaultSnippets": _SNIPPETS,
            },
        },
        "additionalProperties": False,
        "definitions": {"DeepSpeed": block},
    }


_SNIPPETS = [
    {"label": "ZeRO stage 2", "body": {"zero_stage": 2, "gradient_accumulation_steps": "^${1:1}"}},
    {
        "label": "ZeRO stage 3",
        "body": {"zero_stage": 3, "zero3_init_flag": True, "zero3_save_16bit_model": True},
    },
    {
        "label": "a config file",
        "body": {"deepspeed_config_file": "${1:ds_config.json}", "zero3_init_flag": False},
    },
]


def _keys_excluded_by_config_file() -> Schema:
    """Return the schema keywords for keys that Accelerate rejects together with a config file."""
    rejected = sorted(accelerate_launch_file.NOT_BESIDE_LINK)
    return {
        "if": required_keys(accelerate_launch_file.LINK),
        "then": {
            "properties": dict.fromkeys(rejected, False),
            "errorMessage": "Accelerate rejects it together with `deepspeed_config_file`: set it in that file",
        },
    }


def _nvme_path_required(section: str) -> Schema:
    """Return the schema keywords that require a path if the device is nvme."""
    device = f"{section}_device"
    return {
        "if": {"properties": {device: {"const": "nvme"}}, "required": [device]},
        "then": required_keys(f"{section}_nvme_path"),
    }
