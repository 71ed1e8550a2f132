"""ZeRO++: secondary partitions and quantised gradients."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.batch.world_sizes import divisors
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._numbers import division
from dsconfig.rules._stage import ZERO, stage
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
        fits = divisors(ranks)[1:]
        shown = one_of(fits) if len(fits) <= _MOST else ", ".join(map(quoted, fits[:_MOST])) + ", …"
        yield ctx.at(
            _HPZ,
            f"`zero_hpz_partition_size` is {size}, which does not divide the {ranks} ranks: "
            f"{division(ranks, size)}",
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
            fix=removal(ctx.place(_HPZ), safe=True),
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
            help="remove it, or set `zero_quantized_gradients` to `false`",
            related=[("gradients are quantised here", path)],
            fix=removal(ctx.place(scatter)),
        )
