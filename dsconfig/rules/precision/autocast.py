"""`torch_autocast`: conflicts, dtypes without effect, and the modules it imports."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._effective_values import (
    ZERO,
    autocasts,
    bf16_place,
    format_of,
    format_place,
    model_format,
)
from dsconfig.rules._fixes import removal

# `torch_autocast`: what it cannot be combined with, and formats that leave it without use.

_INIT = "runtime/torch_autocast.py:init_autocast_params"
_ENABLED = "torch_autocast.enabled"
_DTYPE = "torch_autocast.dtype"
_WEIGHTS = f"{ZERO}.zero_quantized_weights"


@rule("DSC351", effect="crashes", since="0.17.2", source=f"{_INIT}, _validate_auto_cast_settings")
def autocast_with_quantized_weights(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast` is enabled together with `zero_optimization.zero_quantized_weights`.

    The engine says "Cannot enable both torch autocast and zero quantized weights" and stops, at every stage.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"},
        "zero_optimization": {"stage": 3, "zero_quantized_weights": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true},
        "zero_optimization": {"stage": 3, "zero_quantized_weights": true}}
    """
    if autocasts(ctx) and ctx.is_on(_WEIGHTS):
        yield ctx.at(
            _WEIGHTS,
            "`zero_quantized_weights` does not work with `torch_autocast`, and both are on",
            help="remove it, or set `torch_autocast.enabled` to `false`",
            related=[("autocast is enabled here", _ENABLED)],
            fix=removal(ctx.written_path(_WEIGHTS)),
        )


@rule("DSC352", effect="wasteful", since="0.17.2", source="runtime/engine.py:DeepSpeedEngine.__init__")
def autocast_beside_half_precision(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast` is enabled together with `fp16` or `bf16`.

    Autocast is meant for a model in fp32, whose weights it casts operation by operation. With `fp16` or
    `bf16` the model is in 16 bits already: what autocast protects is lost, and its casts only cost time.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true},
        "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}
    """
    model = model_format(ctx) if autocasts(ctx) else "fp32"
    if model != "fp32":
        section = "fp16" if model == "fp16" else (bf16_place(ctx) or "bf16").partition(".")[0]
        yield ctx.at(
            _ENABLED,
            f"`torch_autocast` and `{section}` are both enabled: the whole model is cast to {model}, and "
            "autocast has nothing left to choose",
            help=f"keep one: `{section}` takes less memory, `torch_autocast` keeps weights in fp32",
            related=format_place(ctx),
        )


@rule("DSC353", effect="ignored", since="0.17.2", source="runtime/config.py:get_torch_autocast_dtype")
def autocast_format_without_effect(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast.dtype` is a format that PyTorch does not autocast to.

    DeepSpeed takes "fp32" and "int8", which are in its list of formats; PyTorch warns, and switches autocast
    off.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "fp32"}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}
    """
    if autocasts(ctx) and ctx.has(_DTYPE) and format_of(ctx.value(_DTYPE)) in ("fp32", "int8"):
        yield ctx.at(
            _DTYPE,
            f"`dtype` is {quoted(ctx.value(_DTYPE))}, to which PyTorch does not autocast: autocast stays off",
            help='use "bfloat16" or "float16"',
        )


@rule("DSC354", effect="wasteful", since="0.17.2", source=_INIT)
def autocast_format_not_named(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast` is enabled and names no `dtype`.

    PyTorch then takes its own default for the device: float16 on CUDA, bfloat16 on a CPU. DeepSpeed does not
    know of it, and scales no loss for that float16.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16"}}
    """
    if autocasts(ctx) and not ctx.has(_DTYPE):
        yield ctx.at(
            "torch_autocast",
            "`torch_autocast` names no `dtype`: PyTorch takes float16 on CUDA, and DeepSpeed scales no loss "
            "for it",
            help='add `"dtype": "bfloat16"`',
            part="key",
            fix=Fix('add `"dtype": "bfloat16"`', (Set(("torch_autocast", "dtype"), "bfloat16"),)),
        )


# `torch_autocast.lower_precision_safe_modules`: the classes that the engine imports.

_MODULES = "torch_autocast.lower_precision_safe_modules"


@rule(
    "DSC310", effect="rejected", since="0.17.2", source="runtime/config.py:get_lower_precision_safe_modules"
)
def autocast_modules_not_names(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast.lower_precision_safe_modules` is not a list, or holds something that is not a string.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "lower_precision_safe_modules": [1]}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true,
        "lower_precision_safe_modules": ["torch.nn.Linear"]}}
    """
    path = "torch_autocast.lower_precision_safe_modules"
    modules = ctx.raw(path)
    if modules is MISSING or isinstance(modules, str | dict):  # Python runs through both, string by string
        return
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        yield ctx.at(
            path,
            f"`lower_precision_safe_modules` is {quoted(modules)}, but must be a list of class names",
            help='give full names, such as `["torch.nn.Linear"]`, or remove the key',
        )


@rule("DSC350", effect="crashes", since="0.17.2", source=_INIT)
def autocast_modules_not_importable(ctx: Context) -> Iterator[Finding]:
    """`torch_autocast.lower_precision_safe_modules` names a class without its module.

    The engine imports each entry, so that it needs the full name: `torch.nn.Linear`, not `Linear`. A string
    in place of the list is taken letter by letter. The engine says "Failed to import lower precision safe
    module" and stops.

    Bad:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16",
        "lower_precision_safe_modules": ["Linear"]}}

    Good:

        {"train_batch_size": 8, "torch_autocast": {"enabled": true, "dtype": "bfloat16",
        "lower_precision_safe_modules": ["torch.nn.Linear"]}}
    """
    modules = ctx.value(_MODULES) if autocasts(ctx) and ctx.has(_MODULES) else None
    if isinstance(modules, str) and modules:
        yield ctx.at(
            _MODULES,
            f"`lower_precision_safe_modules` is a string, {quoted(modules)}, of which the engine imports "
            "every letter",
            help=f"write `[{quoted(modules).strip('`')}]`",
            fix=Fix("put it in a list", (Set(ctx.written_path(_MODULES), [modules]),), safe="." in modules),
        )
    elif isinstance(modules, list):
        bare = [(index, word) for index, word in enumerate(modules) if _bare(word)]
        for index, word in bare:
            yield ctx.at(
                (*ctx.written_path(_MODULES), index),
                f"{quoted(word)} names no module to import it from",
                help=f'give the full name of the class, such as "torch.nn.{word or "Linear"}"',
            )


def _bare(word: Json) -> bool:
    return isinstance(word, str) and "." not in word
