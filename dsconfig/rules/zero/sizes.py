"""ZeRO's buckets and limits: what DeepSpeed takes and then pays for, or sets otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import (
    OPTIMIZER,
    ZERO,
    device,
    device_place,
    said_here,
    stage,
    zero,
)
from dsconfig.words import quoted

_OVERLAP = f"{ZERO}.overlap_comm"


@rule(
    "DSC440",
    effect="altered",
    since="0.7.0",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.overlap_comm_valid",
)
def overlap_left_to_the_stage(ctx: Context) -> Iterator[Finding]:
    """`overlap_comm` is null, and so true or false by the stage.

    Null is as good as absent: true at stage 3, false below.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "overlap_comm": null}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "overlap_comm": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "overlap_comm": true}}
    """
    if ctx.written(_OVERLAP) is None:
        becomes = stage(ctx) == 3
        yield ctx.at(
            _OVERLAP,
            f"`overlap_comm` is `null` and counts as {quoted(becomes)}: true at stage 3, false below",
            help=f"write {quoted(becomes)}",
            related=said_here(ctx),
            fix=Fix(f"replace by {quoted(becomes)}", (Set(ctx.place(_OVERLAP), becomes),), safe=True),
        )


_LARGE = 1_000_000_000


@rule(
    "DSC441", effect="wasteful", source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.setup_buckets"
)
def overlapping_buckets_of_gigabytes(ctx: Context) -> Iterator[Finding]:
    """`reduce_bucket_size` is very large while `overlap_comm` keeps two such buckets.

    With overlap one bucket is reduced while the next is filled, so that a GPU holds both. Reported from a
    billion elements on, twice the default.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": true,
        "reduce_bucket_size": 2000000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "overlap_comm": true,
        "reduce_bucket_size": 200000000}}
    """
    path = f"{ZERO}.reduce_bucket_size"
    if not ctx.has(path) or not ctx.has(_OVERLAP):
        return
    size = ctx.value(path)
    if not isinstance(size, int | float) or size < _LARGE or not ctx.on(_OVERLAP):
        return
    if stage(ctx) in (1, 2) and ctx.on(f"{ZERO}.contiguous_gradients"):
        yield ctx.at(
            path,
            f"`reduce_bucket_size` is {size:,.0f}, and `overlap_comm` keeps two: 2 × {size:,.0f} × 2 bytes ="
            f" {4 * size / 1e9:,.1f} GB of 16-bit gradients on each GPU",
            help="write 500000000, the default, or less",
            related=[("overlap is switched on here", _OVERLAP)],
        )


_NEAR_ZERO: dict[str, tuple[int, tuple[int, ...], str]] = {
    "reduce_bucket_size": (10_000, (1, 2, 3), "nearly every gradient is reduced on its own"),
    "sub_group_size": (1, (3,), "the optimizer steps through one parameter at a time"),
    "stage3_max_live_parameters": (1, (3,), "every parameter is let go after each use and gathered again"),
    "stage3_max_reuse_distance": (1, (3,), "every parameter is let go after each use and gathered again"),
    "stage3_prefetch_bucket_size": (
        1,
        (3,),
        "nothing is fetched ahead, and computation waits for every gather",
    ),
}
"""Below which size, at which stages, and what that costs."""


@rule("DSC442", effect="wasteful", source="runtime/zero/config.py:DeepSpeedZeroConfig")
def sizes_of_nearly_zero(ctx: Context) -> Iterator[Finding]:
    """A bucket or a limit is so small that ZeRO handles parameters one by one.

    DeepSpeed takes 0 in most places where it takes a number of elements. It saves memory at the cost of very
    many small messages.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 0}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "stage3_max_live_parameters": 1000000000}}
    """
    small: dict[str, list[str]] = {}
    for name, value in zero(ctx).items():
        if name in _NEAR_ZERO and isinstance(value, int | float) and 0 <= value < _NEAR_ZERO[name][0]:
            small.setdefault(_NEAR_ZERO[name][2], []).append(f"{ZERO}.{name}")
    for cost, paths in small.items():
        name = paths[0].rpartition(".")[2]
        if stage(ctx) in _NEAR_ZERO[name][1]:
            words = [f"`{ctx.place(path)[-1]}` is {quoted(ctx.value(path))}" for path in paths]
            yield ctx.at(
                paths[0],
                f"{' and '.join(words)}: {cost}",
                help=f"remove {'it' if len(paths) == 1 else 'them'}, unless memory is scarcer than time: the"
                f" default is {ctx.default(paths[0])}",
            )


@rule(
    "DSC443",
    effect="wasteful",
    since="0.4.0",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.average_tensor",
)
def all_reduce_at_stage_2(ctx: Context) -> Iterator[Finding]:
    """`reduce_scatter` is false at stage 2.

    Every rank then receives all gradients by an all-reduce, and throws away those it does not own: twice the
    traffic. Models with mixture-of-experts layers stop with an assertion.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_scatter": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_scatter": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.reduce_scatter"
    if ctx.has(path) and not ctx.on(path) and stage(ctx) == 2:
        yield ctx.at(
            path,
            "`reduce_scatter` is `false`: at stage 2 gradients are all-reduced to every rank, twice the"
            " traffic",
            help="remove it",
            related=said_here(ctx),
            fix=Fix("remove `reduce_scatter`", (Remove(ctx.place(path)),)),
        )


@rule("DSC444", effect="altered", source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__")
def contiguous_gradients_off_beside_offload(ctx: Context) -> Iterator[Finding]:
    """`contiguous_gradients` is false, and optimizer offload switches it on.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "contiguous_gradients": false,
        "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "contiguous_gradients": true,
        "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    path = f"{ZERO}.contiguous_gradients"
    if not ctx.has(path) or ctx.on(path):
        return
    if stage(ctx) in (1, 2) and (home := device(ctx, OPTIMIZER)) != "none":
        yield ctx.at(
            path,
            f"`contiguous_gradients` is `false` and counts as `true`: the optimizer is offloaded to {home}",
            help="remove it",
            related=[("the optimizer is offloaded here", device_place(ctx, OPTIMIZER))],
            fix=Fix("remove `contiguous_gradients`", (Remove(ctx.place(path)),)),
        )


@rule(
    "DSC445",
    effect="ignored",
    since="0.4.0",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.complete_grad_norm_calculation_for_cpu_offload",
)
def unused_parameters_unchecked(ctx: Context) -> Iterator[Finding]:
    """`ignore_unused_parameters` is false, and nothing looks for unused parameters.

    The one place that does works out the norm of gradients on the CPU, so only with optimizer offload at
    stage 1 or 2.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "ignore_unused_parameters": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "ignore_unused_parameters": false,
        "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.ignore_unused_parameters"
    if ctx.has(path) and not ctx.on(path) and stage(ctx) in (1, 2) and device(ctx, OPTIMIZER) == "none":
        yield ctx.at(
            path,
            "`ignore_unused_parameters` is `false`, but DeepSpeed looks for unused parameters only where the"
            " optimizer is offloaded",
            help="remove it",
            fix=Fix("remove `ignore_unused_parameters`", (Remove(ctx.place(path)),)),
        )


@rule(
    "DSC446",
    effect="wasteful",
    since="0.4.4",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer._round_robin_reorder",
)
def round_robin_without_offload(ctx: Context) -> Iterator[Finding]:
    """`round_robin_gradients` is true, and the optimizer is not offloaded.

    The order of gradients is dealt out to let ranks copy them to host memory in parallel. Without offload
    there is nothing to copy, and the checkpoint is laid out in that other order.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "round_robin_gradients": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "round_robin_gradients": true,
        "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.round_robin_gradients"
    if ctx.has(path) and ctx.on(path) and stage(ctx) in (1, 2) and device(ctx, OPTIMIZER) == "none":
        yield ctx.at(
            path,
            "`round_robin_gradients` speeds up the copying of gradients to host memory, and the optimizer is"
            " not offloaded",
            help="remove it, unless a checkpoint was saved with it",
            fix=Fix("remove `round_robin_gradients`", (Remove(ctx.place(path)),)),
        )


@rule(
    "DSC447",
    effect="crashes",
    until="0.11.2",
    source="runtime/utils.py:all_gather_dp_groups",
)
def allgather_bucket_of_zero(ctx: Context) -> Iterator[Finding]:
    """`allgather_bucket_size` is 0 at stage 1 or 2.

    The number of shards to gather is the size of a partition divided by that: the first step ends in a
    ZeroDivisionError. From 0.10 on one rank alone needs no gather.

    Bad, release 0.11.2, world size 2:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 0}}

    Good, release 0.11.2, world size 2:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 500000000}}

    Fixed, release 0.11.2, world size 2:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.allgather_bucket_size"
    if ctx.has(path) and ctx.value(path) == 0 and stage(ctx) in (1, 2):
        if ctx.since("0.10.0") and (ctx.world_size is None or ctx.world_size < 2):
            return
        yield ctx.at(
            path,
            "`allgather_bucket_size` is 0, and DeepSpeed divides by it in the first step",
            help=f"remove it: the default is {ctx.default(path)}",
            fix=Fix("remove `allgather_bucket_size`", (Remove(ctx.place(path)),)),
        )
