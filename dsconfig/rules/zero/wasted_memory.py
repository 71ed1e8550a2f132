"""What a config holds in memory to no purpose, as engines were seen to (`python -m tests.parity.memory`)."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._numbers import rounded
from dsconfig.rules._offload import OPTIMIZER, device
from dsconfig.rules._stage import ZERO, stage, stage_set_here

_LIVE, _REUSE = f"{ZERO}.stage3_max_live_parameters", f"{ZERO}.stage3_max_reuse_distance"
_REDUCE = f"{ZERO}.reduce_bucket_size"
_RATIO, _SUB_GROUP = f"{OPTIMIZER}.ratio", f"{ZERO}.sub_group_size"
_LARGE, _MOST = 1_000_000_000, 2**63
_FEW = 1_000_000
"""A limit below it is a mistake of another kind."""


def _number(ctx: Context, path: str) -> float | None:
    value = ctx.value(path)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


@rule(
    "DSC470",
    effect="wasteful",
    since="0.3.15",
    source="runtime/zero/partitioned_param_coordinator.py:"
    "PartitionedParameterCoordinator.__params_to_release",
)
def live_parameters_kept_by_reuse(ctx: Context) -> Iterator[Finding]:
    """`stage3_max_live_parameters` is lowered, and `stage3_max_reuse_distance` is not.

    The limit only stops fetching ahead. What will be used again within the reuse distance stays gathered
    whatever the limit says: a model of fewer parameters than half that distance is whole on each GPU.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 100000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 100000000,
        "stage3_max_reuse_distance": 100000000}}
    """
    live, reuse = _number(ctx, _LIVE), _number(ctx, _REUSE)
    if not ctx.has(_LIVE) or live is None or reuse is None or stage(ctx) != 3:
        return
    if _FEW <= live < min(_LARGE, reuse) and not _gathered_whole(ctx, reuse):
        yield ctx.at(
            _LIVE,
            f"`stage3_max_live_parameters` is {live:,.0f}, and what is used again within"
            f" `stage3_max_reuse_distance`, {reuse:,.0f}, stays gathered all the same",
            help=f"set `{_REUSE}` to {live:.0f}",
            related=[("the distance is set here", _REUSE)] if ctx.has(_REUSE) else [],
        )


def _gathered_whole(ctx: Context, reuse: float) -> bool:
    """Whether the model is known, and so small that DSC406 says it all."""
    if ctx.known.model is None or ctx.world_size == 1:
        return False
    from dsconfig.rules._model_facts import elements_if_known

    return reuse >= 2 * (elements_if_known(ctx) or reuse)


@rule(
    "DSC471",
    effect="wasteful",
    since="0.3.15",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._setup_for_real_optimizer",
)
def bucket_kept_by_stage_3(ctx: Context) -> Iterator[Finding]:
    """`reduce_bucket_size` is very large at stage 3, which keeps the bucket for the whole run.

    At stages 1 and 2 it is there in the backward pass alone. Reported from a billion elements on, twice the
    default, where gradients are contiguous.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_bucket_size": 2000000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "reduce_bucket_size": 200000000}}
    """
    size = _number(ctx, _REDUCE)
    if not ctx.has(_REDUCE) or size is None or not _LARGE <= size < _MOST or stage(ctx) != 3:
        return
    if ctx.on(f"{ZERO}.contiguous_gradients"):
        yield ctx.at(
            _REDUCE,
            f"`reduce_bucket_size` is {size:,.0f}, and stage 3 holds {2 * size / 1e9:,.1f} GB for it from the"
            " first step to the last, with gradients of 16 bits",
            help="give at most 500000000, the default",
            related=stage_set_here(ctx),
        )


@rule(
    "DSC474",
    effect="wasteful",
    since="0.12.0",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._create_fp32_partitions",
)
def ratio_of_one_sub_group(ctx: Context) -> Iterator[Finding]:
    """`ratio` splits whole sub-groups between GPU and host, and there is likely one only.

    A rank has as many sub-groups as `sub_group_size` fits into the parameters that it holds. Of one, any
    `ratio` above 0 sends all to the host. Reported where a sub-group has a billion elements, the default,
    which no rank of most runs holds; where model and world size are known, if it is so.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
        "ratio": 0.5}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "sub_group_size": 50000000,
        "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}
    """
    ratio, size = _number(ctx, _RATIO), _number(ctx, _SUB_GROUP)
    if not ctx.has(_RATIO) or ratio is None or size is None or not 0 < ratio < 1:
        return
    shard = _shard(ctx)
    if (size >= (shard or _LARGE)) and stage(ctx) == 3 and device(ctx, OPTIMIZER) == "cpu":
        few = 50_000_000 if shard is None else rounded(max(1, shard // 10))
        why = "it splits a rank of ten times as many well"
        yield ctx.at(
            _RATIO,
            f"`ratio` is {ratio:g}, and all is offloaded "
            + (
                f"unless a rank holds above {size:,.0f} parameters:"
                if shard is None
                else f"of the {shard:,} parameters that a rank holds:"
            )
            + " whole sub-groups are, of `sub_group_size`",
            help=f"set `{_SUB_GROUP}` to {few}{f'; {why}' if shard is None else ''}",
            related=[("sub-groups have this size", _SUB_GROUP)] if ctx.has(_SUB_GROUP) else [],
        )


def _shard(ctx: Context) -> int | None:
    """The parameters that a rank holds, each cut for itself; None where that is not known."""
    if ctx.known.model is None or ctx.world_size is None:
        return None
    from dsconfig.rules._model_facts import elements_if_known, weights

    if elements_if_known(ctx) is None:
        return None
    return sum(-(-weight.elements // ctx.world_size) for weight in weights(ctx))


@rule(
    "DSC472",
    effect="wasteful",
    since="0.3.15",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._create_fp32_partitions",
)
def weights_in_fp32_twice(ctx: Context) -> Iterator[Finding]:
    """ZeRO trains in torch's autocast, and keeps a second copy of the weights.

    Weights stay in fp32 there, and ZeRO clones its part of them as master weights, though they are of the
    same type; stage 3 of 0.18.2 alone shares them, on the rank. `bf16` keeps the weights in 2 bytes, and
    masters in 4.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"},
        "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
    """
    path = "torch_autocast.enabled"
    shares = stage(ctx) == 3 and ctx.since("0.18.2") and ctx.before("0.18.3")
    shares = shares and device(ctx, OPTIMIZER) not in ("cpu", "nvme")
    if ctx.has(path) and ctx.on(path) and stage(ctx) in (1, 2, 3) and not shares:
        yield ctx.at(
            path,
            "torch's autocast leaves the weights in fp32, and ZeRO clones its part of them as master weights:"
            " 4 bytes more for each of them",
            help="remove `torch_autocast` and set `bf16.enabled` to true; nothing runs in fp32 then",
            related=stage_set_here(ctx),
        )
