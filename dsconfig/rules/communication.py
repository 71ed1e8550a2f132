"""Gradient reduction: its dtype, scaling and operation."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import format_number, join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.rules._effective_values import (
    ZERO,
    builds_device_mesh,
    effective_stage,
    related_dtype,
    related_stage,
    stage_path,
    training_dtype,
    uses_bf16_optimizer,
)
from dsconfig.rules._fixes import remove_key, rename_key, report_keys_without_effect

# The dtype of the gradient reduction.

_DTYPE = "communication_data_type"
_SEQUENCE = "sequence_parallel_size"


@rule(
    "DSC986",
    effect="wasteful",
    since="0.5.8",
    source="runtime/engine.py:DeepSpeedEngine.communication_data_type",
)
def gradients_travel_in_fp16(ctx: Context) -> Iterator[Finding]:
    """`communication_data_type` is "fp16", but the model does not train in fp16.

    Gradients of a bf16 or fp32 model can exceed the fp16 range. Values above 65504 become infinite in the reduction,
    and without `fp16` there is no loss scaling to prevent that.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "communication_data_type": "fp16"}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "communication_data_type": "bf16"}
    """
    dtype = ctx.value(_DTYPE) if ctx.has(_DTYPE) else None
    if isinstance(dtype, str) and dtype.lower() == "fp16":
        model = training_dtype(ctx)
        if model != "fp16":
            yield ctx.at(
                _DTYPE,
                f"`{_DTYPE}` is {quote_value(dtype)}, but the model trains in {model} without loss scaling: "
                "gradients above 65504 become infinite when they are reduced",
                help=f"use {join_alternatives(_dtypes_with_fp32_range(ctx))}, or remove it",
                related=related_dtype(ctx),
            )


def _dtypes_with_fp32_range(ctx: Context) -> list[str]:
    """Return the names of dtypes with the range of fp32; early releases call bf16 "bfp16"."""
    key = ctx.key(_DTYPE)
    names = {name for arm in key.type[1:] if arm[0] == "enum" for name in arm[1:]} if key else set()
    return [name for name in ("bf16", "bfp16", "fp32") if name in names]


@rule(
    "DSC987",
    effect="altered",
    since="0.15.0",
    source="runtime/engine.py:DeepSpeedEngine._configure_distributed_model",
)
def communication_format_of_sequence_parallel(ctx: Context) -> Iterator[Finding]:
    """`communication_data_type` has no effect, because sequence parallelism has its own key.

    With a `sequence_parallel_size` above 1, the engine uses `seq_parallel_communication_data_type`
    (`seq_parallel_comm_data_type` up to 0.16.4) for all gradients; its default is fp32.

    Bad, as a dict:

        {"train_batch_size": 8, "communication_data_type": "bf16", "sequence_parallel_size": 2,
        "data_parallel_size": 4}

    Good, as a dict:

        {"train_batch_size": 8, "seq_parallel_communication_data_type": "bf16", "sequence_parallel_size": 2,
        "data_parallel_size": 4}
    """
    if not ctx.has(_DTYPE) or not builds_device_mesh(ctx):
        return
    key = "seq_parallel_communication_data_type" if ctx.since("0.16.5") else "seq_parallel_comm_data_type"
    size, wanted, used = ctx.value(_SEQUENCE), ctx.value(_DTYPE), ctx.value(key)
    if isinstance(size, int) and size > 1 and isinstance(wanted, str) and wanted != used:
        yield ctx.at(
            _DTYPE,
            f"`{_DTYPE}` is {quote_value(wanted)}, but with a sequence-parallel size of {size} DeepSpeed uses "
            f"`{key}`: gradients are reduced in {quote_value(used)}"
            + ("" if ctx.has(key) else ", its default"),
            help=f"rename it to `{key}`",
            related=[("sequence parallelism is set here", _SEQUENCE)],
            fix=rename_key(ctx, (_DTYPE,), key, wanted),
        )


@rule(
    "DSC903",
    effect="crashes",
    since="0.3.3",
    until="0.8.3",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer,"
    " runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__",
)
def fp32_communication_with_zero(ctx: Context) -> Iterator[Finding]:
    """ZeRO does not support gradient reduction in fp32 before 0.9.0.

    DeepSpeed accepts the config, but the engine raises: up to 0.5.7 for `fp32_allreduce`, from 0.5.8 to 0.8.1
    for `communication_data_type` "fp32", and in 0.8.2 and 0.8.3 at stages 1 and 2 with `reduce_scatter`.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "communication_data_type": "fp32",
        "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 2}}
    """
    if ctx.before("0.5.8"):
        path = "fp32_allreduce"
        is_fp32 = ctx.has(path) and ctx.is_on(path)
    else:
        path = _DTYPE
        dtype = ctx.value(path) if ctx.has(path) else None
        is_fp32 = isinstance(dtype, str) and dtype.lower() == "fp32"
    if not is_fp32 or effective_stage(ctx) < 1:
        return
    if ctx.since("0.8.2") and (
        effective_stage(ctx) > 2 or not ctx.is_on(f"{ZERO}.reduce_scatter") or uses_bf16_optimizer(ctx)
    ):
        return
    yield ctx.at(
        path,
        f"`{path}` is {quote_value(ctx.raw(path))}, but ZeRO in DeepSpeed {ctx.release_name} reduces gradients"
        " only in 16 bits",
        help="remove it, or upgrade DeepSpeed to 0.9.0 or later",
        related=related_stage(ctx),
        fix=remove_key((path,)),
    )


# `gradient_allreduce_op`.

_OP = "gradient_allreduce_op"
_ZENFLOW = "zero_optimization.zenflow"
_DEEPCOMPILE = "compile.deepcompile"


@rule("DSC901", effect="rejected", since="0.19.6", source="runtime/config.py:DeepSpeedConfig._do_error_check")
def summed_gradients_with_partner(ctx: Context) -> Iterator[Finding]:
    """`gradient_allreduce_op` is "sum", but a feature in use supports only averaging.

    ZeRO stage 3, ZenFlow and DeepCompile implement their own gradient reduction, which always averages.

    Bad:

        {"train_batch_size": 8, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 2}}
    """
    op = ctx.value(_OP)
    if not isinstance(op, str) or op.lower() != "sum":
        return
    features = {
        "ZeRO stage 3": stage_path(ctx) if effective_stage(ctx) == 3 else None,
        "ZenFlow": _ZENFLOW if ctx.value(_ZENFLOW) is not None else None,
        "DeepCompile": _DEEPCOMPILE if ctx.is_on(_DEEPCOMPILE) else None,
    }
    enabled = {name: path for name, path in features.items() if path}
    if enabled:
        *others, last = enabled
        names = f"{', '.join(others)} and {last}" if others else last
        yield ctx.at(
            _OP,
            f"`{_OP}` is {quote_value(op)}, which does not work with {names}",
            help=f'use "mean", or disable {names}',
            related=[(f"{name} is switched on here", path) for name, path in enabled.items()],
        )


# `prescale_gradients` and `gradient_predivide_factor`.

_BUCKET = "runtime/engine.py:DeepSpeedEngine.allreduce_bucket"
_PRESCALE = "prescale_gradients"
_FACTOR = "gradient_predivide_factor"
_SCATTER = f"{ZERO}.reduce_scatter"


class _GradientScaling(NamedTuple):
    """How gradients are scaled before and after their reduction."""

    prescale: bool
    factor: float
    summed: bool
    scattered: bool
    """Whether a ZeRO optimizer reduces the gradients with reduce-scatter."""
    stage: float
    """ZeRO stage of the reduction, or 0 if the engine reduces the gradients."""

    @property
    def keys(self) -> list[str]:
        """The keys that change the default, which is to divide after the reduction."""
        return [key for key, on in ((_PRESCALE, self.prescale), (_FACTOR, self.factor != 1)) if on]


def _gradient_scaling(ctx: Context) -> _GradientScaling:
    """Return the gradient scaling that the config requests.

    Raises:
        SkipRule: the config has neither scaling key, or a factor that is not a number.
    """
    if not ctx.has(_PRESCALE) and not ctx.has(_FACTOR):
        raise SkipRule
    factor, op, zero_stage = ctx.value(_FACTOR), ctx.value(_OP), effective_stage(ctx)
    if not isinstance(factor, int | float):
        raise SkipRule
    reduced_by_zero = zero_stage >= 1 and not uses_bf16_optimizer(ctx)
    return _GradientScaling(
        prescale=ctx.is_on(_PRESCALE),
        factor=factor,
        summed=isinstance(op, str) and op.lower() == "sum",
        scattered=reduced_by_zero and ctx.is_on(_SCATTER),
        stage=zero_stage if reduced_by_zero else 0,
    )


def _is_scaling_rejected(ctx: Context, scaling: _GradientScaling) -> bool:
    """Return whether the ZeRO optimizer rejects prescaled and predivided gradients."""
    if not scaling.scattered or (scaling.summed and scaling.stage < 3):
        return False
    # The stage 2 optimizer also implements stage 1 from 0.5.9 on, and has not asserted this for it since 0.13.0.
    return scaling.stage >= 2 or ctx.between("0.5.9", "0.12.6")


@rule(
    "DSC983",
    effect="crashes",
    since="0.3.12",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__",
)
def gradient_scaling_with_reduce_scatter(ctx: Context) -> Iterator[Finding]:
    """ZeRO's reduce-scatter does not support `prescale_gradients` or `gradient_predivide_factor`.

    At stages 2 and 3, `reduce_scatter` (on by default) reduces and averages in one operation. The engine
    raises "is not yet supported with ZeRO-2 with reduce scatter enabled" (or ZeRO-3).

    Bad:

        {"train_batch_size": 8, "gradient_predivide_factor": 2.0, "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "gradient_predivide_factor": 2.0,
        "zero_optimization": {"stage": 2, "reduce_scatter": false}}
    """
    scaling = _gradient_scaling(ctx)
    if not _is_scaling_rejected(ctx, scaling):
        return
    for key in scaling.keys:
        value = ctx.value(key)
        truth = ", a string that counts as true" if isinstance(value, str) else ""
        yield ctx.at(
            key,
            f"`{key}` is {quote_value(value)}{truth}, but stage {format_number(scaling.stage)} does "
            "not support it while "
            "`reduce_scatter` is on" + ("" if ctx.has(_SCATTER) else " (the default)"),
            help=f"remove `{key}`" + (", or set `reduce_scatter` to `false`" if not truth else ""),
            related=[
                *related_stage(ctx),
                *([("`reduce_scatter` is on here", _SCATTER)] if ctx.has(_SCATTER) else []),
            ],
            fix=remove_key(ctx.written_path(key)),
        )


@rule("DSC984", effect="ignored", source=_BUCKET)
def gradient_scaling_without_effect(ctx: Context) -> Iterator[Finding]:
    """`prescale_gradients` or `gradient_predivide_factor` has no effect.

    A reduction with "sum" ignores both keys. With `prescale_gradients`, all of the division happens before the
    reduction, so the factor is not used. ZeRO stage 1 with `reduce_scatter` (the default) implements its own averaging.

    Bad:

        {"train_batch_size": 8, "prescale_gradients": true, "gradient_predivide_factor": 2.0}

    Good:

        {"train_batch_size": 8, "gradient_predivide_factor": 2.0}

    Bad:

        {"train_batch_size": 8, "prescale_gradients": true, "gradient_allreduce_op": "sum"}

    Good:

        {"train_batch_size": 8, "prescale_gradients": true}
    """
    scaling = _gradient_scaling(ctx)
    if _is_scaling_rejected(ctx, scaling):
        return
    if scaling.summed:
        unused, why, cause = scaling.keys, 'gradients are summed (`gradient_allreduce_op` is "sum")', _OP
    elif scaling.scattered and (scaling.stage > 1 or ctx.since("0.13.0")):
        unused, cause = scaling.keys, _SCATTER
        why = (
            f"stage {format_number(scaling.stage)} implements its own averaging while `reduce_scatter` is on"
        )
    elif scaling.prescale and scaling.factor != 1:
        unused, why, cause = [_FACTOR], "`prescale_gradients` already divides by the world size", _PRESCALE
    else:
        return
    if unused:
        related = [("the cause is set here", cause)] if ctx.has(cause) else []
        yield report_keys_without_effect(
            ctx, unused, why, help="remove them" if len(unused) > 1 else "remove it", related=related
        )


@rule("DSC985", effect="crashes", source=_BUCKET)
def predivide_factor_zero(ctx: Context) -> Iterator[Finding]:
    """`gradient_predivide_factor` is 0, but DeepSpeed divides gradients by it.

    The first reduction raises "division by zero". With a factor of 1, all of the division happens after the reduction.

    Bad:

        {"train_batch_size": 8, "gradient_predivide_factor": 0}

    Good:

        {"train_batch_size": 8, "gradient_predivide_factor": 1.0}
    """
    scaling = _gradient_scaling(ctx)
    if scaling.factor == 0 and not scaling.summed and not scaling.prescale and not scaling.scattered:
        yield ctx.at(
            _FACTOR,
            f"`{_FACTOR}` is {quote_value(ctx.value(_FACTOR))}, but DeepSpeed divides every gradient by it"
            + (": all gradients become infinite" if scaling.stage == 3 else ""),
            help="set it to a positive number, or remove it: the default is `1.0`",
            effect="altered" if scaling.stage == 3 else "crashes",  # dividing a tensor by 0 does not raise
            fix=remove_key((_FACTOR,)),
        )
