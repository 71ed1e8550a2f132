"""Buckets and limits that crash, or that cost memory or speed."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import bf16_optimizer
from dsconfig.rules._fixes import removal
from dsconfig.rules._stage import ZERO, stage, stage_set_here, zero

_STAGES_1_2 = "runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__"
_OVERLAP = f"{ZERO}.overlap_comm"


@rule("DSC436", effect="crashes", since="0.5.2", source=_STAGES_1_2)
def odd_allgather_bucket(ctx: Context) -> Iterator[Finding]:
    """`allgather_bucket_size` is odd at stage 1 or 2.

    Two 16-bit elements make the 4 bytes at which a gather has to begin, so the optimizer takes even sizes
    only: "allgather_bucket_size must be a multiple of nccl_start_alignment_factor".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 499999999}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 500000000}}
    """
    path = f"{ZERO}.allgather_bucket_size"
    if not ctx.has(path):
        return
    size = ctx.value(path)
    if not isinstance(size, int | float) or size % 2 == 0 or stage(ctx) not in (1, 2):
        return
    if not bf16_optimizer(ctx):
        even = int(size) + 1
        yield ctx.at(
            path,
            f"`allgather_bucket_size` is {size}, an odd number, and stages 1 and 2 take even ones only",
            help=f"write {quoted(even)}",
            related=stage_set_here(ctx),
            fix=Fix(f"replace by {quoted(even)}", (Set(ctx.place(path), even),)),
        )


_LARGE, _MOST = 1_000_000_000, 2**63  # no tensor has more elements


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
    if not isinstance(size, int | float) or not _LARGE <= size < _MOST or not ctx.on(_OVERLAP):
        return
    if stage(ctx) in (1, 2) and ctx.on(f"{ZERO}.contiguous_gradients"):
        yield ctx.at(
            path,
            f"`reduce_bucket_size` is {size:,.0f}, and `overlap_comm` keeps two: 2 × {size:,.0f} × 2 bytes ="
            f" {4 * size / 1e9:,.1f} GB of 16-bit gradients on each GPU",
            help="give at most 500000000, the default",
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
        if stage(ctx) in _NEAR_ZERO[name][1] and not bf16_optimizer(ctx):
            words = [f"`{ctx.place(path)[-1]}` is {quoted(ctx.value(path))}" for path in paths]
            yield ctx.at(
                paths[0],
                f"{' and '.join(words)}: {cost}",
                help=f"remove {'it' if len(paths) == 1 else 'them'}, unless memory is scarcer than time: the"
                f" default is {ctx.default(paths[0])}",
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
            fix=removal(ctx.place(path)),
        )
