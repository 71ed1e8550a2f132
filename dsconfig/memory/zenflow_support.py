"""What ZenFlow selects, as the config has it, and where it does not work or is not modelled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dsconfig.memory.engines.setup import Selection
from dsconfig.memory.not_modelled import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.memory.engines.setup import Setup
    from dsconfig.memory.graph import Weight

ZERO = "zero_optimization."
SECTION = f"{ZERO}zenflow."
THIRD, FLAT = 18001, 19007
"""The releases that came with stage 3, and with weights of stages 1 and 2 that are no transposed views."""
UNMEASURED = "no engine was measured with both"
BUCKET = 5 * 10**8


def written(config: Mapping[str, Json]) -> set[str]:
    """The section, where a config has it: an empty one switches ZenFlow on."""
    zero = config.get("zero_optimization")
    return {SECTION} if isinstance(zero, dict) and isinstance(zero.get("zenflow"), dict) else set()


def selection(values: Mapping[str, Json]) -> Selection:
    """What is selected, and how it is kept."""
    ratio, bucket = values.get(f"{SECTION}topk_ratio"), values.get(f"{ZERO}allgather_bucket_size")
    by_steps = values.get(f"{SECTION}select_strategy") == "step"
    third = values.get(f"{ZERO}stage") == 3  # `bucket_size` is not handed on there
    return Selection(
        ratio=float(ratio) if isinstance(ratio, (int, float)) else 0.1,
        overlap=bool(values.get(f"{SECTION}overlap_step")),
        offload=bool(values.get(f"{SECTION}offload")),
        again=by_steps and bool(values.get(f"{SECTION}select_interval")),
        bucket=int(bucket) if isinstance(bucket, (int, float)) and not third else BUCKET,
    )


def refuse_zenflow(values: Mapping[str, Json], release: int, client: str | None) -> None:
    """Refuse what DeepSpeed does not get through with ZenFlow, and what was not measured.

    Raises:
        NotModelledError: something stands in the way.
    """
    stage = values.get(f"{ZERO}stage") or 0
    for why in _stops(values, stage):
        raise NotModelledError(f"`{ZERO}zenflow` is not modelled: {why}")
    if stage in (1, 2) and release < FLAT:
        why = "weights are transposed views there, and engines of 0.18.9 held other amounts"
        raise NotModelledError(f"`{ZERO}zenflow` is not modelled at stages 1 and 2 before 0.19.7: {why}")
    if stage == 3 and release < THIRD:
        raise NotModelledError(f"`{ZERO}zenflow` is not modelled at stage 3 before 0.18.1, which brought it")
    if client is not None:
        why = "its steps have an argument that DeepSpeed's own optimizers alone take"
        raise NotModelledError(f"`{ZERO}zenflow` with an optimizer of the script is not modelled: {why}")
    for key, there in _unmeasured(values, stage):
        if there:
            raise NotModelledError(f"`{ZERO}zenflow` with `{key}` is not modelled: {UNMEASURED}")


def _stops(values: Mapping[str, Json], stage: Json) -> Iterator[str]:
    """Where DeepSpeed raises in the first step, or trains nothing; rules know where it does not start."""
    if not isinstance(values.get(f"{SECTION}update_interval"), int):
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


def refuse_shapes(setup: Setup, weights: Sequence[Weight], recomputes: bool) -> None:
    """Refuse models that DeepSpeed does not get through with ZenFlow.

    Raises:
        NotModelledError: something stands in the way.
    """
    found = next((weight for weight in weights if weight.trains and len(weight.shape) > 2), None)
    if found is not None:
        size = " × ".join(map(str, found.shape))
        _stop(f"it transposes matrices, and `{found.name}` has a weight of {size}")
    if setup.stage != 3:
        return
    third = "at stage 3 its hooks transpose what is gathered"
    if setup.zero_init:
        _stop(f"{third}, and shards that `zero.Init` made were not transposed before")
    if recomputes:
        _stop(f"{third}, and a segment that is computed again stops before they turn it back")
    if not all(weight.trains for weight in weights):
        _stop(f"{third}, and not what passes by frozen weights (LoRA)")
    for weight in weights:
        shard = -(-weight.elements // setup.world)
        if len(weight.shape) == 1 and weight.elements % shard:
            _stop(f"at stage 3 {setup.world} ranks do not share {weight.elements:,} of a vector evenly")
    largest = max((weight.elements for weight in weights), default=0)
    if largest > setup.bucket:
        key = f"{ZERO}reduce_bucket_size"
        _stop(f"at stage 3 `{key}` has to hold the largest parameter, {largest:,} elements")


def _stop(why: str) -> None:
    raise NotModelledError(f"DeepSpeed stops with `{ZERO}zenflow` and this model: {why}")
