"""Batch sizes: missing, invalid or inconsistent keys, and sequence and tensor parallelism."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core import batch_triplet
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN, BatchTriplet, nearest_multiples
from dsconfig.core.diagnostic import Fix, RemoveKey, SetValue
from dsconfig.core.json_types import Json
from dsconfig.core.wording import describe_value, join_phrases, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding
from dsconfig.rules._batch_triplet import derivation_failure, divisors, format_number, working_world_sizes
from dsconfig.rules._effective_values import (
    builds_device_mesh,
    parse_integer,
    positive_size,
)
from dsconfig.rules._fixes import remove_key

# Missing and invalid batch keys.

_DERIVE = "runtime/config.py:DeepSpeedConfig._set_batch_related_parameters"
_ASSERT = "runtime/config.py:DeepSpeedConfig._batch_assertion"


@rule("DSC201", effect="rejected", source=_DERIVE)
def batch_size_not_given(ctx: Context) -> Iterator[Finding]:
    """Neither `train_batch_size` nor `train_micro_batch_size_per_gpu` is set.

    DeepSpeed requires one of the two; `gradient_accumulation_steps` alone does not determine the batch. A key
    with a typo counts as absent, because DeepSpeed ignores unknown keys at the top level.

    Bad:

        {"gradient_accumulation_steps": 4}

    Good:

        {"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4}
    """
    if derivation_failure(ctx, "none-given"):
        yield ctx.at(
            "",
            f"neither `{TRAIN}` nor `{MICRO}` is set, so DeepSpeed cannot derive the batch size",
            help=f"set `{MICRO}` (and `{STEPS}` if you accumulate gradients); DeepSpeed computes `{TRAIN}`",
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
    failure = derivation_failure(ctx, "not-positive")
    if failure is None or failure.is_total_too_small:
        return
    for key, value in zip(batch_triplet.KEYS, failure.values, strict=True):
        if value is not None and not value > 0:
            message = f"`{key}` is {quote_value(value)}, but must be positive"
            yield ctx.at(key, message, help="set it to a positive integer")
            return


@rule("DSC205", effect="rejected", source=_DERIVE)
def batch_size_divided_by_zero(ctx: Context) -> Iterator[Finding]:
    """A batch key is zero, and DeepSpeed divides by it before it validates the batch.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 0}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 1}
    """
    failure = derivation_failure(ctx, "zero-divisor")
    if failure:
        key = failure.cause.key or STEPS
        value = dict(zip(batch_triplet.KEYS, failure.values, strict=True))[key]
        yield ctx.at(
            key,
            f"`{key}` is {quote_value(value)}, but DeepSpeed divides `{TRAIN}` by it",
            help=f"set `{key}` to a positive integer, or remove it so that DeepSpeed derives it",
            fix=remove_key((key,)),
        )


@rule("DSC206", effect="rejected", source=_DERIVE)
def batch_size_not_a_number(ctx: Context) -> Iterator[Finding]:
    """A batch key is not a number.

    DeepSpeed computes with the three values as written: a quoted number, a list, or an unresolved "auto"
    raises a TypeError.

    Bad:

        {"train_batch_size": "8"}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    failure = derivation_failure(ctx, "arithmetic")
    if failure is None:
        return
    for key, value in zip(batch_triplet.KEYS, failure.values, strict=True):
        if value is None or (isinstance(value, int | float) and failure.cause.key is not None):
            continue
        number = parse_integer(value)
        fix = Fix(f"replace with {number}", (SetValue((key,), number),), safe=True)
        yield ctx.at(
            key,
            f"`{key}` is {describe_value(value)} but DeepSpeed expects a number",
            help=_help_for_number(value, number),
            fix=fix if number is not None else None,
        )


def _help_for_number(value: Json, number: int | None) -> str:
    if number is not None:
        return f"write {number}, without quotes"
    if value == "auto":
        return (
            "set it to an integer, or pass `--consumer transformers` or `--consumer accelerate` if one of them loads"
            ' the config: only they resolve "auto"'
        )
    return "set it to an integer"


# Inconsistent batch keys, and totals that are not divisible.


@rule("DSC202", effect="rejected", source=_ASSERT)
def batch_size_mismatch(ctx: Context) -> Iterator[Finding]:
    """All three batch keys are set, but the total does not equal their product.

    DeepSpeed asserts `train_batch_size` = `train_micro_batch_size_per_gpu` × `gradient_accumulation_steps` ×
    data-parallel world size on every rank, after the job has started. Set two of the three, and DeepSpeed
    derives the third.

    Bad, world size 8:

        {"train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4}

    Good, world size 8:

        {"train_batch_size": 128, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 4}
    """
    failure = derivation_failure(ctx, "mismatch")
    if failure is None or None in failure.values:
        return
    (train, micro, steps), world_size = failure.values, failure.world_size
    if world_size is None:
        yield ctx.at(
            TRAIN,
            f"`{TRAIN}` {train} is not a multiple of {micro} × {steps} = {micro * steps} (micro batch × "
            "accumulation steps), so it fails at every world size",
            help=_help_for_fractions(train, micro, steps) or _help_with_multiples(train, micro * steps),
            related=_FACTORS,
        )
        return
    product = format_number(micro * steps * world_size)
    parallelism = ctx.facts.parallelism
    ranks = (
        f"data-parallel ranks, {ctx.world_size} / ({parallelism})"
        if parallelism.dividing_degrees
        else "world size"
    )
    yield ctx.at(
        TRAIN,
        f"`{TRAIN}` {train} ≠ {micro} × {steps} × {format_number(world_size)} = {product} (micro batch × accumulation "
        f"steps × {ranks})",
        help=_help_for_mismatch(failure.cause.triplet, world_size, parallelism.ranks_per_sample()),
        related=_FACTORS,
        fix=Fix(f"remove `{TRAIN}`; DeepSpeed derives {product}", (RemoveKey((TRAIN,)),)),
    )


_FACTORS = tuple((f"`{key}` is set here", key) for key in (MICRO, STEPS))


def _help_for_mismatch(triplet: BatchTriplet, world_size: float, divisor: int) -> str:
    train, micro, steps = triplet.values_in_key_order()
    options = [f"remove `{TRAIN}` to train with a batch size of {format_number(micro * steps * world_size)}"]
    if _is_multiple(train, micro * world_size):
        options.append(f"set `{STEPS}` to {format_number(train // (micro * world_size))}")
    if _is_multiple(train, steps * world_size):
        options.append(f"set `{MICRO}` to {format_number(train // (steps * world_size))}")
    if _is_multiple(train, micro * steps):
        options.append(f"use {format_number(train // (micro * steps) * divisor)} GPUs")
    return join_phrases(options, ", or ")


def _is_multiple(number: Json, divisor: Json) -> bool:
    try:
        return bool(divisor) and number % divisor == 0 and number >= divisor
    except OverflowError:  # an integer above the largest float, combined with a float
        return False


def _help_with_multiples(train: Json, step: Json) -> str:
    multiples = nearest_multiples(train, step)
    example = f", for example {' or '.join(map(format_number, multiples))}" if multiples else ""
    return f"set `{TRAIN}` to a multiple of {format_number(step)}{example}"


@rule("DSC203", effect="rejected", source=_DERIVE)
def batch_size_not_divisible(ctx: Context) -> Iterator[Finding]:
    """`train_batch_size` is not divisible by the world size or the other batch keys.

    DeepSpeed derives the missing keys by floor division and then asserts the product, so any remainder is an error,
    such as that of a batch of 256 on 7 GPUs, or of a batch of 30 in micro batches of 4.

    Bad, world size 8:

        {"train_batch_size": 100, "train_micro_batch_size_per_gpu": 4}

    Good, world size 8:

        {"train_batch_size": 96, "train_micro_batch_size_per_gpu": 4}
    """
    failure = derivation_failure(ctx, "mismatch", "not-positive")
    if failure is None or (failure.cause.failure == "not-positive" and not failure.is_total_too_small):
        return
    (train, micro, steps), world_size = failure.values, failure.world_size
    if train is None or (micro is not None and steps is not None):
        return
    value, key = (steps, STEPS) if micro is None else (micro, MICRO)
    step = (1 if value is None else value) * (1 if world_size is None else world_size)
    product = (
        f": {format_number(train // step)} × {format_number(step)} = {format_number(train // step * step)}"
    )
    parallelism = ctx.facts.parallelism
    ranks = "data-parallel ranks" if parallelism.dividing_degrees else "world size"
    divisor = _format_divisor(key, value, world_size, ranks)
    yield ctx.at(
        TRAIN,
        f"`{TRAIN}` {train} is not divisible by {divisor}{product if train > step else ''}",
        help=_help_for_fractions(train, micro, steps)
        or _help_for_divisibility(train, step, value, world_size, parallelism.ranks_per_sample()),
        related=[(f"`{key}` is set here", key)] if value is not None else [],
    )


_FACTOR_NAMES = {MICRO: "micro batch size", STEPS: "gradient accumulation steps"}


def _format_divisor(key: str, value: Json, world_size: float | None, ranks: str) -> str:
    """Format the number by which the total batch size must be divisible, as a product."""
    factors = []
    if value is not None:
        factors.append(f"{format_number(value)} ({_FACTOR_NAMES[key]})")
    if world_size is not None:
        factors.append(f"{format_number(world_size)} ({ranks})")
    both = value is not None and world_size is not None
    return " × ".join(factors) + (f" = {format_number(value * world_size)}" if both else "")


_EXACT = 2**53
"""Bound above which floats skip integers, so a product of floats differs from the product of integers."""


def _help_for_fractions(train: Json, micro: Json, steps: Json) -> str:
    """Suggest integers for batch keys that are fractions, because no total matches a fraction."""
    fractional = [
        key
        for key, value in ((MICRO, micro), (STEPS, steps))
        if isinstance(value, float) and (train > _EXACT or not value.is_integer())
    ]
    return " and ".join(f"set `{key}` to a positive integer" for key in fractional)


def _help_for_divisibility(
    train: Json, step: Json, value: Json, world_size: float | None, divisor: int
) -> str:
    text = _help_with_multiples(train, step)
    if world_size is None:
        return text
    sizes = working_world_sizes(train, value, None)
    if not sizes:
        return text
    counts = [str(size * divisor) for size in sizes[:12]]
    listed = ", ".join(counts) + " …" if len(sizes) > 12 else join_phrases(counts)
    return f"{text}, or run on {listed} {'GPU' if counts == ['1'] else 'GPUs'}"


# Sequence and tensor parallelism in the batch size.

_WORLD = "runtime/config.py:DeepSpeedConfig.__init__"
_SEQUENCE, _DATA = "sequence_parallel_size", "data_parallel_size"
_AUTOTP = "tensor_parallel.autotp_size"


@rule("DSC207", effect="rejected", since="0.17.0", source="runtime/config.py:DeepSpeedConfig.__init__")
def sequence_parallel_size_not_a_divisor(ctx: Context) -> Iterator[Finding]:
    """`sequence_parallel_size` is not a positive number, but DeepSpeed divides the world size by it.

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
        fails = not batch_triplet.data_parallel_world_size(1, size, ctx.release, from_file=False) > 0
    except (TypeError, ZeroDivisionError):
        fails = True
    if fails:
        yield ctx.at(
            "sequence_parallel_size",
            f"`sequence_parallel_size` is {quote_value(size)}, but DeepSpeed divides the world size by it",
            help="set it to a positive integer that divides the number of GPUs",
        )


def _sequence_size_that_divides_ranks(ctx: Context) -> int | None:
    """Return `sequence_parallel_size` if DeepSpeed divides the world size by it, else None.

    DeepSpeed does so for configs that are passed as a dict, from 0.17.0 on.
    """
    if not ctx.has(_SEQUENCE) or ctx.has(_DATA) or ctx.from_file or ctx.before("0.17.0"):
        return None
    return positive_size(ctx, _SEQUENCE)


@rule("DSC208", effect="altered", since="0.17.0", source=_WORLD)
def sequence_parallel_size_leaves_fraction(ctx: Context) -> Iterator[Finding]:
    """`sequence_parallel_size` does not divide the number of ranks.

    DeepSpeed divides anyway, and continues with a fractional data-parallel size. On one GPU, a size of 2 results in
    half a rank, and in a micro batch that is twice the total batch.

    Bad, as a dict, world size 1:

        {"train_batch_size": 4, "sequence_parallel_size": 2}

    Good, as a dict, world size 2:

        {"train_micro_batch_size_per_gpu": 4, "sequence_parallel_size": 2}
    """
    size = _sequence_size_that_divides_ranks(ctx)
    ranks = ctx.world_size
    if size is not None and ranks is not None and ranks % size:
        smaller = (
            f"use a divisor of {ranks} ({', '.join(map(str, divisors(ranks)[:8]))})"
            if ranks > 1
            else "remove it"
        )
        yield ctx.at(
            _SEQUENCE,
            f"`{_SEQUENCE}` {size} does not divide the world size {ranks}: DeepSpeed continues with "
            f"{ranks} / {size} = {ranks / size:g} data-parallel ranks",
            help=f"{smaller}, or run on a multiple of {size} ranks",
        )


@rule("DSC209", effect="altered", since="0.17.0", source=_WORLD)
def micro_batch_derived_as_float(ctx: Context) -> Iterator[Finding]:
    """With `sequence_parallel_size`, DeepSpeed derives the micro batch size as a float.

    DeepSpeed uses true division for the world size, so the micro batch size that it derives from `train_batch_size` is
    4.0, not 4. PyTorch's data loader and Python's `range` reject a float.

    Bad, as a dict:

        {"train_batch_size": 8, "sequence_parallel_size": 2}

    Good, as a dict:

        {"train_micro_batch_size_per_gpu": 4, "sequence_parallel_size": 2}
    """
    size = _sequence_size_that_divides_ranks(ctx)
    if size is None or not ctx.has(TRAIN) or (ctx.has(MICRO) and ctx.value(MICRO) is not None):
        return
    train, ranks = positive_size(ctx, TRAIN), ctx.world_size
    if train is None:
        return
    example = (
        f"{train} // ({ranks} / {size}) = {train // (ranks / size)}"
        if ranks
        else "for example 4.0 instead of 4"
    )
    yield ctx.at(
        TRAIN,
        f"with `{_SEQUENCE}`, DeepSpeed derives `{MICRO}` as a float: {example}",
        help=f"set `{MICRO}` and remove `{TRAIN}`, which DeepSpeed then derives",
        related=[("this divides the world size", _SEQUENCE)],
    )


@rule("DSC212", effect="altered", since="0.16.4", source=_WORLD)
def batch_counts_tensor_parallel_ranks(ctx: Context) -> Iterator[Finding]:
    """`train_batch_size` counts every rank, although the ranks of a tensor-parallel group share samples.

    DeepSpeed computes the batch before it creates the tensor-parallel groups. With `autotp_size` 4, a step processes a
    quarter of `train_batch_size` samples, and sample counters and throughput are four times too high. The micro batch
    size is not affected.

    Bad:

        {"train_batch_size": 64, "tensor_parallel": {"autotp_size": 4}}

    Good:

        {"train_micro_batch_size_per_gpu": 4, "tensor_parallel": {"autotp_size": 4}}
    """
    if not isinstance(ctx.data.get("tensor_parallel"), dict):
        return
    size, train = positive_size(ctx, _AUTOTP), positive_size(ctx, TRAIN)
    if size is None or size < 2 or train is None:
        return
    yield ctx.at(
        TRAIN,
        f"`{TRAIN}` {train} counts each sample {size} times, once per rank of a tensor-parallel group: "
        f"a step processes {train} / {size} = {train / size:g} different samples",
        help=f"remove it and set `{MICRO}` and `{STEPS}`; the batch size is their product × ranks / {size}",
        related=[("the tensor-parallel size is set here", _AUTOTP)],
    )


@rule(
    "DSC213",
    effect="crashes",
    source="the program's own check: dsconfig/launch/training_arguments.py cites each",
)
def ranks_not_divided_by_parallelism(ctx: Context) -> Iterator[Finding]:
    """The tensor, pipeline or sequence parallelism of the launch file does not divide the number of ranks.

    A group of tensor × pipeline × sequence ranks processes each sample. Megatron, GPT-NeoX and DeepSpeed's
    `PipelineModule` raise if the number of ranks leaves a group incomplete.

    Bad:

        {"num-layers": 12, "pipe-parallel-size": 3, "global_num_gpus": 8, "train_micro_batch_size_per_gpu": 4}

    Good:

        {"num-layers": 12, "pipe-parallel-size": 4, "global_num_gpus": 8, "train_micro_batch_size_per_gpu": 4}
    """
    parallelism, ranks = ctx.facts.parallelism, ctx.world_size
    if ranks is None or parallelism.unknown_degree is not None or not parallelism.dividing_degrees:
        return
    divisor = parallelism.ranks_per_sample(ranks)
    if ranks % divisor:
        multiples = " or ".join(map(str, nearest_multiples(ranks, divisor)))
        yield ctx.at(
            "",
            f"world size {ranks} is not divisible by {divisor} ({parallelism} parallel: "
            f"{parallelism.dividing_sources})",
            help=f"run on {multiples} ranks, or choose sizes whose product divides {ranks}",
            part="key",
        )


# The device mesh of `data_parallel_size` × `sequence_parallel_size`.

_MESH = "__init__.py:initialize"


@rule("DSC210", effect="ignored", since="0.15.0", source=_MESH)
def parallel_size_not_read(ctx: Context) -> Iterator[Finding]:
    """`data_parallel_size` or `sequence_parallel_size` has no effect.

    Only if both keys are set does DeepSpeed build a device mesh. `data_parallel_size` alone has no effect.
    `sequence_parallel_size` alone has no effect before 0.17.0; later it divides the world size, but only if the config
    is passed as a dict. For a config file, DeepSpeed up to 0.18.5 searches for both keys in the path instead of the
    content, and later releases still do if a script passes the path to `DeepSpeedConfig` or `zero.Init`.

    Bad:

        {"train_batch_size": 8, "data_parallel_size": 4}

    Good, as a dict:

        {"train_batch_size": 8, "data_parallel_size": 4, "sequence_parallel_size": 2}
    """
    if builds_device_mesh(ctx) or not (ctx.has(_DATA) or ctx.has(_SEQUENCE)):
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
                else "in a file: DeepSpeed looks for it in the path of the file, not in the content"
            ),
            help=f"add `{other}`, or remove `{key}`"
            if alone
            else "load the file and pass the dict to DeepSpeed",
            part="key",
            fix=remove_key((key,), safe=alone),
        )


@rule("DSC211", effect="crashes", since="0.15.0", source=_MESH)
def device_mesh_larger_than_world(ctx: Context) -> Iterator[Finding]:
    """`data_parallel_size` × `sequence_parallel_size` is larger than the world size.

    DeepSpeed builds a device mesh of the two sizes, and PyTorch raises "Mesh should not be bigger than default
    world size".

    Bad, as a dict, world size 2:

        {"train_batch_size": 8, "data_parallel_size": 2, "sequence_parallel_size": 2}

    Good, as a dict, world size 4:

        {"train_batch_size": 8, "data_parallel_size": 2, "sequence_parallel_size": 2}
    """
    if ctx.world_size is None or not builds_device_mesh(ctx):
        return
    data, sequence = positive_size(ctx, _DATA), positive_size(ctx, _SEQUENCE)
    if data is not None and sequence is not None and data * sequence > ctx.world_size:
        yield ctx.at(
            _DATA,
            f"`{_DATA}` × `{_SEQUENCE}` = {data} × {sequence} = {data * sequence}, but there "
            f"{'is 1 rank' if ctx.world_size == 1 else f'are {ctx.world_size} ranks'}",
            help=f"run on {data * sequence} ranks, or choose sizes whose product is {ctx.world_size}",
            related=[("the other size is set here", _SEQUENCE)],
        )
