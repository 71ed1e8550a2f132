"""Stage 3 alone: ZeRO++, fetching ahead, and what is saved."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove, Rename, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import ZERO, stage, zero
from dsconfig.words import one_of, quoted

_HPZ = f"{ZERO}.zero_hpz_partition_size"
_GROUPS = "utils/groups.py:_create_zero_param_parallel_group"


def _partition(ctx: Context) -> int:
    """The ranks of a secondary partition, where stage 3 makes them; else 1, which is off."""
    size = ctx.value(_HPZ) if ctx.has(_HPZ) else 1
    return size if isinstance(size, int) and stage(ctx) == 3 else 1


@rule("DSC448", effect="crashes", since="0.10.0", source=_GROUPS)
def secondary_partition_not_a_divisor(ctx: Context) -> Iterator[Finding]:
    """`zero_hpz_partition_size` does not divide the number of ranks.

    The ranks are cut into groups of that size, and none may be left over: "12 is not divisible by 8".

    Bad, world size 12:

        {"train_batch_size": 12, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}

    Good, world size 16:

        {"train_batch_size": 16, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
    """
    if not ctx.has(_HPZ) or ctx.world_size is None:
        return
    size, ranks = _partition(ctx), ctx.world_size
    if 1 < size < ranks and ranks % size:
        fits = [number for number in range(2, ranks + 1) if ranks % number == 0]
        shown = one_of(fits) if len(fits) <= _MOST else ", ".join(map(quoted, fits[:_MOST])) + ", …"
        yield ctx.at(
            _HPZ,
            f"`zero_hpz_partition_size` is {size}, which does not divide the {ranks} ranks: {ranks} ="
            f" {ranks // size} × {size} + {ranks % size}",
            help=f"use {shown}, or another number of ranks",
        )


_MOST = 8
"""Numbers listed before the rest is left out."""


@rule("DSC449", effect="altered", since="0.10.0", source=_GROUPS)
def secondary_partition_beyond_ranks(ctx: Context) -> Iterator[Finding]:
    """`zero_hpz_partition_size` is larger than the number of ranks, or 0.

    More ranks than there are count as all of them, 0 as 1: either way there is no second partition.

    Bad, world size 4:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}

    Good, world size 8:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 0}}
    """
    if not ctx.has(_HPZ):
        return
    size = _partition(ctx)
    if size == 0:
        yield ctx.at(
            _HPZ,
            "`zero_hpz_partition_size` is 0 and counts as 1: there is no secondary partition",
            help="write the number of GPUs in a node, or remove the key",
            fix=Fix("remove `zero_hpz_partition_size`", (Remove(ctx.place(_HPZ)),), safe=True),
        )
    elif ctx.world_size is not None and size > max(ctx.world_size, 1):
        yield ctx.at(
            _HPZ,
            f"`zero_hpz_partition_size` is {size} and counts as {ctx.world_size}, the number of ranks: the"
            " secondary partition is the first one over again",
            help="write the number of GPUs in a node, or remove the key",
        )


@rule(
    "DSC450",
    effect="crashes",
    since="0.10.0",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__",
)
def quantized_gradients_without_reduce_scatter(ctx: Context) -> Iterator[Finding]:
    """`zero_quantized_gradients` is true at stage 3, and `reduce_scatter` is false.

    Quantised gradients travel by an all-to-all that stands in for the reduce-scatter: "when enable
    all_to_all_reduce, reduce_scatter should also be enabled".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_quantized_gradients": true,
        "reduce_scatter": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_quantized_gradients": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "zero_quantized_gradients": true}}
    """
    path, scatter = f"{ZERO}.zero_quantized_gradients", f"{ZERO}.reduce_scatter"
    if not (ctx.has(path) and ctx.has(scatter)):
        return
    if ctx.on(path) and not ctx.on(scatter) and stage(ctx) == 3:
        yield ctx.at(
            scatter,
            "`reduce_scatter` is `false`, but `zero_quantized_gradients` stands in for the reduce-scatter and"
            " needs it",
            help="remove it",
            related=[("gradients are quantised here", path)],
            fix=Fix("remove `reduce_scatter`", (Remove(ctx.place(scatter)),)),
        )


@rule(
    "DSC451",
    effect="altered",
    since="0.18.5",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer",
)
def prefetch_beside_sequential_gather(ctx: Context) -> Iterator[Finding]:
    """`stage3_prefetch_bucket_size` is written, and `stage3_allgather_sequential` sets it to 1.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_allgather_sequential": true,
        "stage3_prefetch_bucket_size": 50000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_allgather_sequential": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_allgather_sequential": true}}
    """
    path, sequential = f"{ZERO}.stage3_prefetch_bucket_size", f"{ZERO}.stage3_allgather_sequential"
    if not (ctx.has(path) and ctx.has(sequential)):
        return
    if ctx.on(sequential) and ctx.value(path) != 1 and stage(ctx) == 3:
        yield ctx.at(
            path,
            f"`{ctx.place(path)[-1]}` is {quoted(ctx.value(path))} and counts as 1, because"
            f" `{ctx.place(sequential)[-1]}` is on",
            help="remove it, or gather without `stage3_allgather_sequential`",
            related=[("parameters are gathered one by one here", sequential)],
            fix=Fix(f"remove `{ctx.place(path)[-1]}`", (Remove(ctx.place(path)),)),
        )


@rule(
    "DSC452", effect="altered", since="0.7.0", source="runtime/config_utils.py:DeepSpeedConfigModel.__init__"
)
def bare_name_left_to_fill(ctx: Context) -> Iterator[Finding]:
    """A stage-3 key is "auto" under its name without `stage3_`, which the consumer does not fill.

    DeepSpeed reads `prefetch_bucket_size` like `stage3_prefetch_bucket_size`. Transformers and Accelerate
    know the long names only, so that "auto" is left, and DeepSpeed drops it for its default.

    Bad, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "prefetch_bucket_size": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"}}

    Fixed, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": "auto"}}
    """
    if ctx.consumer == "deepspeed":
        return
    for name in zero(ctx):
        path = f"{ZERO}.{name}"
        if not name.startswith("stage3_") or ctx.place(path)[-1] == name or ctx.written(path) != "auto":
            continue
        bare = ctx.place(path)[-1]
        yield ctx.at(
            path,
            f'`{bare}` is `"auto"`, which {ctx.consumer} fills only under `{name}`: DeepSpeed drops it and'
            f" uses its default, {quoted(ctx.default(path))}",
            help=f"write `{name}`",
            fix=Fix(f"rename it `{name}`", (Rename(ctx.place(path), name),)),
        )


@rule("DSC453", effect="wasteful", since="0.6.0", source="runtime/engine.py:DeepSpeedEngine.save_16bit_model")
def model_saved_without_weights(ctx: Context) -> Iterator[Finding]:
    """At stage 3 nothing gathers the weights when the consumer saves the model.

    Each rank holds a share of every weight. Unless `stage3_gather_16bit_weights_on_model_save` is true, the
    saved model has no weights in it, and they have to be put together from the ZeRO checkpoint by
    `zero_to_fp32.py`.

    Bad, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3,
        "stage3_gather_16bit_weights_on_model_save": true}}

    Fixed, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3,
        "stage3_gather_16bit_weights_on_model_save": true}}
    """
    path = f"{ZERO}.stage3_gather_16bit_weights_on_model_save"
    old = f"{ZERO}.stage3_gather_fp16_weights_on_model_save"
    if ctx.consumer != "transformers" or not zero(ctx):
        return
    if not ctx.on(path) and not ctx.on(old) and stage(ctx) == 3:
        said = f"is {quoted(ctx.value(path))}" if ctx.has(path) else "is absent, and so `false`"
        yield ctx.at(
            path,
            f"`stage3_gather_16bit_weights_on_model_save` {said}: {ctx.consumer} saves a ZeRO checkpoint, but"
            " no model weights",
            help="write `true`, or put the weights together with `zero_to_fp32.py` afterwards",
            fix=Fix("gather the weights on save", (Set(ctx.place(path), True),)),
        )
