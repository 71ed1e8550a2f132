"""The config that Lightning's strategy makes of its own arguments, where it is given none.

Source: lightning 2.6 pytorch/strategies/deepspeed.py, DeepSpeedStrategy._create_default_config and
register_strategies.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from dsconfig.core.json_types import Json, JsonObject

_STRATEGIES: Mapping[str, Mapping[str, Json]] = MappingProxyType({
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
"""The arguments that a strategy's name stands for."""
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
_ZERO: Mapping[str, Json] = MappingProxyType({
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


def config(data: Mapping[str, Json]) -> JsonObject | None:
    """The config of a launch file that names none; None where its strategy is not DeepSpeed's."""
    trainer = data.get("trainer")
    strategy = trainer.get("strategy") if isinstance(trainer, Mapping) else None
    if isinstance(strategy, str):
        args = _STRATEGIES.get(strategy)
    else:
        args = (strategy.get("init_args") or {}) if isinstance(strategy, Mapping) else None
    if not isinstance(args, Mapping):
        return None
    made: JsonObject = {
        "activation_checkpointing": {key: args.get(key, False) for key in _ACTIVATIONS},
        "aio": {key: args.get(key, default) for key, default in _AIO.items()},
    }
    if args.get("zero_optimization", True):
        zero = {key: args.get(key, default) for key, default in _ZERO.items()}
        if args.get("offload_optimizer", False):
            zero["offload_optimizer"] = {key: args.get(*name) for key, name in _OFFLOAD.items()}
        if args.get("offload_parameters", False):
            zero["offload_param"] = {key: args.get(*name) for key, name in _OFFLOAD_PARAM.items()}
        untested = args.get("zero_allow_untested_optimizer", True)
        made |= {"zero_allow_untested_optimizer": untested, "zero_optimization": zero}
    micro = args.get("logging_batch_size_per_gpu", "auto")
    return made if micro == "auto" else made | {"train_micro_batch_size_per_gpu": micro}


def additions(data: Mapping[str, Json]) -> JsonObject:
    """What the strategy writes into every config that lacks it, from the Trainer's own arguments.

    Source: DeepSpeedStrategy._format_batch_size_and_grad_accum_config; fabric/strategies/deepspeed.py,
    _format_precision_config.
    """
    trainer = data.get("trainer")
    args: Mapping[str, Json] = trainer if isinstance(trainer, Mapping) else {}
    strategy = args.get("strategy")
    own = strategy.get("init_args") if isinstance(strategy, Mapping) else None
    scale: Mapping[str, Json] = own if isinstance(own, Mapping) else {}
    made: JsonObject = {
        "gradient_accumulation_steps": args.get("accumulate_grad_batches") or 1,
        "gradient_clipping": args.get("gradient_clip_val") or 0.0,
    }
    precision = str(args.get("precision"))
    if precision in ("16", "16-mixed", "16-true"):
        made["fp16"] = {"enabled": True} | {key: scale.get(key, default) for key, default in _SCALE.items()}
    elif precision in ("bf16", "bf16-mixed", "bf16-true"):
        made["bf16"] = {"enabled": True}
    return made


_SCALE: Mapping[str, Json] = MappingProxyType(
    {
        "loss_scale": 0,
        "initial_scale_power": 16,
        "loss_scale_window": 1000,
        "hysteresis": 2,
        "min_loss_scale": 1,
    }
)
