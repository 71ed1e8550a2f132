"""Ranks that share a sequence or a layer: how DeepSpeed counts them in the batch."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core import batch_triplet
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN, nearest_multiples
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._numbers import division
from dsconfig.rules._parallel_sizes import size_of
from dsconfig.rules.batch.world_sizes import divisors

_WORLD = "runtime/config.py:DeepSpeedConfig.__init__"
_SEQUENCE, _DATA = "sequence_parallel_size", "data_parallel_size"
_AUTOTP = "tensor_parallel.autotp_size"


@rule("DSC207", effect="rejected", since="0.17.0", source="runtime/config.py:DeepSpeedConfig.__init__")
def sequence_parallel_size_not_a_divisor(ctx: Context) -> Iterator[Finding]:
    """`sequence_parallel_size` is nothing that the world size can be divided by, or makes the batch negative.

    Bad, as a dict, world size 8:

        {"train_batch_size": 8, "sequence_parallel_size": 0}

    Good, as a dict, world size 8:

        {"train_batch_size": 8, "sequence_parallel_size": 2}
    """
    size = ctx.written("sequence_parallel_size")
    if size is MISSING or ctx.from_file:
        return
    ctx.depends_on("0.19.3")
    try:
        fails = not batch_triplet.world_size(1, size, ctx.release, from_file=False) > 0
    except (TypeError, ZeroDivisionError):
        fails = True
    if fails:
        yield ctx.at(
            "sequence_parallel_size",
            f"`sequence_parallel_size` is {quoted(size)}, and DeepSpeed divides the world size by it",
            help="give a positive integer that divides the number of GPUs",
        )


def _divides_ranks(ctx: Context) -> int | None:
    """`sequence_parallel_size` where DeepSpeed divides the ranks by it: from 0.17.0 on, in a dict, alone."""
    if not ctx.has(_SEQUENCE) or ctx.has(_DATA) or ctx.from_file or ctx.before("0.17.0"):
        return None
    return size_of(ctx, _SEQUENCE)


@rule("DSC208", effect="altered", since="0.17.0", source=_WORLD)
def sequence_parallel_size_leaves_fraction(ctx: Context) -> Iterator[Finding]:
    """`sequence_parallel_size` does not divide the number of ranks.

    DeepSpeed divides all the same, and goes on with a fraction of a data-parallel rank: on one GPU, a size of
    2 gives half a rank, and a micro batch of twice the total.

    Bad, as a dict, world size 1:

        {"train_batch_size": 4, "sequence_parallel_size": 2}

    Good, as a dict, world size 2:

        {"train_micro_batch_size_per_gpu": 4, "sequence_parallel_size": 2}
    """
    size = _divides_ranks(ctx)
    ranks = ctx.world_size
    if size is not None and ranks is not None and ranks % size:
        fits = [str(number) for number in divisors(ranks)][:8]
        yield ctx.at(
            _SEQUENCE,
            f"`{_SEQUENCE}` {size} does not divide {ranks} ranks: DeepSpeed goes on with "
            f"{ranks} / {size} = {ranks / size:g} data-parallel ranks",
            help=f"use a divisor of {ranks} ({', '.join(fits)}), or a multiple of {size} ranks",
        )


@rule("DSC209", effect="altered", since="0.17.0", source=_WORLD)
def micro_batch_derived_as_float(ctx: Context) -> Iterator[Finding]:
    """The micro batch is derived beside `sequence_parallel_size`, and then is not an integer.

    The ranks are divided by a true division, so that a micro batch derived from `train_batch_size` is 4.0,
    not 4. PyTorch's data loader refuses it as a batch size, and `range` does too.

    Bad, as a dict:

        {"train_batch_size": 8, "sequence_parallel_size": 2}

    Good, as a dict:

        {"train_micro_batch_size_per_gpu": 4, "sequence_parallel_size": 2}
    """
    size = _divides_ranks(ctx)
    if size is None or not ctx.has(TRAIN) or (ctx.has(MICRO) and ctx.value(MICRO) is not None):
        return
    train, ranks = size_of(ctx, TRAIN), ctx.world_size
    if train is None:
        return
    shown = (
        f"{train} // ({ranks} / {size}) = {train // (ranks / size)}" if ranks else "4.0, say, instead of 4"
    )
    yield ctx.at(
        TRAIN,
        f"`{MICRO}` is derived by a true division beside `{_SEQUENCE}`, and is not an integer: {shown}",
        help=f"set `{MICRO}`, and remove `{TRAIN}`, which is then derived",
        related=[("this divides the ranks", _SEQUENCE)],
    )


@rule("DSC212", effect="altered", since="0.16.4", source=_WORLD)
def batch_counts_tensor_parallel_ranks(ctx: Context) -> Iterator[Finding]:
    """`train_batch_size` is checked against all ranks, though AutoTP makes groups of them share samples.

    The config is read before the groups exist. With `autotp_size` 4 a step takes a quarter of
    `train_batch_size` samples, and counters and throughput are four times too high. The micro batch is what
    it says.

    Bad:

        {"train_batch_size": 64, "tensor_parallel": {"autotp_size": 4}}

    Good:

        {"train_micro_batch_size_per_gpu": 4, "tensor_parallel": {"autotp_size": 4}}
    """
    if not isinstance(ctx.data.get("tensor_parallel"), dict):
        return
    size, train = size_of(ctx, _AUTOTP), size_of(ctx, TRAIN)
    if size is None or size < 2 or train is None:
        return
    yield ctx.at(
        TRAIN,
        f"`{TRAIN}` {train} counts each sample {size} times, once for each rank of a tensor-parallel group: "
        f"a step takes {train} / {size} = {train / size:g} different samples",
        help=f"remove it, and add `{MICRO}` and `{STEPS}`: the batch is their product × ranks / {size}",
        related=[("the groups are made here", _AUTOTP)],
    )


@rule(
    "DSC213",
    effect="crashes",
    source="the program's own check: consumers/launchers/parallelism.py cites each",
)
def ranks_not_divided_by_parallelism(ctx: Context) -> Iterator[Finding]:
    """The launch file's tensor, pipeline or sequence parallelism does not divide the number of ranks.

    Each sample is worked on by a group of ranks: tensor × pipeline × sequence. Megatron, GPT-NeoX and
    DeepSpeed's `PipelineModule` stop where the ranks leave a group incomplete.

    Bad:

        {"num-layers": 12, "pipe-parallel-size": 3, "global_num_gpus": 8, "train_micro_batch_size_per_gpu": 4}

    Good:

        {"num-layers": 12, "pipe-parallel-size": 4, "global_num_gpus": 8, "train_micro_batch_size_per_gpu": 4}
    """
    parallelism, ranks = ctx.known.parallelism, ctx.world_size
    if ranks is None or parallelism.unknown is not None or not parallelism.dividing:
        return
    divisor = parallelism.divisor(ranks)
    if ranks % divisor:
        near = " or ".join(map(str, nearest_multiples(ranks, divisor)))
        yield ctx.at(
            "",
            f"world size {ranks} is not divisible by {divisor} ({parallelism} parallel): "
            f"{division(ranks, divisor)} ({parallelism.sources})",
            help=f"run on {near} ranks, or choose sizes whose product divides {ranks}",
            part="key",
        )
