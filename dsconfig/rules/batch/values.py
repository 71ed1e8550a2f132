"""Batch keys that are missing, or hold what DeepSpeed cannot calculate with."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core import batch_triplet
from dsconfig.core.batch_triplet import MICRO, STEPS, TRAIN
from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json
from dsconfig.core.wording import described, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._numbers import spelled
from dsconfig.rules.batch._no_triplet import failed

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
