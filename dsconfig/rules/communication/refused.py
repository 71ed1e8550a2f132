"""What the root keys about collectives refuse as soon as the config is loaded; vocabulary size."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.zero import stage, stage_place
from dsconfig.words import kind, quoted

_OP = "gradient_allreduce_op"
_ZENFLOW = "zero_optimization.zenflow"
_DEEPCOMPILE = "compile.deepcompile"


@rule("DSC901", effect="rejected", since="0.19.6", source="runtime/config.py:DeepSpeedConfig._do_error_check")
def summed_gradients_with_partner(ctx: Context) -> Iterator[Finding]:
    """`gradient_allreduce_op` is "sum" together with something that can only average.

    ZeRO stage 3, ZenFlow and DeepCompile reduce gradients themselves and always divide.

    Bad:

        {"train_batch_size": 8, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 2}}
    """
    op = ctx.value(_OP)
    if not isinstance(op, str) or op.lower() != "sum":
        return
    partners = {
        "ZeRO stage 3": stage_place(ctx) if stage(ctx) == 3 else None,
        "ZenFlow": _ZENFLOW if ctx.value(_ZENFLOW) is not None else None,
        "DeepCompile": _DEEPCOMPILE if ctx.on(_DEEPCOMPILE) else None,
    }
    there = {name: path for name, path in partners.items() if path}
    if there:
        names = " and ".join(there)
        yield ctx.at(
            _OP,
            f"`{_OP}` is {quoted(op)}, which does not work with {names}",
            help=f'use "mean", or do without {names}',
            related=[(f"{name} is switched on here", path) for name, path in there.items()],
        )


@rule("DSC902", effect="rejected", source="runtime/config.py:DeepSpeedConfig._do_warning_check")
def vocabulary_size_not_a_number(ctx: Context) -> Iterator[Finding]:
    """`vocabulary_size` is nothing that has a remainder.

    DeepSpeed only wants to warn where the size is no multiple of 8, but calculates with the value as it is
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
            f"`vocabulary_size` is {kind(value)}, {quoted(value)}, and DeepSpeed divides it by 8",
            help="give an integer, or remove the key: it only serves a warning",
        )


def _has_remainder(value: Any) -> bool:
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
