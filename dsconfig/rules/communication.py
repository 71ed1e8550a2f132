"""Collectives: the dtype, scaling and operation of the gradient reduction."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import compact, one_of, quoted
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.rules._effective_values import (
    ZERO,
    bf16_optimizer,
    device_mesh,
    format_place,
    model_format,
    stage,
    stage_place,
    stage_set_here,
)
from dsconfig.rules._fixes import removal, renamed, without_effect

# The format in which gradients travel.

_FORMAT = "communication_data_type"
_SEQUENCE = "sequence_parallel_size"


@rule(
    "DSC986",
    effect="wasteful",
    since="0.5.8",
    source="runtime/engine.py:DeepSpeedEngine.communication_data_type",
)
def gradients_travel_in_fp16(ctx: Context) -> Iterator[Finding]:
    """`communication_data_type` is "fp16", and the model does not train in fp16.

    Gradients of a bfloat16 or fp32 model reach farther than fp16 does: above 65504 they become infinite on
    the way, and without `fp16` no loss scale keeps them below.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "communication_data_type": "fp16"}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "communication_data_type": "bf16"}
    """
    word = ctx.value(_FORMAT) if ctx.has(_FORMAT) else None
    if isinstance(word, str) and word.lower() == "fp16":
        model = model_format(ctx)
        if model != "fp16":
            yield ctx.at(
                _FORMAT,
                f"gradients of a model in {model} travel as fp16, where all above 65504 is infinite, and no "
                "loss scale keeps them below",
                help=f"use {one_of(_wide(ctx))}, or remove the key",
                related=format_place(ctx),
            )


def _wide(ctx: Context) -> list[str]:
    """The release's words for formats with the range of fp32; bf16 was "bfp16" once."""
    key = ctx.key(_FORMAT)
    known = {word for arm in key.type[1:] if arm[0] == "enum" for word in arm[1:]} if key else set()
    return [word for word in ("bf16", "bfp16", "fp32") if word in known]


@rule(
    "DSC987",
    effect="altered",
    since="0.15.0",
    source="runtime/engine.py:DeepSpeedEngine._configure_distributed_model",
)
def communication_format_of_sequence_parallel(ctx: Context) -> Iterator[Finding]:
    """`communication_data_type` is given, but sequence parallelism has a key of its own.

    With more than one rank for a sequence the engine takes `seq_parallel_communication_data_type`
    (`seq_parallel_comm_data_type` up to 0.16.4), fp32 where it is absent, for all gradients.

    Bad, as a dict:

        {"train_batch_size": 8, "communication_data_type": "bf16", "sequence_parallel_size": 2,
        "data_parallel_size": 4}

    Good, as a dict:

        {"train_batch_size": 8, "seq_parallel_communication_data_type": "bf16", "sequence_parallel_size": 2,
        "data_parallel_size": 4}
    """
    if not ctx.has(_FORMAT) or not device_mesh(ctx):
        return
    key = "seq_parallel_communication_data_type" if ctx.since("0.16.5") else "seq_parallel_comm_data_type"
    size, wanted, used = ctx.value(_SEQUENCE), ctx.value(_FORMAT), ctx.value(key)
    if isinstance(size, int) and size > 1 and isinstance(wanted, str) and wanted != used:
        yield ctx.at(
            _FORMAT,
            f"`{_FORMAT}` is {quoted(wanted)}, but `{key}` takes its place while {size} ranks share a "
            f"sequence: gradients travel as {quoted(used)}" + ("" if ctx.has(key) else ", its default"),
            help=f"rename it to `{key}`",
            related=[("sequences are shared here", _SEQUENCE)],
            fix=renamed(ctx, (_FORMAT,), key, wanted),
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
    """Gradients are to travel in fp32, which ZeRO does not do before 0.9.0.

    The config is accepted, and the engine stops: up to 0.5.7 on `fp32_allreduce`, from 0.5.8 to 0.8.1 on
    `communication_data_type` "fp32", in 0.8.2 and 0.8.3 still at stages 1 and 2 with `reduce_scatter`.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "communication_data_type": "fp32",
        "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 2}}
    """
    if ctx.before("0.5.8"):
        path = "fp32_allreduce"
        asked = ctx.has(path) and ctx.is_on(path)
    else:
        path = _FORMAT
        word = ctx.value(path) if ctx.has(path) else None
        asked = isinstance(word, str) and word.lower() == "fp32"
    if not asked or stage(ctx) < 1:
        return
    if ctx.since("0.8.2") and (
        stage(ctx) > 2 or not ctx.is_on(f"{ZERO}.reduce_scatter") or bf16_optimizer(ctx)
    ):
        return
    yield ctx.at(
        path,
        f"`{path}` is {quoted(ctx.raw(path))}, and ZeRO in DeepSpeed {ctx.release_name} communicates"
        " in 16 bits alone",
        help="remove it, or upgrade DeepSpeed to 0.9.0 or later",
        related=stage_set_here(ctx),
        fix=removal((path,)),
    )


# `gradient_allreduce_op`: what can only average.

_OP = "gradient_allreduce_op"
_ZENFLOW = "zero_optimization.zenflow"
_DEEPCOMPILE = "compile.deepcompile"


@rule("DSC901", effect="rejected", since="0.19.6", source="runtime/config.py:DeepSpeedConfig._do_error_check")
def summed_gradients_with_partner(ctx: Context) -> Iterator[Finding]:
    """`gradient_allreduce_op` is "sum" together with something that can only average.

    ZeRO stage 3, ZenFlow and DeepCompile reduce gradients themselves and always divide.

    Bad:

        {"train_batch_size": 8, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 2}}
    """
    op = ctx.value(_OP)
    if not isinstance(op, str) or op.lower() != "sum":
        return
    partners = {
        "ZeRO stage 3": stage_place(ctx) if stage(ctx) == 3 else None,
        "ZenFlow": _ZENFLOW if ctx.value(_ZENFLOW) is not None else None,
        "DeepCompile": _DEEPCOMPILE if ctx.is_on(_DEEPCOMPILE) else None,
    }
    there = {name: path for name, path in partners.items() if path}
    if there:
        names = " and ".join(there)
        yield ctx.at(
            _OP,
            f"`{_OP}` is {quoted(op)}, which does not work with {names}",
            help=f'use "mean", or do without {names}',
            related=[(f"{name} is switched on here", path) for name, path in there.items()],
        )


# `prescale_gradients` and `gradient_predivide_factor`: where they cannot be, where nobody looks.

_BUCKET = "runtime/engine.py:DeepSpeedEngine.allreduce_bucket"
_PRESCALE = "prescale_gradients"
_FACTOR = "gradient_predivide_factor"
_SCATTER = f"{ZERO}.reduce_scatter"


class _Scaling(NamedTuple):
    """How gradients are scaled around their reduction."""

    prescale: bool
    factor: float
    summed: bool
    scattered: bool
    """Reduced by an optimizer of ZeRO that hands every rank its own part."""
    level: float

    @property
    def keys(self) -> list[str]:
        """The keys that ask for something else than an average taken after the sum."""
        return [key for key, on in ((_PRESCALE, self.prescale), (_FACTOR, self.factor != 1)) if on]


def _scaling(ctx: Context) -> _Scaling:
    """What the config says about it.

    Raises:
        SkipRule: it says nothing, or something that is not a number.
    """
    if not ctx.has(_PRESCALE) and not ctx.has(_FACTOR):
        raise SkipRule
    factor, op, level = ctx.value(_FACTOR), ctx.value(_OP), stage(ctx)
    if not isinstance(factor, int | float):
        raise SkipRule
    own = level >= 1 and not bf16_optimizer(ctx)
    return _Scaling(
        prescale=ctx.is_on(_PRESCALE),
        factor=factor,
        summed=isinstance(op, str) and op.lower() == "sum",
        scattered=own and ctx.is_on(_SCATTER),
        level=level if own else 0,
    )


def _forbidden(ctx: Context, found: _Scaling) -> bool:
    """Whether the optimizer asserts that gradients are neither prescaled nor divided before."""
    if not found.scattered or (found.summed and found.level < 3):
        return False
    # The optimizer of stage 2 took stage 1 over in 0.5.9, and stopped to ask it in 0.13.0.
    return found.level >= 2 or ctx.between("0.5.9", "0.12.6")


@rule(
    "DSC983",
    effect="crashes",
    since="0.3.12",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__",
)
def gradient_scaling_with_reduce_scatter(ctx: Context) -> Iterator[Finding]:
    """`prescale_gradients` or `gradient_predivide_factor` meets ZeRO's reduce-scatter.

    At stages 2 and 3 `reduce_scatter`, which is on unless it is switched off, reduces and averages in one go.
    The engine says "is not yet supported with ZeRO-2 with reduce scatter enabled" (or ZeRO-3) and stops.

    Bad:

        {"train_batch_size": 8, "gradient_predivide_factor": 2.0, "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "gradient_predivide_factor": 2.0,
        "zero_optimization": {"stage": 2, "reduce_scatter": false}}
    """
    found = _scaling(ctx)
    if not _forbidden(ctx, found):
        return
    for key in found.keys:
        value = ctx.value(key)
        truth = ", a string that counts as true" if isinstance(value, str) else ""
        yield ctx.at(
            key,
            f"`{key}` is {quoted(value)}{truth}, which stage {compact(found.level)} does not support while "
            "`reduce_scatter` is on" + ("" if ctx.has(_SCATTER) else ", as it is by default"),
            help=f"remove `{key}`" + (", or set `reduce_scatter` to `false`" if not truth else ""),
            related=[*stage_set_here(ctx), *([("it is on here", _SCATTER)] if ctx.has(_SCATTER) else [])],
            fix=removal(ctx.written_path(key)),
        )


@rule("DSC984", effect="ignored", source=_BUCKET)
def gradient_scaling_without_effect(ctx: Context) -> Iterator[Finding]:
    """`prescale_gradients` or `gradient_predivide_factor` is not looked at.

    A reduction that sums skips both. With `prescale_gradients` all of the division comes first, so that there
    is nothing left for the factor. ZeRO stage 1 with `reduce_scatter`, the default, averages in its own way.

    Bad:

        {"train_batch_size": 8, "prescale_gradients": true, "gradient_predivide_factor": 2.0}

    Good:

        {"train_batch_size": 8, "gradient_predivide_factor": 2.0}

    Bad:

        {"train_batch_size": 8, "prescale_gradients": true, "gradient_allreduce_op": "sum"}

    Good:

        {"train_batch_size": 8, "prescale_gradients": true}
    """
    found = _scaling(ctx)
    if _forbidden(ctx, found):
        return
    if found.summed:
        idle, why, there = found.keys, 'gradients are summed (`gradient_allreduce_op` is "sum")', _OP
    elif found.scattered and (found.level > 1 or ctx.since("0.13.0")):
        idle, there = found.keys, _SCATTER
        why = f"stage {compact(found.level)} averages in its own way while `reduce_scatter` is on"
    elif found.prescale and found.factor != 1:
        idle, why, there = [_FACTOR], "`prescale_gradients` divides by the whole world size", _PRESCALE
    else:
        return
    if idle:
        related = [("this is said here", there)] if ctx.has(there) else []
        yield without_effect(ctx, idle, why, help="remove what has no effect", related=related)


@rule("DSC985", effect="crashes", source=_BUCKET)
def predivide_factor_zero(ctx: Context) -> Iterator[Finding]:
    """`gradient_predivide_factor` is 0, and gradients are divided by it.

    The first reduction ends in "division by zero". 1 leaves the division to the end.

    Bad:

        {"train_batch_size": 8, "gradient_predivide_factor": 0}

    Good:

        {"train_batch_size": 8, "gradient_predivide_factor": 1.0}
    """
    found = _scaling(ctx)
    if found.factor == 0 and not found.summed and not found.prescale and not found.scattered:
        yield ctx.at(
            _FACTOR,
            f"`{_FACTOR}` is {quoted(ctx.value(_FACTOR))}, and every gradient is divided by it"
            + (": all of them become infinite" if found.level == 3 else ""),
            help="give a positive number, or remove the key: the default is `1.0`",
            effect="altered" if found.level == 3 else "crashes",  # tensors divide by 0 without complaint
            fix=removal((_FACTOR,)),
        )
