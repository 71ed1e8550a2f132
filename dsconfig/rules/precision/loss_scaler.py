"""Settings of the loss scale that the scaler does not look at, or with which it works badly."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import compact, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._no_effect import without_effect
from dsconfig.rules._numbers import is_number
from dsconfig.rules._stage import stage

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
    return ctx.has("fp16") and ctx.on("fp16.enabled") and ctx.value(_SCALE) == 0


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
    if not ctx.has(_SCALE) or not ctx.on("fp16.enabled"):
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
            fix=removal(ctx.place(path)),
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
