"""What earlier releases had, in their own time: ZeRO as a boolean, 1-bit optimizers, MiCS, a lost setting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.batch.world_sizes import divisors
from dsconfig.diagnostic import Fix, Operation, Remove, Set
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._precision import model_format
from dsconfig.rules._zero import ZERO, said_here, stage
from dsconfig.words import quoted

_BASIC = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_PARTITIONS = f"{ZERO}.allgather_partitions"
_SHARD = f"{ZERO}.mics_shard_size"
_TYPE = "optimizer.type"


@rule("DSC140", effect="deprecated", source="runtime/zero/config.py:read_zero_config_deprecated")
def zero_optimization_as_boolean(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` is a boolean, as in the first release.

    DeepSpeed still reads it, with a warning: true is stage 1, false stage 0, and a top-level `allgather_size`
    is the `allgather_bucket_size` of the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": true}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}
    """
    switch = ctx.data.get(ZERO)
    if not isinstance(switch, bool):
        return
    section: dict[str, Any] = {"stage": int(switch)}
    operations: tuple[Operation, ...] = ()
    size = ctx.written("allgather_size")
    if switch and size is not MISSING:
        section["allgather_bucket_size"] = size
        operations = (Remove(("allgather_size",)),)
    yield ctx.at(
        ZERO,
        f"`{ZERO}` is {quoted(switch)}, the form of the first release: it means stage {int(switch)}",
        help=f"write {quoted(section)}",
        fix=Fix(f"write {quoted(section)}", (Set((ZERO,), section), *operations), safe=True),
    )


@rule("DSC141", effect="ignored", since="0.5.9", source="runtime/zero/config.py:DeepSpeedZeroConfig")
def allgather_partitions_off(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization.allgather_partitions` is false, which no optimizer has looked at since 0.5.9.

    It once replaced the all-gather of updated parameters by broadcasts. true, as most examples have it, says
    what happens anyhow and is not reported.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_partitions": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    if ctx.has(_PARTITIONS) and ctx.value(_PARTITIONS) is False:
        yield ctx.at(
            _PARTITIONS,
            "`allgather_partitions` `false` has no effect: parameters are gathered by all-gather anyhow",
            help="remove it",
            fix=Fix("remove `allgather_partitions`", (Remove(ctx.place(_PARTITIONS)),)),
        )


_ONE_BIT = {"onebitadam": "0.4.1", "onebitlamb": "0.4.1", "zerooneadam": "0.6.1"}
"""The compressed optimizers, and since when the engine refuses them beside ZeRO."""


def _one_bit(ctx: Context) -> str | None:
    name = ctx.written(_TYPE)
    return name.lower() if isinstance(name, str) and name.lower() in _ONE_BIT else None


@rule("DSC598", effect="crashes", since="0.4.1", until="0.19.6", source=_BASIC)
def one_bit_optimizer_with_zero(ctx: Context) -> Iterator[Finding]:
    """A 1-bit or 0/1 optimizer is used with ZeRO.

    They compress and exchange gradients themselves, which ZeRO does not allow at any stage. The engine says
    "is not compatible with ZeRO" and stops.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true}}
    """
    name = _one_bit(ctx)
    if name is not None and ctx.since(_ONE_BIT[name]) and stage(ctx) > 0:
        yield ctx.at(
            _TYPE,
            f"{quoted(ctx.written(_TYPE))} does not work with ZeRO, and the stage is {stage(ctx):g}",
            help="use stage 0, or another optimizer: 0.19.7 has no 1-bit ones any more",
            related=said_here(ctx),
        )


@rule("DSC599", effect="wasteful", since="0.3.14", until="0.19.6", source=_BASIC)
def one_bit_optimizer_without_fp16(ctx: Context) -> Iterator[Finding]:
    """A 1-bit or 0/1 optimizer is used without `fp16`.

    DeepSpeed warns that they are known to converge in fp16 only.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true}}
    """
    if _one_bit(ctx) and model_format(ctx) != "fp16":
        yield ctx.at(
            _TYPE,
            f"{quoted(ctx.written(_TYPE))} is known to converge in fp16 only, and the model trains in "
            f"{model_format(ctx)}",
            help="enable `fp16`, or use another optimizer",
        )


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
            f"`mics_shard_size` {size} does not divide {ranks} ranks: {ranks} = {ranks // size} × {size} + "
            f"{ranks % size}",
            help=f"use a divisor of {ranks}: {', '.join(str(number) for number in divisors(ranks)[:8])}",
        )
