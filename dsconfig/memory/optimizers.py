"""Optimizer states in bytes per element, and limits of Muon, ZenFlow and SuperOffload."""

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


# What each optimizer keeps and needs for an element, in bytes of fp32.

DEFAULT_CLIENT, DEFAULT_CPU_CLIENT = "adamw", "cpu-adam"
"""What a script hands to DeepSpeed where nothing says another optimizer; offloaded, it wants its own."""
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
"""Optimizers that a script hands to DeepSpeed, as torch runs them on GPUs."""


def cost_from_config(kind: str, params: Mapping[str, Json], offloads: bool) -> OptimizerCost:
    """The rule of the config's `optimizer` section.

    Raises:
        NotModelledError: what this optimizer keeps is not known here.
    """
    name = kind.lower()
    if name in ("adam", "adamw"):
        if params.get("torch_adam") is True:
            slow = SINGLE if params.get("foreach") is False or offloads else FOREACH
            way = FUSED if params.get("fused") is True else slow
            states, temporary = ADAM[way]
            return OptimizerCost(name, states, temporary)
        return OptimizerCost(name, *ADAM[FUSED], is_fused_adam=True)
    if name == "muon":  # the rest of the model is Adam's, without the word `fused`
        slow = SINGLE if params.get("foreach") is False or offloads else FOREACH
        way = slow if params.get("torch_adam") is True else FUSED
        return OptimizerCost(name, *ADAM[way], muon_method=str(params.get("ns_method", GRAM)))
    if name == "lion":
        return OptimizerCost(name, 4, 0)
    if name == "sgd":
        momentum = params.get("momentum")
        return OptimizerCost(name, 4 if momentum else 0, 0)
    if name == "adagrad":
        return OptimizerCost(name, 4, 0) if offloads else CLIENTS["adagrad"]
    raise NotModelledError(f"the optimizer `{kind}` is not modelled: {reason(name)}")


def cost_of_client(name: str, offloads: bool) -> OptimizerCost:
    """The rule of an optimizer that a script makes; on the host torch has one temporary more.

    Raises:
        NotModelledError: what this optimizer keeps is not known here.
    """
    if name not in CLIENTS:
        raise NotModelledError(f"the optimizer `{name}` is not modelled", f"give one of {', '.join(CLIENTS)}")
    rule = CLIENTS[name]._replace(is_client=True)
    return rule._replace(temporary_bytes=8) if offloads and rule.temporary_bytes else rule


# Where Muon is not modelled; what DeepSpeed itself refuses with it, rules know.

SINCE, OLD, NEW = 18003, 19000, 19008
"""Releases from the first up to the second go about it alike, and those from the third on."""
ZERO = "zero_optimization."


def reject_muon(values: Mapping[str, Json], release: int) -> None:
    """Refuse what is not modelled together with Muon.

    Raises:
        NotModelledError: something stands in the way.
    """
    if release < NEW:
        _reject_muon_before_0_19_8(values, release)
    if values.get("optimizer.params.per_head_muon"):
        raise _unmodeled_with_muon(
            "optimizer.params.per_head_muon", "the layers in which it finds heads were not measured"
        )
    for switch in ("expert_parallel.enabled", f"{ZERO}offload_optimizer.super_offload"):
        if values.get(switch):
            raise _unmodeled_with_muon(switch, "no engine was measured with both")
    together = f"{ZERO}use_multi_rank_bucket_allreduce"
    if values.get(together) is False and values.get(f"{ZERO}stage") in (1, 2):
        raise _unmodeled_with_muon(together, "no engine was measured with both")
    for key in ("tensor_parallel.autotp_size", "sequence_parallel_size"):
        ranks = values.get(key)
        if isinstance(ranks, (int, float)) and ranks > 1:
            raise _unmodeled_with_muon(key, "no engine was measured with both")
    for section in ("offload_optimizer", "offload_param"):
        if values.get(f"{ZERO}stage") == 3 and values.get(f"{ZERO}{section}.device") == "nvme":
            raise _unmodeled_with_muon(
                f"{ZERO}{section}.device", "what goes to a drive and back was not measured with it"
            )


def _reject_muon_before_0_19_8(values: Mapping[str, Json], release: int) -> None:
    """0.18.3 to 0.18.9 agree, but for stage 3, which came with the last of them."""
    if release < SINCE:
        why = "where a rank has no part of a group, DeepSpeed raises `list index out of range`"
        raise NotModelledError(f"the optimizer `Muon` is not modelled before 0.18.3: {why}")
    if release >= OLD:
        why = "each release has a way of its own"
        raise NotModelledError(f"the optimizer `Muon` is not modelled from 0.19.0 to 0.19.7: {why}")
    if values.get(f"{ZERO}stage") == 3:
        raise NotModelledError("the optimizer `Muon` is not modelled at stage 3 before 0.19.8")
    if values.get(f"{ZERO}offload_optimizer.device") == "cpu":
        raise _unmodeled_with_muon(
            f"{ZERO}offload_optimizer", "before 0.19.8 it was not measured: Muon then is SGD"
        )
    if values.get("data_types.grad_accum_dtype") not in (None, "auto"):
        raise _unmodeled_with_muon(
            "data_types.grad_accum_dtype", "before 0.19.7 stage 2 raises, and types differ at others"
        )


def _unmodeled_with_muon(key: str, why: str) -> NotModelledError:
    return NotModelledError(f"`{key}` with Muon is not modelled: {why}")


# What ZenFlow selects, as the config has it, and where it does not work or is not modelled.

ZENFLOW = f"{ZERO}zenflow."
STAGE3_SINCE, CONTIGUOUS_SINCE = 18001, 19007
"""The releases that came with stage 3, and with weights of stages 1 and 2 that are no transposed views."""
UNMEASURED = "no engine was measured with both"
BUCKET = 5 * 10**8


def zenflow_section(config: Mapping[str, Json]) -> set[str]:
    """The section, where a config has it: an empty one switches ZenFlow on."""
    zero = config.get("zero_optimization")
    return {ZENFLOW} if isinstance(zero, dict) and isinstance(zero.get("zenflow"), dict) else set()


def zenflow_settings(values: Mapping[str, Json]) -> ZenFlowSettings:
    """What is selected, and how it is kept."""
    ratio, bucket = values.get(f"{ZENFLOW}topk_ratio"), values.get(f"{ZERO}allgather_bucket_size")
    by_steps = values.get(f"{ZENFLOW}select_strategy") == "step"
    third = values.get(f"{ZERO}stage") == 3  # `bucket_size` is not handed on there
    return ZenFlowSettings(
        topk_ratio=float(ratio) if isinstance(ratio, (int, float)) else 0.1,
        overlap_step=bool(values.get(f"{ZENFLOW}overlap_step")),
        offload_states=bool(values.get(f"{ZENFLOW}offload")),
        reselects=by_steps and bool(values.get(f"{ZENFLOW}select_interval")),
        bucket_size=int(bucket) if isinstance(bucket, (int, float)) and not third else BUCKET,
    )


def reject_zenflow(values: Mapping[str, Json], release: int, client: str | None) -> None:
    """Refuse what DeepSpeed does not get through with ZenFlow, and what was not measured.

    Raises:
        NotModelledError: something stands in the way.
    """
    stage = values.get(f"{ZERO}stage") or 0
    for why in _unsupported_zenflow(values, stage):
        raise NotModelledError(f"`{ZERO}zenflow` is not modelled: {why}")
    if stage in (1, 2) and release < CONTIGUOUS_SINCE:
        why = "weights are transposed views there, and engines of 0.18.9 held other amounts"
        raise NotModelledError(f"`{ZERO}zenflow` is not modelled at stages 1 and 2 before 0.19.7: {why}")
    if stage == 3 and release < STAGE3_SINCE:
        raise NotModelledError(f"`{ZERO}zenflow` is not modelled at stage 3 before 0.18.1, which brought it")
    if client is not None:
        why = "its steps have an argument that DeepSpeed's own optimizers alone take"
        raise NotModelledError(f"`{ZERO}zenflow` with an optimizer of the script is not modelled: {why}")
    for key, there in _unmeasured(values, stage):
        if there:
            raise NotModelledError(f"`{ZERO}zenflow` with `{key}` is not modelled: {UNMEASURED}")


def _unsupported_zenflow(values: Mapping[str, Json], stage: Json) -> Iterator[str]:
    """Where DeepSpeed raises in the first step, or trains nothing; rules know where it does not start."""
    if not isinstance(values.get(f"{ZENFLOW}update_interval"), int):
        yield (
            '`update_interval` is `"auto"`, by which DeepSpeed sets gradient accumulation to 0; give a number'
        )
    if not stage or values.get(f"{ZERO}offload_optimizer.device") not in ("cpu", "nvme"):
        yield "the optimizer is not offloaded, which it needs"
    if stage in (1, 2) and values.get(f"{ZERO}reduce_scatter") is False:
        yield "`reduce_scatter` is `false`, and `gradient_reduction_w_predivide` misses an argument"
    if stage == 3 and values.get(f"{ZERO}contiguous_gradients") is False:
        yield "`contiguous_gradients` is `false`, and transposed gradients cannot be put into one tensor"
    half = any(values.get(f"{kind}.enabled") for kind in ("bf16", "fp16"))
    if half and values.get("data_types.grad_accum_dtype") in ("fp32", "float32", "float"):
        yield "`data_types.grad_accum_dtype` is fp32, and what is selected is taken from other gradients"


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
    """Refuse models that DeepSpeed does not get through with ZenFlow.

    Raises:
        NotModelledError: something stands in the way.
    """
    found = next((weight for weight in weights if weight.requires_grad and len(weight.shape) > 2), None)
    if found is not None:
        size = " × ".join(map(str, found.shape))
        _raise_zenflow(f"it transposes matrices, and `{found.name}` has a weight of {size}")
    if setup.stage != 3:
        return
    third = "at stage 3 its hooks transpose what is gathered"
    if setup.zero_init:
        _raise_zenflow(f"{third}, and shards that `zero.Init` made were not transposed before")
    if recomputes:
        _raise_zenflow(f"{third}, and a segment that is computed again stops before they turn it back")
    if not all(weight.requires_grad for weight in weights):
        _raise_zenflow(f"{third}, and not what passes by frozen weights (LoRA)")
    for weight in weights:
        shard = -(-weight.numel // setup.dp_world_size)
        if len(weight.shape) == 1 and weight.numel % shard:
            _raise_zenflow(
                f"at stage 3 {setup.dp_world_size} ranks do not share {weight.numel:,} of a vector evenly"
            )
    largest = max((weight.numel for weight in weights), default=0)
    if largest > setup.reduce_bucket_size:
        key = f"{ZERO}reduce_bucket_size"
        _raise_zenflow(f"at stage 3 `{key}` has to hold the largest parameter, {largest:,} elements")


def _raise_zenflow(why: str) -> None:
    raise NotModelledError(f"DeepSpeed stops with `{ZERO}zenflow` and this model: {why}")


# Optimizers that DeepSpeed runs in a process of their own: what they need, and where they do not work.

SUPER = f"{ZERO}offload_optimizer.super_offload"
ADAMS = ("adam", "adamw", "adamw-fused", "cpu-adam")


def super_offload(values: Mapping[str, Json], optimizer: str) -> bool:
    """Whether SuperOffload updates: below stage 3 nothing asks for it.

    Raises:
        NotModelledError: DeepSpeed does not get as far as a step.
    """
    if not values.get(SUPER) or values.get(f"{ZERO}stage") != 3:
        return False
    if values.get(f"{ZERO}offload_optimizer.device") != "cpu":
        why = "it fills gradients in the host's memory, and there are none"
        raise NotModelledError(f"`{SUPER}` without `device` `cpu` is not modelled: {why}")
    if values.get(f"{ZERO}offload_param.device") == "nvme":
        raise NotModelledError(f"`{SUPER}` beside parameters on NVMe is not modelled: no engine was measured")
    if optimizer.lower() not in ADAMS:
        why = "its process updates with Adam, and DeepSpeed stops with a KeyError"
        raise NotModelledError(f"`{SUPER}` with `{optimizer}` is not modelled: {why}")
    return True
