"""Loss scale of fp16: values that are rejected, and settings that the scaler ignores or suffers from."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Remove
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import compact, kind, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._effective_values import stage
from dsconfig.rules._fixes import removal, without_effect
from dsconfig.rules._numbers import is_number

# Values of the loss scale that fp16 refuses.

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
    if ctx.has(path) and ctx.is_on("fp16.enabled") and not _is_exponent(power):
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
    written = ctx.raw(path)
    if written is MISSING or written == "auto":
        return
    if isinstance(written, bool) or not math.isfinite(scale):
        yield ctx.at(
            path,
            f"`loss_scale` is {quoted(written)}, but must be a finite number of at least 0",
            help="give 0 for a scale that adapts, or remove the key",
            fix=Fix("remove `loss_scale`: the scale adapts", (Remove(ctx.written_path(path)),)),
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
        written = ctx.raw(f"fp16.{key}")
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
    if not ctx.is_on("fp16.enabled") or ctx.value("fp16.loss_scale") != 0:
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


# Settings of the loss scale that the scaler does not look at, or with which it works badly.

_SCALER = "runtime/fp16/loss_scaler.py"
_UPDATE = f"{_SCALER}:DynamicLossScaler.update_scale"
_SCALE = "fp16.loss_scale"
_ADAPTING = (
    "initial_scale_power",
    "loss_scale_window",
    "hysteresis",
    "consecutive_hysteresis",
    "min_loss_scale",
)
"""Keys that only a scale that adapts looks at."""
_HIGHEST_POWER = 32
_LONGEST_WINDOW = 10_000


def _adapts(ctx: Context) -> bool:
    """Whether `fp16` trains with a loss scale that adapts."""
    return ctx.has("fp16") and ctx.is_on("fp16.enabled") and ctx.value(_SCALE) == 0


@rule("DSC320", effect="ignored", source=f"{_SCALER}:CreateLossScaler")
def loss_scale_settings_beside_fixed_scale(ctx: Context) -> Iterator[Finding]:
    """`fp16.loss_scale` fixes the scale, and keys beside it say how it should adapt.

    Only 0 makes the scale adapt. With any other `loss_scale` the power it begins with, its window, hysteresis
    and minimum are not looked at.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 128, "initial_scale_power": 12}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 12}}

    Fixed:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 128}}
    """
    if not ctx.has(_SCALE) or not ctx.is_on("fp16.enabled"):
        return
    scale = ctx.value(_SCALE)
    keys = [f"fp16.{key}" for key in _ADAPTING if ctx.has(f"fp16.{key}")]
    if keys and is_number(scale) and scale > 0:
        yield without_effect(
            ctx,
            keys,
            f"`loss_scale` {compact(scale)} fixes the scale",
            help="remove them, or set `loss_scale` to 0 for a scale that adapts",
            related=[("the scale is fixed here", _SCALE)],
        )


@rule("DSC321", effect="ignored", source=_UPDATE)
def loss_scale_never_lowered(ctx: Context) -> Iterator[Finding]:
    """`fp16.hysteresis` is less than 1, so that the loss scale never falls.

    It counts the overflows down to 1, at which the scale is halved. Beginning at 0 or below, the count never
    meets 1: once the gradients overflow, every step is left out. Only the optimizers of ZeRO look at the key.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "hysteresis": 0}, "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "hysteresis": 2}, "zero_optimization": {"stage": 2}}
    """
    path = "fp16.hysteresis"
    if not ctx.has(path) or not _adapts(ctx) or stage(ctx) < 1:
        return
    value = ctx.value(path)
    if is_number(value) and value < 1:
        yield ctx.at(
            path,
            f"`hysteresis` is {quoted(value)}: counted down from there, it never meets 1, and the loss scale "
            "is never lowered",
            help=f"give at least 1; the default is {quoted(ctx.default(path))}",
            fix=removal(ctx.written_path(path)),
        )


class _Range(NamedTuple):
    """Where a setting of the scaler stops being of use."""

    key: str
    least: int
    most: int
    says: str
    advice: str
    end: int | None = None
    """Above, the value is refused."""


_RANGES = (
    _Range(
        "initial_scale_power", 0, _HIGHEST_POWER, "the first loss scale is 2^{}", "usual are 8 to 24", 1023
    ),
    _Range(
        "loss_scale_window",
        1,
        _LONGEST_WINDOW,
        "the loss scale grows again only after {} steps without an overflow",
        "the default is 1000",
    ),
)


@rule("DSC322", effect="wasteful", source=f"{_SCALER}:DynamicLossScaler")
def loss_scale_far_off(ctx: Context) -> Iterator[Finding]:
    """The loss scale begins, or grows, far from where it can be of use.

    `initial_scale_power` below 0 scales the loss down; far above 24 it costs a skipped step for each power
    until gradients fit. A `loss_scale_window` of tens of thousands of steps hardly ever raises a scale that
    fell.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": 64}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": 16}}
    """
    if not _adapts(ctx):
        return
    for row in _RANGES:
        path = f"fp16.{row.key}"
        value: Json = ctx.value(path) if ctx.has(path) else None
        # Below 1 the window is refused, or divided by, which is more than a waste.
        if is_number(value) and (value > row.most or (value < row.least and row.least == 0)):
            if row.end is not None and value > row.end:
                continue
            yield ctx.at(
                path,
                f"`{row.key}` is {quoted(value)}: {row.says.format(value)}",
                help=f"give a number from {row.least} to {row.most}; {row.advice}",
            )
