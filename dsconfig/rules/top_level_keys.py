"""Top-level keys of the engine: gradient clipping, progress output and vocabulary size."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Operation, RemoveKey, SetValue
from dsconfig.core.json_types import Json
from dsconfig.core.wording import describe_value, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding
from dsconfig.rules._effective_values import format_remainder, is_integer, is_number

# Gradient clipping.

_STEP = "runtime/engine.py:DeepSpeedEngine._take_model_step"
_CLIPPING = "gradient_clipping"
_NORM = "optimizer.params.max_grad_norm"


@rule("DSC981", effect="ignored", source=_STEP)
def negative_gradient_clipping(ctx: Context) -> Iterator[Finding]:
    """`gradient_clipping` is negative, so gradients are not clipped.

    The engine clips only if the value is greater than 0.

    Bad:

        {"train_batch_size": 8, "gradient_clipping": -1}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 0}

    Fixed:

        {"train_batch_size": 8, "gradient_clipping": 0}
    """
    value = ctx.raw(_CLIPPING)
    if isinstance(value, int | float) and value < 0:
        yield ctx.at(
            _CLIPPING,
            f"`{_CLIPPING}` is {quote_value(value)}, but DeepSpeed clips gradients only if it is positive",
            help="set it to 0 to disable clipping, or to a positive maximum norm",
            fix=Fix("write 0", (SetValue((_CLIPPING,), 0),)),
        )


@rule(
    "DSC982",
    effect="crashes",
    since="0.3.0",
    source="runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer",
)
def max_grad_norm_beside_optimizer(ctx: Context) -> Iterator[Finding]:
    """`max_grad_norm` is in `optimizer.params`, which DeepSpeed rejects.

    The engine raises "is not supported as an optimizer parameter" for every optimizer type and value. To clip
    gradients, set `gradient_clipping` at the top level.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "max_grad_norm": 1.0}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "gradient_clipping": 1.0}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "gradient_clipping": 1.0}
    """
    if not isinstance(ctx.raw("optimizer.params"), dict) or not ctx.has(_NORM):
        return
    norm = ctx.raw(_NORM)
    if not isinstance(norm, int | float):  # DSC503 reports that
        return
    is_set = ctx.has(_CLIPPING)
    usable = is_number(norm) and norm >= 0
    operations: tuple[Operation, ...] = (RemoveKey(ctx.written_path(_NORM)),)
    if not is_set and usable:
        operations = (*operations, SetValue((_CLIPPING,), norm))
    yield ctx.at(
        _NORM,
        f"`max_grad_norm` is {quote_value(norm)}, but DeepSpeed rejects it as an optimizer parameter, whatever its "
        "value",
        help=f"remove it: `{_CLIPPING}` is set already"
        if is_set
        else f"move it to `{_CLIPPING}`, at the top level",
        part="key",
        related=[(f"`{_CLIPPING}` is set here", _CLIPPING)] if is_set else [],
        fix=Fix(
            "remove it" if is_set else f"move it to `{_CLIPPING}`",
            operations,
            safe=ctx.raw(_CLIPPING) == norm if is_set else usable,
        )
        if is_set or usable
        else None,
    )


# Progress output.

_PRINT = "steps_per_print"


@rule("DSC980", effect="crashes", source=_STEP)
def steps_per_print_zero(ctx: Context) -> Iterator[Finding]:
    """`steps_per_print` is 0, but the engine divides the step number by it.

    The first step raises a ZeroDivisionError. To switch progress
    output off, set null (the default from 0.15.2 on) or a large number.

    Bad:

        {"train_batch_size": 8, "steps_per_print": 0}

    Good:

        {"train_batch_size": 8, "steps_per_print": 100}

    Fixed:

        {"train_batch_size": 8}
    """
    if ctx.has(_PRINT) and ctx.value(_PRINT) == 0:
        off = ctx.since("0.15.2")
        yield ctx.at(
            _PRINT,
            f"`{_PRINT}` is {quote_value(ctx.value(_PRINT))}, but the engine divides the step number by it",
            help="write `null`, or remove the key, for no progress output"
            if off
            else "set it to a large number for little progress output",
            fix=Fix("remove the key: no progress output", (RemoveKey((_PRINT,)),)) if off else None,
        )


# `vocabulary_size`, which DeepSpeed uses only for a warning.

_VOCABULARY = "vocabulary_size"
_ALIGNMENT = 8


@rule("DSC902", effect="rejected", source="runtime/config.py:DeepSpeedConfig._do_warning_check")
def vocabulary_size_not_a_number(ctx: Context) -> Iterator[Finding]:
    """`vocabulary_size` is not a number.

    DeepSpeed only warns if the size is not a multiple of 8, but computes the remainder without checking the type, which
    raises for other types.

    Bad:

        {"train_batch_size": 8, "vocabulary_size": "50257"}

    Good:

        {"train_batch_size": 8, "vocabulary_size": 50264}
    """
    value = ctx.raw("vocabulary_size")
    if value is not MISSING and value and not _supports_modulo(value):
        yield ctx.at(
            "vocabulary_size",
            f"`vocabulary_size` is {describe_value(value)} but must be an integer: DeepSpeed checks "
            "whether it is divisible by 8",
            help="set it to an integer, or remove it; DeepSpeed uses it only to print a warning",
        )


def _supports_modulo(value: Json) -> bool:
    """Return whether `value % 8` works, as it does for numbers and for format strings with one number."""
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

    Tensor cores are less efficient with other sizes. DeepSpeed uses the key only for this warning.

    Bad:

        {"train_batch_size": 8, "vocabulary_size": 50257}

    Good:

        {"train_batch_size": 8, "vocabulary_size": 50264}
    """
    size = ctx.raw(_VOCABULARY)
    if is_integer(size) and size % _ALIGNMENT:
        up = -(-size // _ALIGNMENT) * _ALIGNMENT
        yield ctx.at(
            _VOCABULARY,
            f"`{_VOCABULARY}` {size} is not a multiple of {_ALIGNMENT} {format_remainder(size, _ALIGNMENT)}, "
            "which is less efficient on tensor cores",
            help=f"pad the vocabulary to {up}",
        )
