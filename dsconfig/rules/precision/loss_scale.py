"""Loss scaling in fp16: settings that the scaler does not look at, and those with which it works badly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._precision import model_format
from dsconfig.rules._zero import stage, without_effect
from dsconfig.words import kind, quoted

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


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


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
    if keys and _number(scale) and scale > 0:
        yield without_effect(
            ctx,
            keys,
            f"`loss_scale` {scale:g} fixes the scale",
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
    if _number(value) and value < 1:
        yield ctx.at(
            path,
            f"`hysteresis` is {quoted(value)}: counted down from there, it never meets 1, and the loss scale "
            "is never lowered",
            help=f"give at least 1; the default is {quoted(ctx.default(path))}",
            fix=Fix("remove `hysteresis`", (Remove(ctx.place(path)),)),
        )


@dataclass(frozen=True, slots=True)
class _Range:
    """Where a setting of the scaler stops being of use."""

    key: str
    least: int
    most: int
    says: str
    advice: str


_RANGES = (
    _Range("initial_scale_power", 0, _HIGHEST_POWER, "the first loss scale is 2^{}", "usual are 8 to 24"),
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
        value: Any = ctx.value(path) if ctx.has(path) else None
        # Below 1 the window is refused, or divided by, which is more than a waste.
        if _number(value) and (value > row.most or (value < row.least and row.least == 0)):
            yield ctx.at(
                path,
                f"`{row.key}` is {quoted(value)}: {row.says.format(value)}",
                help=f"give a number from {row.least} to {row.most}; {row.advice}",
            )


_SWITCHED = ("fp16", "bf16", "torch_autocast")


@rule("DSC323", effect="ignored", source="runtime/precision_config.py:DeepSpeedFP16Config")
def precision_section_not_enabled(ctx: Context) -> Iterator[Finding]:
    """A section of number formats holds settings, and no `enabled`.

    `fp16`, `bf16` and `torch_autocast` are off unless they say `"enabled": true`; written without it, all of
    the section does nothing. One that says `"enabled": false` was switched off on purpose.

    Bad:

        {"train_batch_size": 8, "fp16": {"loss_scale": 0, "initial_scale_power": 16}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16}}
    """
    for section in _SWITCHED:
        written = ctx.data.get(section)
        if not isinstance(written, dict) or not written or "enabled" in written:
            continue
        known = ctx.section(section)
        keys = [f"`{key}`" for key in written if known is not None and key in known.keys]
        if keys:
            yield ctx.at(
                section,
                f"`{section}` has no `enabled`, so it is off, and {', '.join(keys)} "
                f"{'has' if len(keys) == 1 else 'have'} no effect",
                help='add `"enabled": true`, or remove the section',
                part="key",
                fix=Fix('add `"enabled": true`', (Set((section, "enabled"), True),)),
            )


@rule("DSC324", effect="altered", since="0.7.0", source="runtime/engine.py:DeepSpeedEngine._cast_inputs_half")
def auto_cast_without_fp16(ctx: Context) -> Iterator[Finding]:
    """`fp16.auto_cast` is on, and `fp16` is not enabled.

    The engine casts every floating-point input to fp16 all the same. A layer whose weights are in another
    format then fails ("must have the same dtype"); token ids, which are integers, pass.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": false, "auto_cast": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "auto_cast": true}}
    """
    path = "fp16.auto_cast"
    if ctx.has(path) and ctx.on(path) and not ctx.on("fp16.enabled"):
        if ctx.key("torch_autocast") is not None and ctx.on("torch_autocast.enabled"):
            return
        yield ctx.at(
            path,
            f"`auto_cast` casts inputs to fp16 though `fp16` is not enabled: the model is in "
            f"{model_format(ctx)}, and its layers do not take them",
            help="enable `fp16`, or remove `auto_cast`",
            fix=Fix("remove `auto_cast`", (Remove(ctx.place(path)),)),
        )


@rule("DSC311", effect="ignored", since="0.6.0", source="runtime/precision_config.py:get_bfloat16_config")
def bfloat16_beside_bf16(ctx: Context) -> Iterator[Finding]:
    """`bfloat16` stands beside `bf16`, its later name.

    DeepSpeed reads `bfloat16` only where there is no `bf16`.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": false}, "bfloat16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}}
    """
    new = ctx.data.get("bf16")
    if "bfloat16" in ctx.data and "bf16" in ctx.data and (new is not None or ctx.before("0.17.1")):
        yield ctx.at(
            "bfloat16",
            f"`bfloat16` is the old name of `bf16`, which is {kind(new)} here: DeepSpeed reads that alone",
            help="keep `bf16` alone",
            part="key",
            related=[("`bf16` is written here", "bf16")],
            fix=Fix("remove `bfloat16`", (Remove(("bfloat16",)),), safe=True),
        )
