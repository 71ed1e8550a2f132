"""Ranks that share a sequence or a layer: how DeepSpeed counts them in the batch, and when nobody reads the
keys.

Sources: __init__.py, initialize; runtime/config.py, DeepSpeedConfig.__init__.
"""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.batch.triplet import MICRO, STEPS, TRAIN
from dsconfig.batch.world_sizes import divisors
from dsconfig.diagnostic import Fix, Remove
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.communication.formats import device_mesh

_WORLD = "runtime/config.py:DeepSpeedConfig.__init__"
_MESH = "__init__.py:initialize"
_SEQUENCE, _DATA = "sequence_parallel_size", "data_parallel_size"
_AUTOTP = "tensor_parallel.autotp_size"


def _size(ctx: Context, path: str) -> int | None:
    """A degree of parallelism that is written as a positive integer."""
    value = ctx.value(path) if ctx.has(path) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _divides_ranks(ctx: Context) -> int | None:
    """`sequence_parallel_size` where DeepSpeed divides the ranks by it: from 0.17.0 on, in a dict, alone."""
    if not ctx.has(_SEQUENCE) or ctx.has(_DATA) or ctx.from_file or ctx.before("0.17.0"):
        return None
    return _size(ctx, _SEQUENCE)


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
    """The micro batch is derived beside `sequence_parallel_size`, and is no integer then.

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
    train, ranks = ctx.value(TRAIN), ctx.world_size
    if not isinstance(train, int) or isinstance(train, bool):
        return
    shown = (
        f"{train} // ({ranks} / {size}) = {train // (ranks / size)}" if ranks else "4.0, say, instead of 4"
    )
    yield ctx.at(
        TRAIN,
        f"`{MICRO}` is derived by a true division beside `{_SEQUENCE}`, and no integer: {shown}",
        help=f"give `{MICRO}`, and let `{TRAIN}` be derived",
        related=[("this divides the ranks", _SEQUENCE)],
    )


@rule("DSC210", effect="ignored", since="0.15.0", source=_MESH)
def parallel_size_not_read(ctx: Context) -> Iterator[Finding]:
    """`data_parallel_size` or `sequence_parallel_size` stands where nobody reads it.

    The two together make DeepSpeed build a device mesh. `data_parallel_size` alone does nothing;
    `sequence_parallel_size` alone does nothing before 0.17.0, and later divides the ranks, but only in a
    dict. Of a file DeepSpeed looked for both keys in the path instead of the content up to 0.18.5, and does
    so to this day where a script hands the path to `DeepSpeedConfig` or `zero.Init`.

    Bad:

        {"train_batch_size": 8, "data_parallel_size": 4}

    Good, as a dict:

        {"train_batch_size": 8, "data_parallel_size": 4, "sequence_parallel_size": 2}
    """
    if device_mesh(ctx) or not (ctx.has(_DATA) or ctx.has(_SEQUENCE)):
        return
    if not ctx.has(_DATA) and ctx.since("0.18.6" if ctx.from_file else "0.17.0"):
        return
    for key, other in ((_DATA, _SEQUENCE), (_SEQUENCE, _DATA)):
        if not ctx.has(key):
            continue
        alone = not ctx.has(other) and (key == _DATA or ctx.before("0.17.0"))
        yield ctx.at(
            key,
            f"`{key}` has no effect "
            + (
                f"without `{other}`"
                if alone
                else "in a file: DeepSpeed looks for it in the path, not the content"
            ),
            help=f"add `{other}`, or remove `{key}`" if alone else "load the file and hand over the dict",
            part="key",
            fix=Fix(f"remove `{key}`", (Remove((key,)),), safe=alone),
        )


@rule("DSC211", effect="crashes", since="0.15.0", source=_MESH)
def device_mesh_larger_than_world(ctx: Context) -> Iterator[Finding]:
    """`data_parallel_size` × `sequence_parallel_size` is more than there are ranks.

    DeepSpeed builds a device mesh of the two; PyTorch says "Mesh should not be bigger than default world
    size" and stops.

    Bad, as a dict, world size 2:

        {"train_batch_size": 8, "data_parallel_size": 2, "sequence_parallel_size": 2}

    Good, as a dict, world size 4:

        {"train_batch_size": 8, "data_parallel_size": 2, "sequence_parallel_size": 2}
    """
    if ctx.world_size is None or not device_mesh(ctx):
        return
    data, sequence = _size(ctx, _DATA), _size(ctx, _SEQUENCE)
    if data is not None and sequence is not None and data * sequence > ctx.world_size:
        yield ctx.at(
            _DATA,
            f"`{_DATA}` × `{_SEQUENCE}` = {data} × {sequence} = {data * sequence}, but there "
            f"{'is 1 rank' if ctx.world_size == 1 else f'are {ctx.world_size} ranks'}",
            help=f"run on {data * sequence} ranks, or choose two sizes whose product is {ctx.world_size}",
            related=[("the other size is set here", _SEQUENCE)],
        )


@rule("DSC212", effect="altered", since="0.16.4", source=_WORLD)
def batch_counts_tensor_parallel_ranks(ctx: Context) -> Iterator[Finding]:
    """`train_batch_size` is held against all ranks, though AutoTP makes groups of them share their samples.

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
    size, train = _size(ctx, _AUTOTP), _size(ctx, TRAIN)
    if size is None or size < 2 or train is None:
        return
    yield ctx.at(
        TRAIN,
        f"`{TRAIN}` {train} counts each sample {size} times, once for each rank of a tensor-parallel group: "
        f"a step takes {train} / {size} = {train / size:g} different samples",
        help=f"give `{MICRO}` and `{STEPS}` instead: the batch is their product × ranks / {size}",
        related=[("the groups are made here", _AUTOTP)],
    )
