"""The schema of what `accelerate launch` reads.

Sources: accelerate 1.15 commands/config/config_args.py, ClusterConfig; commands/launch.py;
utils/dataclasses.py, DeepSpeedPlugin.
"""

from __future__ import annotations

from dsconfig.consumers import accelerate_launch_file
from dsconfig.core.releases import LATEST
from dsconfig.schema.keywords import DRAFT, Schema, needs

_DEVICE: Schema = {
    "enum": ["none", "cpu", "nvme"],
    "enumDescriptions": ["stays on the GPU", "goes to host memory", "goes to an NVMe drive"],
    "default": "none",
}
_FLAG: Schema = {"anyOf": [{"type": "boolean"}, {"enum": ["true", "false"]}]}
_TEXT: Schema = {"type": "string"}
_AUTO = {"const": "auto", "errorMessage": 'expected a number or "auto"'}
_BLOCK: dict[str, tuple[str, Schema]] = {
    "zero_stage": (
        "What is sharded: nothing (0), optimizer state (1), gradients too (2), parameters too (3).",
        {
            "enum": [0, 1, 2, 3],
            "enumDescriptions": [
                "shards nothing",
                "shards optimizer state",
                "shards gradients too",
                "shards parameters too",
            ],
            "default": 2,
        },
    ),
    "gradient_accumulation_steps": (
        "Micro-batches summed up on a rank before the optimizer steps.",
        {
            "anyOf": [{"type": "integer", "minimum": 1, "errorMessage": _AUTO["errorMessage"]}, _AUTO],
            "default": 1,
        },
    ),
    "gradient_clipping": (
        "Largest norm that all gradients together may have.",
        {
            "anyOf": [{"type": "number", "minimum": 0, "errorMessage": _AUTO["errorMessage"]}, _AUTO],
            "default": 1.0,
        },
    ),
    "offload_optimizer_device": ("Home of the optimizer's state.", _DEVICE),
    "offload_param_device": ("Home of the parameters; stage 3.", _DEVICE),
    "offload_optimizer_nvme_path": ("Directory on the drive; needed with device nvme.", _TEXT),
    "offload_param_nvme_path": ("Directory on the drive; needed with device nvme.", _TEXT),
    "zero3_init_flag": (
        "Build the model in shards, with `deepspeed.zero.Init`; stage 3.",
        {**_FLAG, "default": False},
    ),
    "zero3_save_16bit_model": (
        "Gather the sharded weights for saving, so that the checkpoint is one model; stage 3.",
        {**_FLAG, "default": False},
    ),
    "deepspeed_config_file": (
        "A config for DeepSpeed. Other keys that it holds must not stand here too.",
        _TEXT,
    ),
    "deepspeed_hostfile": ("The file that lists the machines and their GPUs.", _TEXT),
    "deepspeed_exclusion_filter": ("Machines and GPUs that take no part.", _TEXT),
    "deepspeed_inclusion_filter": ("Machines and GPUs that alone take part.", _TEXT),
    "deepspeed_multinode_launcher": (
        "What starts the processes on all machines.",
        {"enum": list(accelerate_launch_file.LAUNCHERS), "default": "pdsh"},
    ),
    "deepspeed_moe_layer_cls_names": ("Classes of mixture-of-experts layers, joined by commas.", _TEXT),
}
_ROOT: dict[str, tuple[str, Schema]] = {
    "compute_environment": ("Where the job runs.", {"enum": ["LOCAL_MACHINE", "AMAZON_SAGEMAKER"]}),
    "distributed_type": (
        "What spreads the training; the block `deepspeed_config` counts only with DEEPSPEED.",
        {"enum": list(accelerate_launch_file.DISTRIBUTED_TYPES)},
    ),
    "mixed_precision": (
        "Number format of the computation.",
        {"anyOf": [{"enum": list(accelerate_launch_file.PRECISIONS)}, {"const": False}]},
    ),
    "num_processes": (
        "Processes on all machines together, one for each GPU.",
        {"type": "integer", "minimum": 1},
    ),
    "num_machines": ("Machines that take part.", {"type": "integer", "minimum": 1, "default": 1}),
    "machine_rank": ("Number of this machine, from 0 on.", {"type": "integer", "minimum": 0, "default": 0}),
    "main_process_ip": ("Address of the first machine.", {"type": ["string", "null"]}),
    "main_process_port": ("Port on the first machine.", {"type": ["integer", "null"]}),
    "main_training_function": ("Function that a notebook or SageMaker starts.", _TEXT),
    "same_network": ("Whether all machines are in one network.", {"type": "boolean"}),
    "use_cpu": ("Train on the CPU.", {"type": "boolean"}),
    "debug": ("Check the shapes of what is gathered.", {"type": "boolean"}),
}


def launch_schema() -> Schema:
    """The file that `accelerate launch --config_file` reads."""
    block = {
        "type": "object",
        "properties": {key: {"description": told, **value} for key, (told, value) in _BLOCK.items()},
        "additionalProperties": False,
        "allOf": [_beside_link(), *map(_path_needed, ("offload_optimizer", "offload_param"))],
    }
    known = {key: {"description": told, **value} for key, (told, value) in _ROOT.items()}
    others: Schema = {key: {} for key in sorted(accelerate_launch_file.ROOT_KEYS - known.keys())}
    return {
        "$schema": DRAFT,
        "title": "Accelerate config",
        "x-dsconfig-target": LATEST,
        "type": "object",
        "properties": {
            **known,
            **others,
            "deepspeed_config": {
                "$ref": "#/definitions/DeepSpeed",
                "description": "What DeepSpeed is to do, or the config that says it.",
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


def _beside_link() -> Schema:
    """`DeepSpeedPlugin._deepspeed_config_checks` raises for these keys beside a config file."""
    refused = sorted(accelerate_launch_file.NOT_BESIDE_LINK)
    return {
        "if": needs(accelerate_launch_file.LINK),
        "then": {
            "properties": dict.fromkeys(refused, False),
            "errorMessage": "refused beside `deepspeed_config_file`: write it in that file",
        },
    }


def _path_needed(section: str) -> Schema:
    device = f"{section}_device"
    return {
        "if": {"properties": {device: {"const": "nvme"}}, "required": [device]},
        "then": needs(f"{section}_nvme_path"),
    }
