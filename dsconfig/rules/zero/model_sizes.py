"""What a known model makes of buckets and limits at the ZeRO stages."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._formats import bf16_optimizer, model_format
from dsconfig.rules._numbers import rounded
from dsconfig.rules._stage import ZERO, stage, stage_set_here
from dsconfig.rules.trained import elements, is_known, model

_REDUCE = f"{ZERO}.reduce_bucket_size"
_LIVE, _REUSE = f"{ZERO}.stage3_max_live_parameters", f"{ZERO}.stage3_max_reuse_distance"
_MOST = 2**63


@rule(
    "DSC405",
    effect="wasteful",
    since="0.5.2",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.setup_buckets, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._setup_for_real_optimizer",
)
def bucket_larger_than_model(ctx: Context) -> Iterator[Finding]:
    """`reduce_bucket_size` is larger than the model, and the bucket is allocated whole all the same.

    Gradients are gathered in a buffer of that many elements before they are reduced. It is made at its full
    size whatever the model has: at stages 1 and 2 in each backward pass, at stage 3 for the whole run.
    Reported where the model is known, and gradients are contiguous.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "$dsconfig": {"model": "gpt2"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_bucket_size": 50000000},
        "$dsconfig": {"model": "gpt2"}}
    """
    if not is_known(ctx) or not ctx.has(ZERO) or stage(ctx) not in (1, 2, 3):
        return
    size = ctx.value(_REDUCE)
    if not isinstance(size, int | float) or size >= _MOST or not ctx.on(f"{ZERO}.contiguous_gradients"):
        return
    if bf16_optimizer(ctx) or size <= (count := elements(ctx)):
        return
    width = 4 if model_format(ctx) == "fp32" else 2
    more = width * (size - count) / 1e9
    held = "held for the whole run" if stage(ctx) == 3 else "held in each backward pass"
    yield ctx.at(
        _REDUCE,
        f"`reduce_bucket_size` is {size:,.0f}{'' if ctx.has(_REDUCE) else ' by default'}, and"
        f" {model(ctx).shown} has {count:,} parameters: {more:,.2f} GB of the bucket are never filled,"
        f" and {held}",
        help=f"set `{_REDUCE}` to {rounded(count)}",
        related=stage_set_here(ctx),
    )


@rule(
    "DSC406",
    effect="wasteful",
    since="0.5.9",
    source="runtime/zero/partitioned_param_coordinator.py:"
    "PartitionedParameterCoordinator.__params_to_release",
)
def live_parameters_without_effect(ctx: Context) -> Iterator[Finding]:
    """`stage3_max_live_parameters` has no effect on this model, which stage 3 gathers whole on each GPU.

    The limit only stops fetching ahead. What will be used again within `stage3_max_reuse_distance` stays
    gathered, and from the first layer's forward pass to its backward pass are twice the parameters of the
    model: where the distance is no less, nothing is let go in between. Reported where the model is known.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1000000000},
        "$dsconfig": {"model": "gpt2"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 10000000,
        "stage3_max_reuse_distance": 10000000}, "$dsconfig": {"model": "gpt2"}}
    """
    if not is_known(ctx) or not ctx.has(_LIVE) or stage(ctx) != 3 or ctx.world_size == 1:
        return
    live, reuse = ctx.value(_LIVE), ctx.value(_REUSE)
    if not isinstance(live, int | float) or not isinstance(reuse, int | float):
        return
    if reuse < 2 * (count := elements(ctx)):
        return
    few = rounded(count // 10)
    yield ctx.at(
        _LIVE,
        f"`stage3_max_live_parameters` is {live:,.0f}, and all {count:,} parameters of {model(ctx).shown} are"
        f" gathered on each GPU whatever it says: `stage3_max_reuse_distance` is {reuse:,.0f}",
        help=f"set `{_REUSE}` to {few}, and `{_LIVE}` too",
        related=[("the distance is set here", _REUSE)] if ctx.has(_REUSE) else [],
    )
