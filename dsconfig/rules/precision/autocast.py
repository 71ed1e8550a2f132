"""`torch_autocast`: conflicts, unsupported dtypes, and modules that cannot be imported."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.json_types import Json
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding
from dsconfig.rules._effective_values import (
    ZERO,
    enabled_bf16_path,
    has_autocast,
    normalize_dtype,
    related_dtype,
    training_dtype,
)
from dsconfig.rules._fixes import remove_key

# `torch_autocast`: conflicts with other settings, and dtypes without effect.

_INIT = "runtime/torch_autocast.py:init_autocast_params"
_ENABLED = "torch_autocast.enabled"
_DTYPE = "torch_autocast.dtype"
_WEIGHTS = f"{ZERO}.zero_quantized_weights"


@rule("DSC351", effect="crashes", since="0.17.2", source=f"{_INIT}, _validate_auto_cast_settings")
def autocast_with_quantized_weights(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast` is enabled together with `zero_optimization.zero_quantized_weights`.

    Engine initialization fails with "Cannot enable both torch autocast and zero quantized weights", at every
    stage.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"},
        "zero_optimization": {"stage": 3, "zero_quantized_weights": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true},
        "zero_optimization": {"stage": 3, "zero_quantized_weights": true}}
    """
    if has_autocast(ctx) and ctx.is_on(_WEIGHTS):
        yield ctx.at(
            _WEIGHTS,
            "`zero_quantized_weights` does not work with `torch_autocast`, but both are enabled",
            help="remove it, or set `torch_autocast.enabled` to `false`",
            related=[("autocast is enabled here", _ENABLED)],
            fix=remove_key(ctx.written_path(_WEIGHTS)),
        )


@rule("DSC352", effect="wasteful", since="0.17.2", source="runtime/engine.py:DeepSpeedEngine.__init__")
def autocast_beside_half_precision(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast` is enabled together with `fp16` or `bf16`.

    Autocast is for a model in fp32, whose weights it casts operation by operation. With `fp16` or `bf16`, the
    model is already in 16 bits: operations that autocast would run in fp32 run in 16 bits, and its casts only
    cost time.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true},
        "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}
    """
    dtype = training_dtype(ctx) if has_autocast(ctx) else "fp32"
    if dtype != "fp32":
        section = "fp16" if dtype == "fp16" else (enabled_bf16_path(ctx) or "bf16").partition(".")[0]
        yield ctx.at(
            _ENABLED,
            f"`torch_autocast` and `{section}` are both enabled: DeepSpeed casts the whole model to {dtype},"
            " so autocast has no effect",
            help=f"keep one: `{section}` needs less memory, `torch_autocast` keeps the weights in fp32",
            related=related_dtype(ctx),
        )


@rule("DSC353", effect="ignored", since="0.17.2", source="runtime/config.py:get_torch_autocast_dtype")
def autocast_format_without_effect(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast.dtype` is a dtype that PyTorch does not autocast to.

    DeepSpeed accepts "fp32" and "int8", which are in its list of dtypes. PyTorch warns and disables autocast.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "fp32"}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}
    """
    if has_autocast(ctx) and ctx.has(_DTYPE) and normalize_dtype(ctx.value(_DTYPE)) in ("fp32", "int8"):
        yield ctx.at(
            _DTYPE,
            f"`dtype` is {quote_value(ctx.value(_DTYPE))}, but PyTorch does not autocast to it: autocast stays"
            " off",
            help='use "bfloat16" or "float16"',
        )


@rule("DSC354", effect="wasteful", since="0.17.2", source=_INIT)
def autocast_format_not_named(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast` is enabled without a `dtype`.

    PyTorch then uses its default for the device: float16 on CUDA, bfloat16 on a CPU. DeepSpeed does not know
    about it, so it does not scale the loss for float16.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}
    """
    if has_autocast(ctx) and not ctx.has(_DTYPE):
        yield ctx.at(
            "torch_autocast",
            "`torch_autocast` has no `dtype`: PyTorch uses float16 on CUDA, but DeepSpeed does not scale the"
            " loss for it",
            help='add `"dtype": "bfloat16"`',
            part="key",
            fix=Fix('add `"dtype": "bfloat16"`', (SetValue(("torch_autocast", "dtype"), "bfloat16"),)),
        )


# `torch_autocast.lower_precision_safe_modules`: the classes that the engine imports.

_MODULES = "torch_autocast.lower_precision_safe_modules"


@rule(
    "DSC310", effect="rejected", since="0.17.2", source="runtime/config.py:get_lower_precision_safe_modules"
)
def autocast_modules_not_names(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast.lower_precision_safe_modules` is not a list of strings.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "lower_precision_safe_modules": [1]}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true,
        "lower_precision_safe_modules": ["torch.nn.Linear"]}}
    """
    path = "torch_autocast.lower_precision_safe_modules"
    modules = ctx.raw(path)
    if modules is MISSING or isinstance(modules, str | dict):  # iterating over these yields strings
        return
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        yield ctx.at(
            path,
            f"`lower_precision_safe_modules` is {quote_value(modules)}, but must be a list of class names",
            help='use full class names, such as `["torch.nn.Linear"]`, or remove the key',
        )


@rule("DSC350", effect="crashes", since="0.17.2", source=_INIT)
def autocast_modules_not_importable(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast.lower_precision_safe_modules` names a class without its module.

    The engine imports each entry, so it needs the full name: `torch.nn.Linear`, not `Linear`. It reads a
    string instead of a list character by character. Engine initialization fails with "Failed to import lower
    precision safe module".

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16",
        "lower_precision_safe_modules": ["Linear"]}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16",
        "lower_precision_safe_modules": ["torch.nn.Linear"]}}
    """
    modules = ctx.value(_MODULES) if has_autocast(ctx) and ctx.has(_MODULES) else None
    if isinstance(modules, str) and modules:
        yield ctx.at(
            _MODULES,
            f"`lower_precision_safe_modules` is a string, {quote_value(modules)}, but the engine imports each"
            " character of it",
            help=f"use `[{quote_value(modules).strip('`')}]`",
            fix=Fix(
                "put it into a list", (SetValue(ctx.written_path(_MODULES), [modules]),), safe="." in modules
            ),
        )
    elif isinstance(modules, list):
        for index, name in enumerate(modules):
            if not _is_module_missing(name):
                continue
            yield ctx.at(
                (*ctx.written_path(_MODULES), index),
                f"{quote_value(name)} is not a fully qualified class name, so the class cannot be imported",
                help=f'use the full name of the class, such as `"torch.nn.{name or "Linear"}"`',
            )


def _is_module_missing(name: Json) -> bool:
    return isinstance(name, str) and "." not in name
