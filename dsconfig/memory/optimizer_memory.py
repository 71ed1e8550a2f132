"""Optimizers: sizes of their states and temporaries, and the settings of ZenFlow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.engines.engine_setup import OptimizerCost, ZenFlowSettings
from dsconfig.memory.engines.param_groups import GRAM
from dsconfig.memory.unsupported_settings import unsupported, why_unsupported
from dsconfig.memory.verdict import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json


# State and temporary bytes per element, for fp32 masters.

DEFAULT_CLIENT, DEFAULT_CPU_CLIENT = "adamw", "cpu-adam"
"""The assumed client optimizer; offloaded, DeepSpeed requires its own CPU Adam."""
FUSED, FOREACH, SINGLE = "fused", "foreach", "single"
ADAM = {FUSED: (8, 0), FOREACH: (8, 4), SINGLE: (8, 8)}
CLIENTS: Mapping[str, OptimizerCost] = {
    "adam": OptimizerCost("adam", 8, 4),
    "adamw": OptimizerCost("adamw", 8, 4),
    "adamw-fused": OptimizerCost("adamw-fused", 8, 0),
    "cpu-adam": OptimizerCost("cpu-adam", 8, 0),
    "adam-8bit": OptimizerCost("adam-8bit", 2, 0, quantization_block=256),
    "adamw-8bit": OptimizerCost("adamw-8bit", 2, 0, quantization_block=256),
    "sgd": OptimizerCost("sgd", 0, 0),
    "sgd-momentum": OptimizerCost("sgd-momentum", 4, 0),
    "lion": OptimizerCost("lion", 4, 0),
    # On flat partitions Adafactor keeps the second moment of each element, and no first one.
    "adafactor": OptimizerCost("adafactor", 4, 8),
    "lion-8bit": OptimizerCost("lion-8bit", 1, 0, quantization_block=256),
    "rmsprop": OptimizerCost("rmsprop", 4, 4),
    "ademamix": OptimizerCost("ademamix", 12, 0),
    "ademamix-8bit": OptimizerCost("ademamix-8bit", 3, 0, quantization_block=256),
    "adagrad": OptimizerCost("adagrad", 4, 4, allocates_states_early=True),
}
"""Client optimizers, as torch runs them on GPUs."""


def cost_from_config(kind: str, params: Mapping[str, Json], offloads: bool) -> OptimizerCost:
    """The cost of the optimizer in the config's `optimizer` section.

    Raises:
        NotModelledError: the state size of this optimizer is not known.
    """
    name = kind.lower()
    if name in ("adam", "adamw"):
        # engine.py `_configure_basic_optimizer`: DeepSpeed uses `FusedAdam` (`DeepSpeedCPUAdam` with offload)
        # unless `torch_adam` is set.
        if params.get("torch_adam") is True:
            unfused = SINGLE if params.get("foreach") is False or offloads else FOREACH
            variant = FUSED if params.get("fused") is True else unfused
            states, temporary = ADAM[variant]
            return OptimizerCost(name, states, temporary)
        return OptimizerCost(name, *ADAM[FUSED], is_fused_adam=True)
    if name == "muon":  # other parameters use Adam; `fused` is not passed on
        unfused = SINGLE if params.get("foreach") is False or offloads else FOREACH
        variant = unfused if params.get("torch_adam") is True else FUSED
        return OptimizerCost(name, *ADAM[variant], muon_method=str(params.get("ns_method", GRAM)))
    if name == "lion":
        return OptimizerCost(name, 4, 0)
    if name == "sgd":
        momentum = params.get("momentum")
        return OptimizerCost(name, 4 if momentum else 0, 0)
    if name == "adagrad":
        # `DeepSpeedCPUAdagrad` allocates its states at the first step, torch's Adagrad in its constructor.
        return OptimizerCost(name, 4, 0) if offloads else CLIENTS["adagrad"]
    raise unsupported(f"the optimizer `{kind}`", why_unsupported(name))


def cost_of_client_optimizer(name: str, offloads: bool) -> OptimizerCost:
    """The cost of a client optimizer; on the host torch allocates one more temporary tensor.

    Raises:
        NotModelledError: the state size of this optimizer is not known.
    """
    if name not in CLIENTS:
        raise NotModelledError(
            f"the optimizer `{name}` is not supported yet", f"use one of {', '.join(CLIENTS)}"
        )
    rule = CLIENTS[name]._replace(is_client=True)
    return rule._replace(temporary_bytes=8) if offloads and rule.temporary_bytes else rule


# ZenFlow: its settings.

ZERO = "zero_optimization."
ZENFLOW = f"{ZERO}zenflow."
BUCKET = 5 * 10**8


def zenflow_section(config: Mapping[str, Json]) -> set[str]:
    """The prefix of the section if the config has one; an empty section enables ZenFlow."""
    zero = config.get("zero_optimization")
    return {ZENFLOW} if isinstance(zero, dict) and isinstance(zero.get("zenflow"), dict) else set()


def zenflow_settings(values: Mapping[str, Json]) -> ZenFlowSettings:
    """The ZenFlow settings of a config."""
    ratio, bucket = values.get(f"{ZENFLOW}topk_ratio"), values.get(f"{ZERO}allgather_bucket_size")
    by_steps = values.get(f"{ZENFLOW}select_strategy") == "step"
    is_stage3 = values.get(f"{ZERO}stage") == 3  # stage 3 does not pass `bucket_size` on
    return ZenFlowSettings(
        topk_ratio=float(ratio) if isinstance(ratio, (int, float)) else 0.1,
        overlap_step=bool(values.get(f"{ZENFLOW}overlap_step")),
        offload_states=bool(values.get(f"{ZENFLOW}offload")),
        reselects=by_steps and bool(values.get(f"{ZENFLOW}select_interval")),
        bucket_size=int(bucket) if isinstance(bucket, (int, float)) and not is_stage3 else BUCKET,
    )
