"""`vocabulary_size`, which serves a warning alone."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.core.json_types import Json
from dsconfig.core.wording import described
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._numbers import division, is_integer

_VOCABULARY = "vocabulary_size"
_ALIGNMENT = 8


@rule("DSC902", effect="rejected", source="runtime/config.py:DeepSpeedConfig._do_warning_check")
def vocabulary_size_not_a_number(ctx: Context) -> Iterator[Finding]:
    """`vocabulary_size` is nothing that has a remainder.

    DeepSpeed only wants to warn where the size is not a multiple of 8, but calculates with the value as it is
    written.

    Bad:

        {"train_batch_size": 8, "vocabulary_size": "50257"}

    Good:

        {"train_batch_size": 8, "vocabulary_size": 50264}
    """
    value = ctx.written("vocabulary_size")
    if value is not MISSING and value and not _has_remainder(value):
        yield ctx.at(
            "vocabulary_size",
            f"`vocabulary_size` is {described(value)} and DeepSpeed divides it by 8",
            help="give an integer, or remove the key: it only serves a warning",
        )


def _has_remainder(value: Json) -> bool:
    """Whether `value % 8` works: for numbers, and for strings into which a single number can be formatted."""
    if isinstance(value, int | float):
        return True
    if not isinstance(value, str) or "%" not in value or re.search(r"\d{6}", value):
        return False
    try:
        value % 8
    except (TypeError, ValueError, OverflowError):
        return False
    return True


@rule("DSC988", effect="wasteful", source="runtime/config.py:DeepSpeedConfig._do_warning_check")
def vocabulary_not_aligned(ctx: Context) -> Iterator[Finding]:
    """`vocabulary_size` is not a multiple of 8.

    Tensor cores want it to be one. DeepSpeed uses the key for this warning alone.

    Bad:

        {"train_batch_size": 8, "vocabulary_size": 50257}

    Good:

        {"train_batch_size": 8, "vocabulary_size": 50264}
    """
    size = ctx.written(_VOCABULARY)
    if is_integer(size) and size % _ALIGNMENT:
        up = -(-size // _ALIGNMENT) * _ALIGNMENT
        yield ctx.at(
            _VOCABULARY,
            f"`{_VOCABULARY}` {size} is not a multiple of {_ALIGNMENT}, which tensor cores would like: "
            f"{division(size, _ALIGNMENT)}",
            help=f"pad the vocabulary to {up}",
        )
