"""Build the configs that Lightning, GPT-NeoX and OpenRLHF generate from their own arguments and YAML files.

Lightning and GPT-NeoX build a config only if the user names none; OpenRLHF never reads a config file. Problems in a
built config are fixed by changing the arguments that it is built from.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from dsconfig.core.batch_triplet import (
    ABSENT,
    ParallelDegree,
    Parallelism,
    UnevenRanksError,
    data_parallel_size,
)
from dsconfig.core.json_types import Json, JsonObject
from dsconfig.core.releases import LATEST, NUMBERS
from dsconfig.document.located_tree import UNKNOWN, UnknownValue

# Lightning: DeepSpeedStrategy builds a config from its own arguments if it gets none.
#
# Source: lightning 2.6 pytorch/strategies/deepspeed.py, DeepSpeedStrategy._create_default_config and
# register_strategies.

LIGHTNING_STRATEGIES: Mapping[str, Mapping[str, Json]] = MappingProxyType({
    "deepspeed": {},
    "deepspeed_stage_1": {"stage": 1},
    "deepspeed_stage_2": {"stage": 2},
    "deepspeed_stage_2_offload": {"stage": 2, "offload_optimizer": True},
    "deepspeed_stage_3": {"stage": 3},
    "deepspeed_stage_3_offload": {"stage": 3, "offload_optimizer": True, "offload_parameters": True},
    "deepspeed_stage_3_offload_nvme": {
        "stage": 3, "offload_optimizer": True, "offload_parameters": True, "remote_device": "nvme",
        "offload_params_device": "nvme", "offload_optimizer_device": "nvme",
    },
})  # fmt: skip
"""Arguments of `DeepSpeedStrategy` for each strategy name that Lightning registers."""
# The defaults are Lightning's, not DeepSpeed's: `allgather_bucket_size` is 2e8 instead of 5e8, and
# `overlap_comm` is on for every stage.
_OFFLOAD: Mapping[str, tuple[str, Json]] = MappingProxyType(
    {
        "device": ("offload_optimizer_device", "cpu"),
        "nvme_path": ("nvme_path", "/local_nvme"),
        "buffer_count": ("optimizer_buffer_count", 4),
        "pin_memory": ("pin_memory", False),
    }
)
_OFFLOAD_PARAM: Mapping[str, tuple[str, Json]] = MappingProxyType(
    {
        "device": ("offload_params_device", "cpu"),
        "nvme_path": ("nvme_path", "/local_nvme"),
        "buffer_count": ("params_buffer_count", 5),
        "buffer_size": ("params_buffer_size", 100_000_000),
        "max_in_cpu": ("max_in_cpu", 1_000_000_000),
        "pin_memory": ("pin_memory", False),
    }
)
_LIGHTNING_ZERO: Mapping[str, Json] = MappingProxyType({
    "stage": 2, "contiguous_gradients": True, "overlap_comm": True, "allgather_partitions": True,
    "reduce_scatter": True, "allgather_bucket_size": 200_000_000, "reduce_bucket_size": 200_000_000,
    "sub_group_size": 1_000_000_000_000,
})  # fmt: skip
_ACTIVATIONS = (
    "partition_activations", "cpu_checkpointing", "contiguous_memory_optimization",
    "synchronize_checkpoint_boundary",
)  # fmt: skip
_AIO: Mapping[str, Json] = MappingProxyType(
    {
        "block_size": 1048576,
        "queue_depth": 8,
        "single_submit": False,
        "overlap_events": True,
        "thread_count": 1,
    }
)


def build_lightning_config(data: Mapping[str, Json]) -> JsonObject | None:
    """Build the config that Lightning creates if the launch file names none; return None for other strategies."""
    trainer = data.get("trainer")
    strategy = trainer.get("strategy") if isinstance(trainer, Mapping) else None
    if isinstance(strategy, str):
        args = LIGHTNING_STRATEGIES.get(strategy)
    else:
        args = (strategy.get("init_args") or {}) if isinstance(strategy, Mapping) else None
    if not isinstance(args, Mapping):
        return None
    config: JsonObject = {
        "activation_checkpointing": {key: args.get(key, False) for key in _ACTIVATIONS},
        "aio": {key: args.get(key, default) for key, default in _AIO.items()},
    }
    if args.get("zero_optimization", True):
        zero = {key: args.get(key, default) for key, default in _LIGHTNING_ZERO.items()}
        if args.get("offload_optimizer", False):
            zero["offload_optimizer"] = {key: args.get(*name) for key, name in _OFFLOAD.items()}
        if args.get("offload_parameters", False):
            zero["offload_param"] = {key: args.get(*name) for key, name in _OFFLOAD_PARAM.items()}
        untested = args.get("zero_allow_untested_optimizer", True)
        config |= {"zero_allow_untested_optimizer": untested, "zero_optimization": zero}
    micro = args.get("logging_batch_size_per_gpu", "auto")
    return config if micro == "auto" else config | {"train_micro_batch_size_per_gpu": micro}


def lightning_added_keys(data: Mapping[str, Json]) -> JsonObject:
    """Return the keys that Lightning adds to a config from the Trainer's arguments, unless the config sets them.

    Source: DeepSpeedStrategy._format_batch_size_and_grad_accum_config; fabric/strategies/deepspeed.py,
    _format_precision_config.
    """
    trainer = data.get("trainer")
    args: Mapping[str, Json] = trainer if isinstance(trainer, Mapping) else {}
    strategy = args.get("strategy")
    init_args = strategy.get("init_args") if isinstance(strategy, Mapping) else None
    scale: Mapping[str, Json] = init_args if isinstance(init_args, Mapping) else {}
    added: JsonObject = {
        "gradient_accumulation_steps": args.get("accumulate_grad_batches") or 1,
        "gradient_clipping": args.get("gradient_clip_val") or 0.0,
    }
    precision = str(args.get("precision"))
    if precision in ("16", "16-mixed", "16-true"):
        added["fp16"] = {"enabled": True} | {
            key: scale.get(key, default) for key, default in _LOSS_SCALE.items()
        }
    elif precision in ("bf16", "bf16-mixed", "bf16-true"):
        added["bf16"] = {"enabled": True}
    return added


_LOSS_SCALE: Mapping[str, Json] = MappingProxyType(
    {
        "loss_scale": 0,
        "initial_scale_power": 16,
        "loss_scale_window": 1000,
        "hysteresis": 2,
        "min_loss_scale": 1,
    }
)


# GPT-NeoX: the config is built from the launch file itself, whose keys are DeepSpeed's and Megatron's
# together.
#
# Source: gpt-neox megatron/neox_arguments/arguments.py, NeoXArgs.deepspeed_config and calculate_derived;
# deepspeed_args.py, NeoXArgsDeepspeedConfig.

_NEOX_DEFAULTS: Mapping[str, Json] = MappingProxyType({
    "train_batch_size": None, "train_micro_batch_size_per_gpu": None, "gradient_accumulation_steps": 1,
    "optimizer": None, "scheduler": None, "fp32_allreduce": False, "prescale_gradients": False,
    "gradient_predivide_factor": 1.0, "sparse_gradients": False, "fp16": None, "bf16": None, "amp": None,
    "gradient_clipping": 1.0, "zero_optimization": None, "curriculum_learning": None, "steps_per_print": 10,
    "wall_clock_breakdown": False, "dump_state": False, "flops_profiler": None, "autotuning": None,
    "communication_data_type": None, "activation_checkpointing": None, "sparse_attention": None,
    "data_efficiency": None, "tensorboard": None, "wandb": None, "csv_monitor": None, "elasticity": None,
    "comms_logger": None, "compression_training": None, "checkpoint": None, "data_types": None,
})  # fmt: skip
"""Fields of `NeoXArgsDeepspeedConfig` with their defaults. NeoX does not pass on a field that has its default
value.
"""
_NEOX_ZERO: Mapping[str, Json] = MappingProxyType({
    "stage": 0, "allgather_partitions": True, "reduce_scatter": True, "allgather_bucket_size": 500_000_000,
    "overlap_comm": False, "reduce_bucket_size": 500_000_000, "contiguous_gradients": False,
})  # fmt: skip
_BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")


def build_neox_config(data: Mapping[str, Json]) -> JsonObject | None:
    """Return the config of a GPT-NeoX job, or None if `why_neox_has_no_config` gives a reason."""
    if why_neox_has_no_config(data):
        return None
    settings = _hyphens_to_underscores(data)
    config = {key: settings.get(key, default) for key, default in _NEOX_DEFAULTS.items()}
    config |= dict(
        zip(_BATCH_KEYS, _neox_batch_triplet(config, _neox_data_parallel_size(settings)), strict=True)
    )
    if _neox_optimizer_type(config["optimizer"]) in _OWN_OPTIMIZERS:
        # NeoX reads `precision` and writes the block itself; bf16 goes into `deepspeed_extra_args`
        # (calculate_derived).
        config["optimizer"] = None
    if isinstance(config["fp16"], dict):
        # NeoX reads the type itself: megatron/neox_arguments/arguments.py:NeoXArgs.calculate_derived.
        config["fp16"] = {key: value for key, value in config["fp16"].items() if key != "type"}
    precision = settings.get("precision")
    extra = settings.get("deepspeed_extra_args")
    extra = dict(extra) if isinstance(extra, Mapping) else {}
    if precision == "fp16":
        fp16 = config["fp16"] if isinstance(config["fp16"], dict) and config["fp16"] else {"type": "fp16"}
        config["fp16"] = {**fp16, "enabled": True}
    elif precision == "bfloat16" and not config["bf16"]:
        extra["bf16"] = {"enabled": True}
    if config["zero_optimization"] is None:
        config["zero_optimization"] = dict(_NEOX_ZERO)
    return {key: value for key, value in config.items() if value != _NEOX_DEFAULTS[key]} | extra


def why_neox_has_no_config(data: Mapping[str, Json]) -> str:
    """Return why a GPT-NeoX file alone defines no config, or an empty string if it defines one."""
    settings = _hyphens_to_underscores(data)
    if all(settings.get(key) is None for key in _BATCH_KEYS[:2]):
        return "without a batch size, so it is one of several files that are merged"
    zero = settings.get("zero_optimization")
    stage = zero.get("stage") if isinstance(zero, Mapping) else None
    return "for DeepSpeed's autotuner" if settings.get("autotuning") and isinstance(stage, list) else ""


def neox_world_size(data: Mapping[str, Json]) -> int | None:
    """Return the number of ranks of a GPT-NeoX job, or None if the file does not set it."""
    ranks = _hyphens_to_underscores(data).get("global_num_gpus")
    return ranks if type(ranks) is int and ranks > 0 else None


def _neox_data_parallel_size(settings: Mapping[str, Json]) -> int | None:
    """Return the world size divided by the pipeline- and model-parallel sizes, or None if unknown."""
    ranks = neox_world_size(settings)
    sizes = {key: settings.get(key, 1) for key in ("pipe_parallel_size", "model_parallel_size")}
    if ranks is None or any(type(size) is not int for size in sizes.values()):
        return None
    degrees = tuple(ParallelDegree("model", max(1, size), key) for key, size in sizes.items())
    try:
        # NeoX passes an `mpu`, so that no release divides by a key of the config.
        return int(data_parallel_size(ranks, Parallelism(degrees), ABSENT, NUMBERS[LATEST], from_file=False))
    except UnevenRanksError:
        return None


_OWN_OPTIMIZERS = frozenset(("cpu_adam", "cpu_torch_adam", "sm3", "madgrad_wd"))
"""Optimizers that NeoX builds itself and DeepSpeed does not know: megatron/training.py:get_optimizer."""


def _neox_optimizer_type(optimizer: Json) -> str:
    kind = optimizer.get("type") if isinstance(optimizer, Mapping) else None
    return kind.lower() if isinstance(kind, str) else ""


def _hyphens_to_underscores(data: Mapping[str, Json]) -> JsonObject:
    """Return a NeoX file's keys with underscores, because NeoX also accepts hyphens."""
    return {str(key).replace("-", "_"): value for key, value in data.items()}


def _neox_batch_triplet(config: Mapping[str, Json], ranks: int | None) -> tuple[Json, Json, Json]:
    """Return the batch size, micro batch size and accumulation steps (default 1) that NeoX passes to DeepSpeed."""
    train, micro, steps = (config[key] for key in _BATCH_KEYS)
    is_valid = all(each is None or (type(each) is int and each > 0) for each in (train, micro, steps))
    if ranks is None or not is_valid or steps is None:
        return train, micro, steps
    if train is None and micro is not None:
        train = micro * steps * ranks
    elif micro is None and train is not None:
        micro = train // ranks // steps
    return train, micro, steps


# Config that OpenRLHF builds from its flags; it reads no file.
#
# Sources: OpenRLHF 0.11 utils/deepspeed/deepspeed_utils.py:get_train_ds_config;
# OpenRLHF 0.11 utils/deepspeed/deepspeed.py:DeepspeedStrategy.get_ds_train_config; the flags of older releases are
# those of OpenRLHF 0.8 cli/train_sft.py.


def build_openrlhf_config(flags: Mapping[str, Json | UnknownValue]) -> JsonObject:
    """Return the config of an OpenRLHF job from its parsed flags.

    A flag whose value is known only at run time is `UNKNOWN`, as is each config key that depends on it.
    """

    def flag_value(default: Json | UnknownValue, *names: str) -> Any:
        return next((flags[name] for name in names if flags.get(name) is not None), default)

    def choice(condition: Any, if_true: Json, if_false: Json) -> Any:
        return UNKNOWN if condition is UNKNOWN else if_true if condition else if_false

    def is_dtype(name: str) -> Any:
        return UNKNOWN if dtype is UNKNOWN else dtype == name

    stage = flag_value(2, "ds.zero_stage", "zero_stage")
    dtype = flag_value(_default_dtype(flags), "ds.param_dtype", "param_dtype")
    ring_size = flag_value(1, "ds.ring_attn_size", "ring_attn_size")
    tensor_size = flag_value(1, "ds.tensor_parallel_size", "ds_tensor_parallel_size")
    zero: JsonObject = {
        "stage": stage,
        "offload_param": {"device": "none"},
        "offload_optimizer": {
            "device": choice(flag_value(False, "ds.adam_offload", "adam_offload"), "cpu", "none"),
            "pin_memory": True,
        },
        "zero_hpz_partition_size": flag_value(1, "ds.zpg", "zpg"),
    }
    overlap_comm = flag_value(False, "ds.overlap_comm", "overlap_comm")
    if overlap_comm:
        zero |= {key: choice(overlap_comm, True, None) for key in ("overlap_comm", "contiguous_gradients")}
    if stage == 3:
        zero["reduce_scatter"] = True
    config: JsonObject = {
        "zero_optimization": zero,
        "bf16": {"enabled": is_dtype("bf16")},
        "fp16": {"enabled": is_dtype("fp16")},
        "gradient_clipping": flag_value(1.0, "max_norm", "adam.max_norm"),
    }
    if tensor_size != 1:
        config["tensor_parallel"] = {"autotp_size": tensor_size}
    if (dynamic := flag_value(False, "train.dynamic_batch_enable", "use_dynamic_batch")) is True:
        return config | {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 1}
    batch = flag_value(_OPENRLHF_BATCH, "train.batch_size", "train_batch_size")
    # The default of the micro batch differs between the commands and releases: 1, 4 or 8.
    micro = flag_value(UNKNOWN, "train.micro_batch_size", "micro_train_batch_size")
    # Ring-attention and tensor-parallel ranks share samples, but DeepSpeed divides the batch by all ranks:
    # get_ds_train_config multiplies it to compensate.
    are_known = dynamic is False and all(type(each) is int for each in (batch, ring_size, tensor_size))
    return config | {
        "train_batch_size": batch * ring_size * tensor_size if are_known else UNKNOWN,
        "train_micro_batch_size_per_gpu": micro if dynamic is False else UNKNOWN,
    }


_OPENRLHF_BATCH = 128
"""Default of `--train_batch_size` in all commands: cli/train_sft.py and the others, 0.2 to 0.11."""


def _default_dtype(flags: Mapping[str, Json | UnknownValue]) -> Json | UnknownValue:
    """Return the dtype that OpenRLHF uses without `--param_dtype`: bf16 since 0.9, before that fp32 or `--bf16`.

    Release 0.9 renamed the flags, so their spelling shows the release. Without any of them the dtype is unknown.
    """
    if flags.get("bf16") is not None:
        return choose if (choose := flags["bf16"]) is UNKNOWN else "bf16" if choose else "fp32"
    is_new = any(name.startswith(("ds.", "train.", "actor.", "data.")) for name in flags)
    return "bf16" if is_new else UNKNOWN
