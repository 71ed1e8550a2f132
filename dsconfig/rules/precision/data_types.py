"""`data_types`: formats that contradict the model's, or leave settings of ZeRO unread."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import bf16_optimizer, format_of, format_place, model_format
from dsconfig.rules._fixes import removal
from dsconfig.rules._no_effect import differs_from_default, without_effect
from dsconfig.rules._stage import ZERO, stage_place

_SECTION = "data_types"
_ACCUMULATION = f"{_SECTION}.grad_accum_dtype"
_PARAM = f"{_SECTION}.param_dtype"
_BUFFER = f"{_SECTION}.buffer_dtype"


@rule(
    "DSC342",
    effect="crashes",
    since="0.19.2",
    source="runtime/engine.py:DeepSpeedEngine._assert_valid_mixed_precision_config",
)
def parameter_format_contradicts_precision(ctx: Context) -> Iterator[Finding]:
    """`data_types.param_dtype` is another format than the one that `fp16` and `bf16` choose.

    The key can only repeat it. Otherwise the engine says that it "conflicts with the enabled precision mode"
    and stops.

    Bad:

        {"train_batch_size": 8, "data_types": {"param_dtype": "bf16"}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"param_dtype": "bf16"}}
    """
    chosen = format_of(ctx.value(_PARAM)) if ctx.has(_PARAM) else None
    if chosen is None or chosen == model_format(ctx):
        return
    model = model_format(ctx)
    yield ctx.at(
        _PARAM,
        f"`param_dtype` is {quoted(ctx.value(_PARAM))}, but the model trains in {model}"
        + ("" if model != "fp32" else ": neither `fp16` nor `bf16` is enabled"),
        help=", or ".join(filter(None, ("remove the key", _agreement(chosen, model)))),
        related=format_place(ctx),
        fix=removal(ctx.place(_PARAM)),
    )


def _agreement(chosen: str, model: str) -> str:
    """What makes the model train in the format; empty where nothing does, as for int8."""
    steps = [f"set `{model}.enabled` to `false`"] if model != "fp32" else []
    steps += [f"set `{chosen}.enabled` to `true`"] if chosen in ("fp16", "bf16") else []
    return " and ".join(steps) if chosen in ("fp16", "bf16", "fp32") else ""


@rule(
    "DSC343",
    effect="ignored",
    since="0.19.2",
    source="runtime/engine.py:DeepSpeedEngine._configure_distributed_model",
)
def buffer_format_without_mixed_precision(ctx: Context) -> Iterator[Finding]:
    """`data_types.buffer_dtype` is given, and neither `fp16` nor `bf16` is enabled.

    Buffers are cast together with the parameters, and in fp32 nothing is cast.

    Bad:

        {"train_batch_size": 8, "data_types": {"buffer_dtype": "bf16"}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"buffer_dtype": "bf16"}}
    """
    if ctx.has(_BUFFER) and format_of(ctx.value(_BUFFER)) and model_format(ctx) == "fp32":
        yield without_effect(
            ctx,
            [_BUFFER],
            "neither `fp16` nor `bf16` is enabled, so nothing is cast",
            help="remove the key, or set `fp16.enabled` or `bf16.enabled` to `true`",
        )


_KNOBS = tuple(
    f"{ZERO}.{key}"
    for key in (
        "reduce_scatter",
        "reduce_bucket_size",
        "overlap_comm",
        "contiguous_gradients",
        "round_robin_gradients",
        "ignore_unused_parameters",
    )
)


@rule(
    "DSC344",
    effect="ignored",
    since="0.8.1",
    source="runtime/engine.py:DeepSpeedEngine._configure_bf16_optimizer",
)
def zero_settings_not_read_by_bf16_optimizer(ctx: Context) -> Iterator[Finding]:
    """bfloat16 at stage 1 with fp32 accumulation has an optimizer of its own, which reads less of ZeRO.

    Just this combination, not offloaded to the CPU, trains with `BF16_Optimizer`, which takes
    `allgather_bucket_size` alone from `zero_optimization`. Reported where another setting departs from its
    default.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1, "reduce_bucket_size": 50000000}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 50000000}}
    """
    if not bf16_optimizer(ctx):
        return
    idle = [path for path in _KNOBS if differs_from_default(ctx, path)]
    if idle:
        yield without_effect(
            ctx,
            idle,
            "bfloat16 at stage 1 with fp32 accumulation trains with `BF16_Optimizer`, which does not read it",
            help="remove what is not read, or use stage 2, whose optimizer reads it",
            related=[
                ("fp32 accumulation is set here", _ACCUMULATION),
                ("the stage is set here", stage_place(ctx)),
            ],
        )
