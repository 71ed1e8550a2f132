"""MiCS: a whole copy of the model in each group of ranks."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._numbers import division
from dsconfig.rules._stage import ZERO, stage
from dsconfig.rules.batch.world_sizes import divisors

_SHARD = f"{ZERO}.mics_shard_size"


@rule(
    "DSC499",
    effect="crashes",
    since="0.9.2",
    until="0.19.6",
    source="runtime/zero/mics_utils.py:_generate_mics_config",
)
def mics_shard_size_not_a_divisor(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization.mics_shard_size` does not divide the number of ranks.

    MiCS keeps a whole copy of the model in each group of so many ranks, and the groups must tile all ranks.
    The engine says "dp group size is not dividable by dp_shard_size" and stops.

    Bad, world size 8:

        {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3,
        "mics_shard_size": 3}}

    Good, world size 8:

        {"train_batch_size": 24, "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 3,
        "mics_shard_size": 4}}
    """
    ranks = ctx.world_size
    if ranks is None or not ctx.has(_SHARD) or stage(ctx) != 3:
        return
    size = ctx.value(_SHARD)
    if isinstance(size, int) and size > 0 and ranks % size:
        yield ctx.at(
            _SHARD,
            f"`mics_shard_size` {size} does not divide {ranks} ranks: {division(ranks, size)}",
            help=f"use a divisor of {ranks}: {', '.join(str(number) for number in divisors(ranks)[:8])}",
        )
