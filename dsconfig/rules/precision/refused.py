"""What the sections of number formats refuse as soon as the config is loaded."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._precision import bf16_place
from dsconfig.rules._zero import stage, stage_place, stage_words
from dsconfig.words import kind, quoted

_INIT = "runtime/config.py:DeepSpeedConfig._initialize_params"
_CHECK = "runtime/config.py:DeepSpeedConfig._do_error_check"
_FP16 = "runtime/precision_config.py:DeepSpeedFP16Config"
_BIGGEST_POWER = 2**40
"""No memory holds 2 to the power of more."""


@rule("DSC301", effect="rejected", since="0.5.5", source=_INIT)
def fp16_and_bf16(ctx: Context) -> Iterator[Finding]:
    """`fp16` and `bf16` are both enabled.

    A model trains in one of the two. Up to 0.17.0 the sections are read by hand, and whatever is not empty
    counts as true: `"auto"` too, where nobody fills it.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "bf16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": false}, "bf16": {"enabled": true}}
    """
    there = bf16_place(ctx, "enabled")
    if there and ctx.on("fp16.enabled"):
        section = there.split(".")[0]
        yield ctx.at(
            "fp16.enabled",
            f"`fp16` and `{section}` are both enabled",
            help=f"disable one: `{section}` needs no loss scaling, `fp16` runs on older GPUs",
            related=[(f"`{section}` is enabled here", there)],
            fix=Fix("disable `fp16`", (Set(ctx.place("fp16.enabled"), False),)),
        )


@rule("DSC302", effect="rejected", since="0.5.5", until="0.6.1", source=_INIT)
def bf16_at_unsupported_stage(ctx: Context) -> Iterator[Finding]:
    """bfloat16 is enabled at a ZeRO stage that cannot train in it yet.

    The first releases with bfloat16 took it at stage 2 alone; 0.6.0 and 0.6.1 at stages 1 to 3.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
    """
    there = bf16_place(ctx, "enabled")
    stages = (2,) if ctx.before("0.6.0") else (1, 2, 3)
    if there and stage(ctx) not in stages:
        section = there.split(".")[0]
        needed = "stage 2" if len(stages) == 1 else "stage 1, 2 or 3"
        yield ctx.at(
            there,
            f"`{section}` needs ZeRO {needed} in DeepSpeed {ctx.release_name}, but {stage_words(ctx)}",
            help=f"use ZeRO {needed}, or DeepSpeed 0.6.3 or later",
            related=[("the stage is set here", stage_place(ctx))] if ctx.has("zero_optimization") else [],
        )


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


def _is_exponent(power: Any) -> bool:
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


@dataclass(frozen=True, slots=True)
class _Narrow:
    """A key that keeps more than the model in 16 bits."""

    section: str
    key: str
    since: str


_NARROW = (
    _Narrow("fp16", "fp16_master_weights_and_grads", "0.5.0"),
    _Narrow("bf16", "bf16_master_weights_and_grads", "0.18.3"),
    _Narrow("bf16", "bf16_optimizer_states", "0.18.3"),
)


@rule("DSC307", effect="rejected", since="0.5.0", source=_CHECK)
def half_precision_master_weights_without_zero(ctx: Context) -> Iterator[Finding]:
    """Master weights or optimizer states are to stay in 16 bits, and ZeRO is not at a stage that can do so.

    Up to 0.18.2 that is stage 2 alone, from then on any from 1 to 3. From 0.17.1 on it is checked even where
    the section is not enabled.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "fp16_master_weights_and_grads": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "fp16_master_weights_and_grads": true},
        "zero_optimization": {"stage": 2}}
    """
    stages = (1, 2, 3) if ctx.since("0.18.3") else (2,)
    for row in _NARROW:
        if ctx.before(row.since) or stage(ctx) in stages:
            continue
        there = f"fp16.{row.key}" if row.section == "fp16" and ctx.on(f"fp16.{row.key}") else None
        if row.section == "bf16":
            there = bf16_place(ctx, row.key)
        if there and (ctx.since("0.17.1") or ctx.on("fp16.enabled")):
            needed = "stage 2" if len(stages) == 1 else "stage 1, 2 or 3"
            yield ctx.at(
                there,
                f"`{row.key}` needs ZeRO {needed}, but {stage_words(ctx)}",
                help=f"use ZeRO {needed}, or remove `{row.key}`",
                related=[("the stage is set here", stage_place(ctx))] if ctx.has("zero_optimization") else [],
                fix=Fix(f"remove `{row.key}`", (Remove(ctx.place(there)),)),
            )


@rule("DSC308", effect="rejected", since="0.18.3", source=_CHECK)
def bf16_optimizer_states_without_master_weights(ctx: Context) -> Iterator[Finding]:
    """`bf16_optimizer_states` is on without `bf16_master_weights_and_grads`.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true,
        "bf16_optimizer_states": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true,
        "bf16_optimizer_states": true, "bf16_master_weights_and_grads": true}}
    """
    there = bf16_place(ctx, "bf16_optimizer_states")
    if there and not bf16_place(ctx, "bf16_master_weights_and_grads"):
        yield ctx.at(
            there,
            "`bf16_optimizer_states` is on, but `bf16_master_weights_and_grads` is not",
            help="switch on both, or neither",
            fix=Fix(
                "switch on `bf16_master_weights_and_grads`",
                (Set((*ctx.place(there)[:-1], "bf16_master_weights_and_grads"), True),),
            ),
        )


@rule("DSC309", effect="rejected", until="0.19.7", source="runtime/config.py:get_amp_params")
def amp_without_enabled(ctx: Context) -> Iterator[Finding]:
    """The section `amp` does not say `enabled`.

    DeepSpeed takes that key out of the section before it hands the rest to Apex, and fails where there is
    none.

    Bad:

        {"train_batch_size": 8, "amp": {"opt_level": "O1"}}

    Good:

        {"train_batch_size": 8, "amp": {"enabled": true, "opt_level": "O1"}}
    """
    if isinstance(ctx.written("amp"), dict) and not ctx.has("amp.enabled"):
        yield ctx.at(
            "amp",
            "`amp` has no `enabled`, which DeepSpeed demands here",
            help='add `"enabled": true` or `false`, or remove the section',
            part="key",
        )


@rule(
    "DSC310", effect="rejected", since="0.17.2", source="runtime/config.py:get_lower_precision_safe_modules"
)
def autocast_modules_not_names(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast.lower_precision_safe_modules` is no list, or holds something that is no string.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "lower_precision_safe_modules": [1]}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true,
        "lower_precision_safe_modules": ["torch.nn.Linear"]}}
    """
    path = "torch_autocast.lower_precision_safe_modules"
    modules = ctx.written(path)
    if modules is MISSING or isinstance(modules, str | dict):  # Python runs through both, string by string
        return
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        yield ctx.at(
            path,
            f"`lower_precision_safe_modules` is {quoted(modules)}, but must be a list of class names",
            help='give full names, such as `["torch.nn.Linear"]`, or remove the key',
        )
