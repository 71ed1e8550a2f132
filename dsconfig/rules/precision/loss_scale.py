"""fp16 loss scaling: rejected values, and settings that are ignored or harmful."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, RemoveKey
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import format_number, json_kind, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding
from dsconfig.rules._effective_values import effective_stage, is_number
from dsconfig.rules._fixes import remove_key, report_keys_without_effect

# Loss scale values that fp16 rejects.

_FP16 = "runtime/precision_config.py:DeepSpeedFP16Config"
_MAX_POWER = 2**40
"""Maximum exponent; no memory can hold 2 to a larger power."""


@rule("DSC303", effect="rejected", until="0.17.0", source="runtime/config.py:get_initial_dynamic_scale")
def initial_scale_power_not_an_exponent(ctx: Context) -> Iterator[Finding]:
    """`fp16.initial_scale_power` is not a valid exponent of 2, and `fp16` is enabled.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": "16"}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": 16}}
    """
    path = "fp16.initial_scale_power"
    power = ctx.value(path)
    if ctx.has(path) and ctx.is_on("fp16.enabled") and not _is_valid_exponent(power):
        too_large = isinstance(power, int | float)
        yield ctx.at(
            path,
            f"`initial_scale_power` is {quote_value(power)}, "
            + (
                "and 2 to that power is too large"
                if too_large
                else f"{json_kind(power)}, but DeepSpeed computes 2 to that power"
            ),
            help="use an integer, usually 16",
        )


def _is_valid_exponent(power: Json) -> bool:
    if not isinstance(power, int | float):
        return False
    try:
        float(power) if isinstance(power, int) and power < 0 else power
        return power <= _MAX_POWER if isinstance(power, int) else 2**power is not None
    except OverflowError:
        return False


@rule("DSC304", effect="rejected", since="0.18.8", source=f"{_FP16}._validate_loss_scale")
def loss_scale_not_a_number(ctx: Context) -> Iterator[Finding]:
    """`fp16.loss_scale` is a boolean, infinite or negative.

    DeepSpeed accepted these values up to 0.18.7, and `true` was a scale of 1. The check does not depend on
    whether `fp16` is enabled.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0}}
    """
    path = "fp16.loss_scale"
    scale = ctx.value(path)
    raw = ctx.raw(path)
    if raw is MISSING or raw == "auto":
        return
    if isinstance(raw, bool) or not math.isfinite(scale):
        yield ctx.at(
            path,
            f"`loss_scale` is {quote_value(raw)}, but must be a finite, non-negative number",
            help="set it to 0 for dynamic loss scaling, or remove the key",
            fix=Fix("remove `loss_scale` to use dynamic loss scaling", (RemoveKey(ctx.written_path(path)),)),
        )


_POSITIVE_KEYS = ("loss_scale_window", "min_loss_scale")


@rule("DSC305", effect="rejected", since="0.19.3", source=f"{_FP16}._reject_non_integer_scale_params")
def loss_scale_limit_not_an_integer(ctx: Context) -> Iterator[Finding]:
    """`fp16.loss_scale_window` or `fp16.min_loss_scale` is a boolean, or a string such as "8.0".

    Other integer keys of the section accept both. The check does not depend on whether `fp16` is enabled.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale_window": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale_window": 1000}}
    """
    for key in _POSITIVE_KEYS:
        ctx.value(f"fp16.{key}")
        raw = ctx.raw(f"fp16.{key}")
        if isinstance(raw, bool) or (isinstance(raw, str) and raw != "auto" and not _spells_integer(raw)):
            yield ctx.at(
                f"fp16.{key}",
                f"`{key}` is {quote_value(raw)}, {json_kind(raw)}, but DeepSpeed expects an integer",
                help=f"set it to {quote_value(ctx.value(f'fp16.{key}'))}"
                if isinstance(raw, str)
                else "use an integer",
            )


def _spells_integer(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


@rule("DSC306", effect="rejected", since="0.19.3", source=f"{_FP16}._validate_dynamic_loss_scale_params")
def adapting_loss_scale_without_room(ctx: Context) -> Iterator[Finding]:
    """`loss_scale_window` or `min_loss_scale` is not positive, although the loss scale is dynamic.

    DeepSpeed may raise the scale every `loss_scale_window` steps and never lowers it below `min_loss_scale`.
    With a fixed scale, or if `fp16` is not enabled, both keys are unused and may be any integer.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale_window": 0}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 128, "loss_scale_window": 0}}
    """
    if not ctx.is_on("fp16.enabled") or ctx.value("fp16.loss_scale") != 0:
        return
    for key in _POSITIVE_KEYS:
        value = ctx.value(f"fp16.{key}")
        if value <= 0:
            yield ctx.at(
                f"fp16.{key}",
                f"`{key}` is {quote_value(value)}, but must be positive for dynamic loss scaling",
                help="use a positive integer, or a fixed `loss_scale`",
                related=[("`fp16` is enabled here", "fp16.enabled")],
            )


# Loss scale settings that the scaler ignores, or that do not work well.

_SCALER = "runtime/fp16/loss_scaler.py"
_UPDATE = f"{_SCALER}:DynamicLossScaler.update_scale"
_SCALE = "fp16.loss_scale"
_DYNAMIC_KEYS = (
    "initial_scale_power",
    "loss_scale_window",
    "hysteresis",
    "consecutive_hysteresis",
    "min_loss_scale",
)
"""Keys that only dynamic loss scaling reads."""
_MAX_SCALE_POWER = 32
_MAX_WINDOW = 10_000


def _has_dynamic_loss_scale(ctx: Context) -> bool:
    """Return whether `fp16` trains with dynamic loss scaling."""
    return ctx.has("fp16") and ctx.is_on("fp16.enabled") and ctx.value(_SCALE) == 0


@rule("DSC320", effect="ignored", source=f"{_SCALER}:CreateLossScaler")
def loss_scale_settings_beside_fixed_scale(ctx: Context) -> Iterator[Finding]:
    """`fp16.loss_scale` is fixed, but keys for dynamic loss scaling are set.

    Only 0 enables dynamic loss scaling. With any other `loss_scale`, DeepSpeed ignores the initial power, the
    window, the hysteresis and the minimum.

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
    keys = [f"fp16.{key}" for key in _DYNAMIC_KEYS if ctx.has(f"fp16.{key}")]
    if keys and is_number(scale) and scale > 0:
        yield report_keys_without_effect(
            ctx,
            keys,
            f"`loss_scale` is fixed at {format_number(scale)}",
            help=f"remove {'them' if len(keys) > 1 else 'it'}, or set `loss_scale` to 0 for dynamic loss"
            " scaling",
            related=[("the loss scale is fixed here", _SCALE)],
        )


@rule("DSC321", effect="ignored", source=_UPDATE)
def loss_scale_never_lowered(ctx: Context) -> Iterator[Finding]:
    """`fp16.hysteresis` is less than 1, so the loss scale never decreases.

    DeepSpeed counts down from it with each overflow, and halves the scale when the count is 1. If the count starts at 0
    or below, it never reaches 1: once the gradients overflow, every step is skipped. Only the optimizers of ZeRO read
    the key.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "hysteresis": 0}, "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "hysteresis": 2}, "zero_optimization": {"stage": 2}}
    """
    path = "fp16.hysteresis"
    if not ctx.has(path) or not _has_dynamic_loss_scale(ctx) or effective_stage(ctx) < 1:
        return
    value = ctx.value(path)
    if is_number(value) and value < 1:
        yield ctx.at(
            path,
            f"`hysteresis` is {quote_value(value)}: DeepSpeed counts down from it to 1, which it never reaches, so"
            " the loss scale never decreases",
            help=f"use at least 1; the default is {quote_value(ctx.default(path))}",
            fix=remove_key(ctx.written_path(path)),
        )


class _UsefulRange(NamedTuple):
    """The useful range of a loss scaling setting."""

    key: str
    minimum: int
    maximum: int
    consequence: str
    advice: str
    limit: int | None = None
    """Largest value that DeepSpeed accepts, or None if there is no limit."""


_RANGES = (
    _UsefulRange(
        "initial_scale_power",
        0,
        _MAX_SCALE_POWER,
        "the first loss scale, 2^{}, is far from any that suits training",
        "8 to 24 are common",
        1023,
    ),
    _UsefulRange(
        "loss_scale_window",
        1,
        _MAX_WINDOW,
        "the loss scale increases only after {} steps without an overflow",
        "the default is 1000",
    ),
)


@rule("DSC322", effect="wasteful", source=f"{_SCALER}:DynamicLossScaler")
def loss_scale_far_off(ctx: Context) -> Iterator[Finding]:
    """The initial loss scale or its window is far outside the useful range.

    An `initial_scale_power` below 0 scales the loss down. Far above 24, each power costs a skipped step until
    the gradients fit. With a `loss_scale_window` of tens of thousands of steps, a decreased scale hardly ever
    increases again.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": 64}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "initial_scale_power": 16}}
    """
    if not _has_dynamic_loss_scale(ctx):
        return
    for row in _RANGES:
        path = f"fp16.{row.key}"
        value: Json = ctx.value(path) if ctx.has(path) else None
        # DeepSpeed rejects a window below 1, or divides by it, which is more than wasteful.
        if is_number(value) and (value > row.maximum or (value < row.minimum and row.minimum == 0)):
            if row.limit is not None and value > row.limit:
                continue
            yield ctx.at(
                path,
                f"`{row.key}` is {quote_value(value)}: {row.consequence.format(value)}",
                help=f"use a number from {row.minimum} to {row.maximum}; {row.advice}",
            )
