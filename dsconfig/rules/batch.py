"""The batch triplet: `train_batch_size` = micro batch × accumulation steps × data-parallel world size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.batch import triplet
from dsconfig.batch.triplet import MICRO, STEPS, TRAIN, Impossible, Triplet
from dsconfig.batch.world_sizes import described, nearest_multiples, working_sizes
from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.evaluation.context import MISSING, Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.words import kind, quoted

_DERIVE = "runtime/config.py:DeepSpeedConfig._set_batch_related_parameters"
_ASSERT = "runtime/config.py:DeepSpeedConfig._batch_assertion"


def written(ctx: Context) -> tuple[Any, Any, Any]:
    """The three values as written, None where a key is absent or null.

    Raises:
        SkipRule: the elastic solver takes the three over, or the consumer fills one of them.
    """
    if ctx.key("elasticity") is not None and ctx.on("elasticity.enabled"):
        raise SkipRule
    if ctx.consumer == "lightning":
        raise SkipRule  # it writes the accumulation steps, and the micro batch where there is none
    values = []
    for key in triplet.KEYS:
        if ctx.written(key) is not MISSING:
            ctx.value(key)  # raises where the consumer fills it
        value = ctx.written(key)
        values.append(None if value is MISSING else value)
    if ctx.written(STEPS) is MISSING and ctx.consumer != "deepspeed":
        values[2] = 1  # put there by accelerate's DeepSpeedPlugin.__post_init__, for the Trainer too
    return values[0], values[1], values[2]


def _failure(ctx: Context) -> tuple[Impossible, tuple[Any, Any, Any], float | None] | None:
    """Why there is no triplet; where the world size is unknown, why there is none at any."""
    values = written(ctx)
    world = data_parallel_size(ctx)
    if world is None:
        if working_sizes(*values) != ():
            return None
        outcome = triplet.derive(*values, 1)
    else:
        outcome = triplet.derive(*values, world)
    return (outcome, values, world) if isinstance(outcome, Impossible) else None


def data_parallel_size(ctx: Context) -> float | None:
    """The world size that the triplet is held against, None where nobody said how many ranks there are.

    Raises:
        SkipRule: `sequence_parallel_size` cannot be divided by, which is a finding of its own.
    """
    if ctx.world_size is None:
        return None
    size = ctx.written("sequence_parallel_size")
    ctx.since("0.17.0"), ctx.since("0.19.3")  # narrow the span of releases for which the outcome holds
    try:
        return triplet.world_size(
            ctx.world_size, triplet.ABSENT if size is MISSING else size, ctx.release, from_file=ctx.from_file
        )
    except (TypeError, ZeroDivisionError):
        raise SkipRule from None


def _having(ctx: Context, *failures: str) -> Iterator[tuple[Impossible, tuple[Any, Any, Any], float | None]]:
    found = _failure(ctx)
    if found is not None and found[0].failure in failures:
        yield found


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
    for _ in _having(ctx, "none-given"):
        yield ctx.at(
            "",
            f"neither `{TRAIN}` nor `{MICRO}` is given, so DeepSpeed cannot derive the batch",
            help=f"set `{MICRO}` (and `{STEPS}` if you accumulate); the total follows from the world size",
            part="key",
        )


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
    for failure, values, world in _having(ctx, "mismatch"):
        if None in values:
            continue
        train, micro, steps = values
        if world is None:
            yield ctx.at(
                TRAIN,
                f"`{TRAIN}` {train} is no multiple of {micro} × {steps} = {micro * steps} (micro batch × "
                "accumulation steps), so no world size fits",
                help=_multiples_help(TRAIN, train, micro * steps),
                related=_others(TRAIN),
            )
            continue
        product = micro * steps * world
        yield ctx.at(
            TRAIN,
            f"`{TRAIN}` {train} ≠ {micro} × {steps} × {_world(world)} = {_plain(product)} (micro batch × "
            "accumulation steps × world size)",
            help=_mismatch_help(failure.triplet, world),
            related=_others(TRAIN),
            fix=Fix(f"remove `{TRAIN}`, so that it is derived: {_plain(product)}", (Remove((TRAIN,)),)),
        )


def _mismatch_help(found: Triplet, world: float) -> str:
    train, micro, steps = found.values()
    options = [f"remove `{TRAIN}` to train with {_plain(micro * steps * world)}"]
    if _whole(train, micro * world):
        options.append(f"set `{STEPS}` to {_plain(train / (micro * world))}")
    if _whole(train, steps * world):
        options.append(f"set `{MICRO}` to {_plain(train / (steps * world))}")
    if _whole(train, micro * steps):
        options.append(f"use {_plain(train / (micro * steps))} GPUs")
    return ", or ".join(options)


def _whole(number: Any, divisor: Any) -> bool:
    return bool(divisor) and number % divisor == 0 and number >= divisor


def _others(key: str) -> list[tuple[str, str]]:
    return [(f"`{other}` is set here", other) for other in triplet.KEYS if other != key]


def _plain(number: float) -> str:
    """8.0 as 8."""
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(number)


def _world(world: float) -> str:
    return _plain(world)


def _multiples_help(key: str, value: Any, step: Any) -> str:
    near = nearest_multiples(value, step)
    return f"set `{key}` to a multiple of {_plain(step)}" + (
        f", for example {' or '.join(_plain(number) for number in near)}" if near else ""
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
    for failure, (train, micro, steps), world in _having(ctx, "mismatch", "not-positive"):
        if train is None or (micro is not None and steps is not None):
            continue
        if failure.failure == "not-positive" and not _too_small(train, micro, steps):
            continue
        given = micro if micro is not None else steps
        key = MICRO if micro is not None else STEPS
        parts = [] if given is None else [f"{_plain(given)} ({key.replace('train_', '').replace('_', ' ')})"]
        if world is not None:
            parts.append(f"{_world(world)} (world size)")
        step = (1 if given is None else given) * (1 if world is None else world)
        yield ctx.at(
            TRAIN,
            f"`{TRAIN}` {train} is not divisible by {' × '.join(parts)}"
            + (f" = {_plain(step)}" if len(parts) > 1 else "")
            + (
                f": {_plain(train // step)} × {_plain(step)} = {_plain(train // step * step)}"
                if train > step
                else ""
            ),
            help=_divisible_help(train, step, given, world),
            related=[(f"`{key}` is set here", key)] if given is not None else [],
        )


def _too_small(train: Any, micro: Any, steps: Any) -> bool:
    """Everything written is positive: the derived value is not, because the total is smaller than one
    step.
    """
    return all(value is None or value > 0 for value in (train, micro, steps))


def _divisible_help(train: Any, step: Any, given: Any, world: float | None) -> str:
    text = _multiples_help(TRAIN, train, step)
    if world is None:
        return text
    sizes = working_sizes(train, given, None)
    if not sizes:
        return text
    shown = ", ".join(map(str, sizes[:12]))
    return f"{text}; with {train} it works on {shown}{' …' if len(sizes) > 12 else ''} GPUs"


@rule("DSC204", effect="rejected", source=_ASSERT)
def batch_size_not_positive(ctx: Context) -> Iterator[Finding]:
    """A batch key is zero or negative.

    Bad:

        {"train_batch_size": -8}

    Good:

        {"train_batch_size": 8}
    """
    for failure, values, _ in _having(ctx, "not-positive"):
        if _too_small(*values):
            continue
        for key, value in zip(triplet.KEYS, values, strict=True):
            if value is not None and not value > 0:
                yield ctx.at(
                    key,
                    f"`{key}` is {quoted(value)}, but must be greater than 0",
                    help="give a positive integer",
                )
                break
        del failure


@rule("DSC205", effect="rejected", source=_DERIVE)
def batch_size_divided_by_zero(ctx: Context) -> Iterator[Finding]:
    """A batch key is zero, and DeepSpeed divides by it before it checks.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 0}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 1}
    """
    for failure, values, _ in _having(ctx, "zero-divisor"):
        key = failure.key or STEPS
        value = dict(zip(triplet.KEYS, values, strict=True))[key]
        yield ctx.at(
            key,
            f"`{key}` is {quoted(value)}, and DeepSpeed divides `{TRAIN}` by it",
            help="give an integer of at least 1, or remove the key so that it is derived",
            fix=Fix(f"remove `{key}`", (Remove((key,)),)),
        )


@rule("DSC206", effect="rejected", source=_DERIVE)
def batch_size_not_a_number(ctx: Context) -> Iterator[Finding]:
    """A batch key is no number.

    DeepSpeed calculates with the three keys as they are written: a number in quotes, a list, or an "auto"
    that nobody fills ends in a TypeError.

    Bad:

        {"train_batch_size": "8"}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    for failure, values, _ in _having(ctx, "arithmetic"):
        for key, value in zip(triplet.KEYS, values, strict=True):
            if value is None or (isinstance(value, int | float) and failure.key is not None):
                continue
            number = int(value) if isinstance(value, str) and value.strip().isdecimal() else None
            yield ctx.at(
                key,
                f"`{key}` is {kind(value)}, {quoted(value)}, and DeepSpeed calculates with it",
                help=_number_help(value, number),
                fix=Fix(f"replace by {number}", (Set((key,), number),), safe=True)
                if number is not None
                else None,
            )


def _number_help(value: Any, number: int | None) -> str:
    if number is not None:
        return f"write {number}, without quotes"
    if value == "auto":
        return (
            "give an integer; only Transformers and Accelerate fill `auto` here (`--consumer transformers`)"
        )
    return "give an integer"


@rule("DSC207", effect="rejected", since="0.19.3", source="runtime/config.py:DeepSpeedConfig.__init__")
def sequence_parallel_size_not_a_divisor(ctx: Context) -> Iterator[Finding]:
    """`sequence_parallel_size` is nothing that the world size can be divided by.

    Bad, as a dict, world size 8:

        {"train_batch_size": 8, "sequence_parallel_size": 0}

    Good, as a dict, world size 8:

        {"train_batch_size": 8, "sequence_parallel_size": 2}
    """
    size = ctx.written("sequence_parallel_size")
    if size is MISSING or ctx.from_file:
        return
    try:
        triplet.world_size(1, size, ctx.release, from_file=False)
    except (TypeError, ZeroDivisionError):
        yield ctx.at(
            "sequence_parallel_size",
            f"`sequence_parallel_size` is {quoted(size)}, and DeepSpeed divides the world size by it",
            help="give a positive integer that divides the number of GPUs",
        )


def sizes(context: Context) -> str | None:
    """In words, the world sizes at which the batch triplet works; None where every one does, or none can be
    told.
    """
    try:
        found = working_sizes(*written(context))
    except SkipRule:
        return None
    return described(found) if found else None
