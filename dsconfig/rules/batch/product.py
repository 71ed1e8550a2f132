"""Batch keys whose product is not the total, or whose total cannot be shared out."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN, Triplet, nearest_multiples
from dsconfig.core.diagnostic import Fix, Remove
from dsconfig.core.json_types import Json
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.batch._no_triplet import failed, plain
from dsconfig.rules.batch.world_sizes import working_sizes

_DERIVE = "runtime/config.py:DeepSpeedConfig._set_batch_related_parameters"
_ASSERT = "runtime/config.py:DeepSpeedConfig._batch_assertion"


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
    shares = ctx.known.parallelism
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
    shares = ctx.known.parallelism
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
