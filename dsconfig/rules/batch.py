"""Batch sizes: missing, wrong or contradictory keys, and ranks that share a sequence or a layer."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core import batch_triplet
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN, Triplet, nearest_multiples
from dsconfig.core.diagnostic import Fix, Remove, Set
from dsconfig.core.json_types import Json
from dsconfig.core.wording import described, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._batch_triplet import divisors, failed, plain, working_sizes
from dsconfig.rules._effective_values import device_mesh, size_of
from dsconfig.rules._fixes import removal
from dsconfig.rules._numbers import division, spelled

# Batch keys that are missing, or hold what DeepSpeed cannot calculate with.

_DERIVE = "runtime/config.py:DeepSpeedConfig._set_batch_related_parameters"
_ASSERT = "runtime/config.py:DeepSpeedConfig._batch_assertion"


@rule("DSC201", effect="rejected", source=_DERIVE)
def batch_size_not_given(ctx: Context) -> Iterator[Finding]:
    """Neither `train_batch_size` nor `train_micro_batch_size_per_gpu` is given.

    One of the two is needed; `gradient_accumulation_steps` alone says nothing about the batch. A misspelt key
    counts as not given, because unknown keys at the top level are dropped.

    Bad:

        {"gradient_accumulation_steps": 4}

    Good:

        {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}
    """
    if failed(ctx, "none-given"):
        yield ctx.at(
            "",
            f"neither `{TRAIN}` nor `{MICRO}` is given, so DeepSpeed cannot derive the batch",
            help=f"set `{MICRO}` (and `{STEPS}` if you accumulate); the total follows from the world size",
            part="key",
        )


@rule("DSC204", effect="rejected", source=_ASSERT)
def batch_size_not_positive(ctx: Context) -> Iterator[Finding]:
    """A batch key is zero or negative.

    Bad:

        {"train_batch_size": -8}

    Good:

        {"train_batch_size": 8}
    """
    found = failed(ctx, "not-positive")
    if found is None or found.too_small:
        return
    for key, value in zip(batch_triplet.KEYS, found.values, strict=True):
        if value is not None and not value > 0:
            message = f"`{key}` is {quoted(value)}, but must be greater than 0"
            yield ctx.at(key, message, help="give a positive integer")
            return


@rule("DSC205", effect="rejected", source=_DERIVE)
def batch_size_divided_by_zero(ctx: Context) -> Iterator[Finding]:
    """A batch key is zero, and DeepSpeed divides by it before it checks.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 0}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 1}
    """
    found = failed(ctx, "zero-divisor")
    if found:
        key = found.why.key or STEPS
        value = dict(zip(batch_triplet.KEYS, found.values, strict=True))[key]
        yield ctx.at(
            key,
            f"`{key}` is {quoted(value)}, and DeepSpeed divides `{TRAIN}` by it",
            help="give an integer of at least 1, or remove the key so that it is derived",
            fix=removal((key,)),
        )


@rule("DSC206", effect="rejected", source=_DERIVE)
def batch_size_not_a_number(ctx: Context) -> Iterator[Finding]:
    """A batch key is not a number.

    DeepSpeed calculates with the three keys as they are written: a number in quotes, a list, or an "auto"
    that nobody fills ends in a TypeError.

    Bad:

        {"train_batch_size": "8"}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    found = failed(ctx, "arithmetic")
    if found is None:
        return
    for key, value in zip(batch_triplet.KEYS, found.values, strict=True):
        if value is None or (isinstance(value, int | float) and found.why.key is not None):
            continue
        number = spelled(value)
        fix = Fix(f"replace by {number}", (Set((key,), number),), safe=True)
        yield ctx.at(
            key,
            f"`{key}` is {described(value)} and DeepSpeed calculates with it",
            help=_number_help(value, number),
            fix=fix if number is not None else None,
        )


def _number_help(value: Json, number: int | None) -> str:
    if number is not None:
        return f"write {number}, without quotes"
    if value == "auto":
        return (
            "give an integer; only Transformers and Accelerate fill `auto` here (`--consumer transformers`)"
        )
    return "give an integer"


# Batch keys whose product is not the total, or whose total cannot be shared out.


@rule("DSC202", effect="rejected", source=_ASSERT)
def batch_size_mismatch(ctx: Context) -> Iterator[Finding]:
    """All three batch keys are given, and their product is not the total.

    DeepSpeed asserts `train_batch_size` = `train_micro_batch_size_per_gpu` × `gradient_accumulation_steps` ×
    data-parallel world size, on every rank, after the job has started. Keep two of the three and DeepSpeed
    derives the third.

    Bad, world size 8:

        {"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4}

    Good, world size 8:

        {"train_batch_size": 128, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4}
    """
    found = failed(ctx, "mismatch")
    if found is None or None in found.values:
        return
    (train, micro, steps), world = found.values, found.world
    if world is None:
        yield ctx.at(
            TRAIN,
            f"`{TRAIN}` {train} is not a multiple of {micro} × {steps} = {micro * steps} (micro batch × "
            "accumulation steps), so no world size fits",
            help=_integers_help(train, micro, steps) or _multiples_help(train, micro * steps),
            related=_FACTORS,
        )
        return
    product = plain(micro * steps * world)
    shares = ctx.facts.parallelism
    ranks = f"data-parallel ranks, {ctx.world_size} / ({shares})" if shares.dividing else "world size"
    yield ctx.at(
        TRAIN,
        f"`{TRAIN}` {train} ≠ {micro} × {steps} × {plain(world)} = {product} (micro batch × accumulation "
        f"steps × {ranks})",
        help=_mismatch_help(found.why.triplet, world, shares.divisor()),
        related=_FACTORS,
        fix=Fix(f"remove `{TRAIN}`, so that it is derived: {product}", (Remove((TRAIN,)),)),
    )


_FACTORS = tuple((f"`{key}` is set here", key) for key in (MICRO, STEPS))


def _mismatch_help(found: Triplet, world: float, divisor: int) -> str:
    train, micro, steps = found.values()
    options = [f"remove `{TRAIN}` to train with {plain(micro * steps * world)}"]
    if _whole(train, micro * world):
        options.append(f"set `{STEPS}` to {plain(train // (micro * world))}")
    if _whole(train, steps * world):
        options.append(f"set `{MICRO}` to {plain(train // (steps * world))}")
    if _whole(train, micro * steps):
        options.append(f"use {plain(train // (micro * steps) * divisor)} GPUs")
    return ", or ".join(options)


def _whole(number: Json, divisor: Json) -> bool:
    try:
        return bool(divisor) and number % divisor == 0 and number >= divisor
    except OverflowError:  # an integer beyond all floats, beside a float
        return False


def _multiples_help(train: Json, step: Json) -> str:
    near = nearest_multiples(train, step)
    return f"set `{TRAIN}` to a multiple of {plain(step)}" + (
        f", for example {' or '.join(plain(number) for number in near)}" if near else ""
    )


@rule("DSC203", effect="rejected", source=_DERIVE)
def batch_size_not_divisible(ctx: Context) -> Iterator[Finding]:
    """`train_batch_size` cannot be shared out evenly.

    DeepSpeed derives what is missing by floor division and then checks the product, so any remainder is
    fatal: a batch of 256 on 7 GPUs, or 30 samples in micro batches of 4.

    Bad, world size 8:

        {"train_batch_size": 100, "train_micro_batch_size_per_gpu": 4}

    Good, world size 8:

        {"train_batch_size": 96, "train_micro_batch_size_per_gpu": 4}
    """
    found = failed(ctx, "mismatch", "not-positive")
    if found is None or (found.why.failure == "not-positive" and not found.too_small):
        return
    (train, micro, steps), world = found.values, found.world
    if train is None or (micro is not None and steps is not None):
        return
    given, key = (steps, STEPS) if micro is None else (micro, MICRO)
    step = (1 if given is None else given) * (1 if world is None else world)
    whole = f": {plain(train // step)} × {plain(step)} = {plain(train // step * step)}"
    shares = ctx.facts.parallelism
    by = _product(key, given, world, "data-parallel ranks" if shares.dividing else "world size")
    yield ctx.at(
        TRAIN,
        f"`{TRAIN}` {train} is not divisible by {by}{whole if train > step else ''}",
        help=_integers_help(train, micro, steps)
        or _divisible_help(train, step, given, world, shares.divisor()),
        related=[(f"`{key}` is set here", key)] if given is not None else [],
    )


def _product(key: str, given: Json, world: float | None, ranks: str) -> str:
    """What the total is to be a multiple of, factor by factor."""
    parts = [] if given is None else [f"{plain(given)} ({key.replace('train_', '').replace('_', ' ')})"]
    if world is not None:
        parts.append(f"{plain(world)} ({ranks})")
    both = given is not None and world is not None
    return " × ".join(parts) + (f" = {plain(given * world)}" if both else "")


_EXACT = 2**53
"""Beyond it floats leave integers out, and a product of floats is another number than that of integers."""


def _integers_help(train: Json, micro: Json, steps: Json) -> str:
    """What to do first where a batch is shared out in fractions: DeepSpeed rounds them, and no total fits."""
    broken = [
        key
        for key, value in ((MICRO, micro), (STEPS, steps))
        if isinstance(value, float) and (train > _EXACT or not value.is_integer())
    ]
    return " and ".join(f"set `{key}` to an integer of at least 1" for key in broken)


def _divisible_help(train: Json, step: Json, given: Json, world: float | None, divisor: int) -> str:
    text = _multiples_help(train, step)
    if world is None:
        return text
    sizes = working_sizes(train, given, None)
    if not sizes:
        return text
    shown = ", ".join(str(size * divisor) for size in sizes[:12])
    return f"{text}; with {train} it works on {shown}{' …' if len(sizes) > 12 else ''} GPUs"


# Ranks that share a sequence or a layer: how DeepSpeed counts them in the batch.

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
    size = ctx.raw("sequence_parallel_size")
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
    parallelism, ranks = ctx.facts.parallelism, ctx.world_size
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


# `data_parallel_size` × `sequence_parallel_size`, of which DeepSpeed builds a device mesh.

_MESH = "__init__.py:initialize"


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
    for key, other in (
        (_DATA, _SEQUENCE),
        (_SEQUENCE, _DATA),
    ):
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
            fix=removal((key,), safe=alone),
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
    data, sequence = size_of(ctx, _DATA), size_of(ctx, _SEQUENCE)
    if data is not None and sequence is not None and data * sequence > ctx.world_size:
        yield ctx.at(
            _DATA,
            f"`{_DATA}` × `{_SEQUENCE}` = {data} × {sequence} = {data * sequence}, but there "
            f"{'is 1 rank' if ctx.world_size == 1 else f'are {ctx.world_size} ranks'}",
            help=f"run on {data * sequence} ranks, or choose two sizes whose product is {ctx.world_size}",
            related=[("the other size is set here", _SEQUENCE)],
        )
