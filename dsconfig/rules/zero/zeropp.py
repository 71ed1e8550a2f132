"""ZeRO++: secondary partitions and quantised gradients."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._model_facts import model, weights
from dsconfig.rules._numbers import division
from dsconfig.rules._stage import ZERO, stage
from dsconfig.rules.batch.world_sizes import divisors
from dsconfig.rules.zero._ranks import HPZ, ranks_of_known_model, secondary_partition

_GROUPS = "utils/groups.py:_create_zero_param_parallel_group"


@rule("DSC448", effect="crashes", since="0.10.0", source=_GROUPS)
def secondary_partition_not_a_divisor(ctx: Context) -> Iterator[Finding]:
    """`zero_hpz_partition_size` does not divide the number of ranks.

    The ranks are cut into groups of that size, and none may be left over: "12 is not divisible by 8".

    Bad, world size 12:

        {"train_batch_size": 12, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}

    Good, world size 16:

        {"train_batch_size": 16, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8}}
    """
    if not ctx.has(HPZ) or ctx.world_size is None:
        return
    size, ranks = secondary_partition(ctx), ctx.world_size
    if 1 < size < ranks and ranks % size:
        fits = divisors(ranks)[1:]
        shown = one_of(fits) if len(fits) <= _MOST else ", ".join(map(quoted, fits[:_MOST])) + ", …"
        yield ctx.at(
            HPZ,
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
    if not ctx.has(HPZ):
        return
    size = secondary_partition(ctx)
    if size == 0:
        yield ctx.at(
            HPZ,
            "`zero_hpz_partition_size` is 0 and counts as 1: there is no secondary partition",
            help="write the number of GPUs in a node, or remove the key",
            fix=removal(ctx.place(HPZ), safe=True),
        )
    elif ctx.world_size is not None and size > max(ctx.world_size, 1):
        yield ctx.at(
            HPZ,
            f"`zero_hpz_partition_size` is {size} and counts as {ctx.world_size}, the number of ranks: the"
            " secondary partition is the first one over again",
            help="write the number of GPUs in a node, or remove the key",
        )


@rule(
    "DSC416",
    effect="crashes",
    since="0.13.5",
    until="0.19.4",
    source="runtime/zero/partition_parameters.py:Init._partition_param_sec",
)
def parameter_shorter_than_secondary_parts(ctx: Context) -> Iterator[Finding]:
    """Some rank's part of a secondary partition would start past the end of a parameter.

    Parameters are padded to a multiple of all ranks, and a node shares that: what is shorter than the padding
    leaves the last ranks nothing, and up to 0.19.4 `torch.narrow` raises there. Norms of heads have 64 or 128
    elements, and ranks are many. Reported where model and world size are known.

    Bad, world size 256:

        {"train_batch_size": 256, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8},
        "$dsconfig": {"model": "qwen3-8b"}}

    Good, world size 128:

        {"train_batch_size": 128, "zero_optimization": {"stage": 3, "zero_hpz_partition_size": 8},
        "$dsconfig": {"model": "qwen3-8b"}}
    """
    ranks, node = ranks_of_known_model(ctx), secondary_partition(ctx)
    if ranks is None or not 1 < node <= ranks or ranks % node:
        return
    from dsconfig.memory.quantized_gather import behind

    found = behind(((weight.name, weight.elements) for weight in weights(ctx)), ranks, node)
    if found is not None:
        yield ctx.at(
            HPZ,
            f"`{found.name}` in {model(ctx).shown} has {found.elements:,} elements, and the part of the last"
            f" of {node} ranks would start at {found.start:,}: DeepSpeed stops",
            help="remove it, change the number of GPUs, or upgrade DeepSpeed to 0.19.5 or later",
            fix=removal(ctx.place(HPZ)),
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
