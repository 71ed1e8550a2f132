"""Optimizer state sizes, and the limits of Muon, ZenFlow and SuperOffload."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dsconfig.memory.engines.param_groups import GRAM
from dsconfig.memory.engines.setup import OptimizerCost, ZenFlowSettings
from dsconfig.memory.verdict import NotModelledError, reason

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.memory.engines.setup import Setup
    from dsconfig.memory.graph import Weight
    from dsconfig.memory.quirks import Quirks


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
    raise NotModelledError(f"the optimizer `{kind}` is not supported yet: {reason(name)}")


def cost_of_client(name: str, offloads: bool) -> OptimizerCost:
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


# Muon: settings without an estimate. Rules report what DeepSpeed itself rejects.

ZERO = "zero_optimization."


def reject_muon(values: Mapping[str, Json], quirks: Quirks) -> None:
    """Reject settings without an estimate next to Muon.

    Raises:
        NotModelledError: there is no estimate for these settings.
    """
    _reject_muon_before_0_19_8(values, quirks)
    if values.get("optimizer.params.per_head_muon"):
        raise _unmodeled_with_muon(
            "optimizer.params.per_head_muon", "splitting layers by heads was not measured"
        )
    for switch in ("expert_parallel.enabled", f"{ZERO}offload_optimizer.super_offload"):
        if values.get(switch):
            raise _unmodeled_with_muon(switch, "no engine was measured with both")
    allreduce_key = f"{ZERO}use_multi_rank_bucket_allreduce"
    if values.get(allreduce_key) is False and values.get(f"{ZERO}stage") in (1, 2):
        raise _unmodeled_with_muon(allreduce_key, "no engine was measured with both")
    for key in ("tensor_parallel.autotp_size", "sequence_parallel_size"):
        ranks = values.get(key)
        if isinstance(ranks, (int, float)) and ranks > 1:
            raise _unmodeled_with_muon(key, "no engine was measured with both")
    for section in ("offload_optimizer", "offload_param"):
        if values.get(f"{ZERO}stage") == 3 and values.get(f"{ZERO}{section}.device") == "nvme":
            raise _unmodeled_with_muon(f"{ZERO}{section}.device", "NVMe swapping was not measured with it")


def _reject_muon_before_0_19_8(values: Mapping[str, Json], quirks: Quirks) -> None:
    """Reject releases before 0.19.8 except 0.18.3 to 0.18.9, which agree below stage 3."""
    if quirks.muon_stops_without_share_of_group:
        why = "DeepSpeed raises `list index out of range` on a rank without a share of a group"
        raise NotModelledError(f"the optimizer `Muon` is not supported before 0.18.3: {why}")
    if quirks.muon_differs_from_release_to_release:
        why = "each of these releases works differently"
        raise NotModelledError(f"the optimizer `Muon` is not supported from 0.19.0 to 0.19.7: {why}")
    if not quirks.muon_has_its_own_adam:
        return
    if values.get(f"{ZERO}stage") == 3:
        raise NotModelledError("the optimizer `Muon` is not supported at stage 3 before 0.19.8")
    if values.get(f"{ZERO}offload_optimizer.device") == "cpu":
        raise _unmodeled_with_muon(
            f"{ZERO}offload_optimizer", "before 0.19.8 Muon falls back to SGD there, which was not measured"
        )
    if values.get("data_types.grad_accum_dtype") not in (None, "auto"):
        raise _unmodeled_with_muon(
            "data_types.grad_accum_dtype",
            "before 0.19.7 stage 2 raises, and dtypes differ at the other stages",
        )


def _unmodeled_with_muon(key: str, why: str) -> NotModelledError:
    return NotModelledError(f"`{key}` with Muon is not supported yet: {why}")


# ZenFlow: its settings, and where it fails or has no estimate.

ZENFLOW = f"{ZERO}zenflow."
UNMEASURED = "no engine was measured with both"
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


def reject_zenflow(values: Mapping[str, Json], quirks: Quirks, client: str | None) -> None:
    """Reject ZenFlow settings that DeepSpeed fails with, or that were not measured.

    Raises:
        NotModelledError: there is no estimate for these settings.
    """
    stage = values.get(f"{ZERO}stage") or 0
    for why in _unsupported_zenflow(values, stage):
        raise NotModelledError(f"`{ZERO}zenflow` is not supported yet: {why}")
    if stage in (1, 2) and quirks.zenflow_transposes_views:
        why = "its weights are transposed views there, and engines of 0.18.9 used different amounts"
        raise NotModelledError(f"`{ZERO}zenflow` is not supported at stages 1 and 2 before 0.19.7: {why}")
    if stage == 3 and quirks.zenflow_lacks_stage3:
        raise NotModelledError(
            f"`{ZERO}zenflow` is not supported at stage 3 before 0.18.1, the first release with it"
        )
    if client is not None:
        why = "it passes an argument to `step` that only DeepSpeed's own optimizers accept"
        raise NotModelledError(f"`{ZERO}zenflow` with a client optimizer is not supported yet: {why}")
    for key, is_used in _unmeasured(values, stage):
        if is_used:
            raise NotModelledError(f"`{ZERO}zenflow` with `{key}` is not supported yet: {UNMEASURED}")


def _unsupported_zenflow(values: Mapping[str, Json], stage: Json) -> Iterator[str]:
    """Why DeepSpeed raises in the first step or trains nothing; rules report what fails earlier."""
    if not isinstance(values.get(f"{ZENFLOW}update_interval"), int):
        yield (
            '`update_interval` is `"auto"`, which makes DeepSpeed set gradient accumulation to 0; use a number'
        )
    if not stage or values.get(f"{ZERO}offload_optimizer.device") not in ("cpu", "nvme"):
        yield "it needs an offloaded optimizer"
    if stage in (1, 2) and values.get(f"{ZERO}reduce_scatter") is False:
        yield "`reduce_scatter` is `false`, and DeepSpeed calls `gradient_reduction_w_predivide` without an argument"
    if stage == 3 and values.get(f"{ZERO}contiguous_gradients") is False:
        yield "`contiguous_gradients` is `false`, and transposed gradients cannot be flattened"
    half = any(values.get(f"{kind}.enabled") for kind in ("bf16", "fp16"))
    if half and values.get("data_types.grad_accum_dtype") in ("fp32", "float32", "float"):
        yield "`data_types.grad_accum_dtype` is fp32, but columns are selected from other gradients"


def _unmeasured(values: Mapping[str, Json], stage: Json) -> Iterator[tuple[str, bool]]:
    for key in ("tensor_parallel.autotp_size", "sequence_parallel_size"):
        ranks = values.get(key)
        yield key, isinstance(ranks, (int, float)) and ranks > 1
    if stage == 3:
        for key in (
            "zero_quantized_weights",
            "zero_quantized_gradients",
            "offload_optimizer.super_offload",
        ):
            yield ZERO + key, bool(values.get(ZERO + key))
        for key in ("offload_optimizer.device", "offload_param.device"):
            yield ZERO + key, values.get(ZERO + key) == "nvme"


def reject_zenflow_shapes(setup: Setup, weights: Sequence[Weight], recomputes: bool) -> None:
    """Reject models that ZenFlow cannot train.

    Raises:
        NotModelledError: DeepSpeed stops with this model.
    """
    tensor = next((weight for weight in weights if weight.requires_grad and len(weight.shape) > 2), None)
    if tensor is not None:
        size = " × ".join(map(str, tensor.shape))
        _raise_zenflow(f"it transposes matrices only, but `{tensor.name}` has a weight of shape {size}")
    if setup.stage != 3:
        return
    hooks = "at stage 3 its hooks transpose gathered weights"
    if setup.zero_init:
        _raise_zenflow(f"{hooks}, but shards from `zero.Init` were not transposed before")
    if recomputes:
        _raise_zenflow(f"{hooks}, and a recomputed segment ends before they transpose them back")
    if not all(weight.requires_grad for weight in weights):
        _raise_zenflow(f"{hooks}, but not those of frozen layers (LoRA)")
    for weight in weights:
        shard = -(-weight.numel // setup.dp_world_size)
        if len(weight.shape) == 1 and weight.numel % shard:
            _raise_zenflow(
                f"at stage 3 {setup.dp_world_size} ranks cannot evenly split a vector of {weight.numel:,} elements"
            )
    largest = max((weight.numel for weight in weights), default=0)
    if largest > setup.reduce_bucket_size:
        key = f"{ZERO}reduce_bucket_size"
        _raise_zenflow(
            f"at stage 3 `{key}` must be at least the size of the largest parameter, {largest:,} elements"
        )


def _raise_zenflow(why: str) -> None:
    raise NotModelledError(f"DeepSpeed stops with `{ZERO}zenflow` and this model: {why}")


# SuperOffload: its requirements.

SUPER = f"{ZERO}offload_optimizer.super_offload"
ADAMS = ("adam", "adamw", "adamw-fused", "cpu-adam")


def super_offload(values: Mapping[str, Json], optimizer: str) -> bool:
    """Whether SuperOffload updates the weights; below stage 3 DeepSpeed ignores it.

    Raises:
        NotModelledError: DeepSpeed fails before the first step.
    """
    if not values.get(SUPER) or values.get(f"{ZERO}stage") != 3:
        return False
    if values.get(f"{ZERO}offload_optimizer.device") != "cpu":
        why = "it writes gradients to host memory, which is not allocated"
        raise NotModelledError(f"`{SUPER}` without `device` `cpu` is not supported yet: {why}")
    if values.get(f"{ZERO}offload_param.device") == "nvme":
        raise NotModelledError(
            f"`{SUPER}` with parameters on NVMe is not supported yet: no engine was measured"
        )
    if optimizer.lower() not in ADAMS:
        why = "its process only runs Adam, and DeepSpeed stops with a KeyError"
        raise NotModelledError(f"`{SUPER}` with `{optimizer}` is not supported yet: {why}")
    return True
