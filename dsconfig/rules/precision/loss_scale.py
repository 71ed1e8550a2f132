"""Values of the loss scale that fp16 refuses."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Remove
from dsconfig.core.json_types import Json
from dsconfig.core.wording import kind, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule

_FP16 = "runtime/precision_config.py:DeepSpeedFP16Config"
_BIGGEST_POWER = 2**40
"""No memory holds 2 to the power of more."""


@rule("DSC303", effect="rejected", until="0.17.0", source="runtime/config.py:get_initial_dynamic_scale")
def initial_scale_power_not_an_exponent(ctx: Context) -> Iterator[Finding]:
    """`fp16.initial_scale_power` is nothing that 2 can be raised to, while `fp16` is enabled.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": "16"}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": 16}}
    """
    path = "fp16.initial_scale_power"
    power = ctx.value(path)
    if ctx.has(path) and ctx.on("fp16.enabled") and not _is_exponent(power):
        too_large = isinstance(power, int | float)
        yield ctx.at(
            path,
            f"`initial_scale_power` is {quoted(power)}, "
            + ("too large for" if too_large else f"{kind(power)}, and DeepSpeed calculates")
            + " 2 to that power",
            help="give an integer, usually 16",
        )


def _is_exponent(power: Json) -> bool:
    if not isinstance(power, int | float):
        return False
    try:
        float(power) if isinstance(power, int) and power < 0 else power
        return power <= _BIGGEST_POWER if isinstance(power, int) else 2**power is not None
    except OverflowError:
        return False


@rule("DSC304", effect="rejected", since="0.18.8", source=f"{_FP16}._validate_loss_scale")
def loss_scale_not_a_number(ctx: Context) -> Iterator[Finding]:
    """`fp16.loss_scale` is a boolean, infinite or negative.

    DeepSpeed took them up to 0.18.7; `true` was a scale of 1. Checked whether or not `fp16` is enabled.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0}}
    """
    path = "fp16.loss_scale"
    scale = ctx.value(path)
    written = ctx.written(path)
    if written is MISSING or written == "auto":
        return
    if isinstance(written, bool) or not math.isfinite(scale):
        yield ctx.at(
            path,
            f"`loss_scale` is {quoted(written)}, but must be a finite number of at least 0",
            help="give 0 for a scale that adapts, or remove the key",
            fix=Fix("remove `loss_scale`: the scale adapts", (Remove(ctx.place(path)),)),
        )


_STEPS = ("loss_scale_window", "min_loss_scale")


@rule("DSC305", effect="rejected", since="0.19.3", source=f"{_FP16}._reject_non_integer_scale_params")
def loss_scale_limit_not_an_integer(ctx: Context) -> Iterator[Finding]:
    """`fp16.loss_scale_window` or `fp16.min_loss_scale` is a boolean, or a string such as "8.0".

    Other integers of the section take both. Checked whether or not `fp16` is enabled.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale_window": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale_window": 1000}}
    """
    for key in _STEPS:
        ctx.value(f"fp16.{key}")
        written = ctx.written(f"fp16.{key}")
        if isinstance(written, bool) or (
            isinstance(written, str) and written != "auto" and not _is_int(written)
        ):
            yield ctx.at(
                f"fp16.{key}",
                f"`{key}` is {quoted(written)}, {kind(written)}, where DeepSpeed expects an integer",
                help=f"write {quoted(ctx.value(f'fp16.{key}'))}"
                if isinstance(written, str)
                else "give an integer",
            )


def _is_int(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


@rule("DSC306", effect="rejected", since="0.19.3", source=f"{_FP16}._validate_dynamic_loss_scale_params")
def adapting_loss_scale_without_room(ctx: Context) -> Iterator[Finding]:
    """The loss scale adapts, and `loss_scale_window` or `min_loss_scale` is not positive.

    The scale is looked at every `loss_scale_window` steps and never falls below `min_loss_scale`. With a
    fixed scale, or `fp16` not enabled, the two are not used and may be any integer.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale_window": 0}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 128, "loss_scale_window": 0}}
    """
    if not ctx.on("fp16.enabled") or ctx.value("fp16.loss_scale") != 0:
        return
    for key in _STEPS:
        value = ctx.value(f"fp16.{key}")
        if value <= 0:
            yield ctx.at(
                f"fp16.{key}",
                f"`{key}` is {quoted(value)}, but must be greater than 0 while the loss scale adapts",
                help="give a positive integer, or a fixed `loss_scale`",
                related=[("`fp16` is enabled here", "fp16.enabled")],
            )
