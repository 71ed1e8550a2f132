"""`data_types`: unsupported dtypes of accumulated gradients, and settings without effect."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._batch_triplet import accumulation_steps
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    ZERO,
    effective_stage,
    enabled_bf16_path,
    normalize_dtype,
    offload_device,
    related_dtype,
    related_stage,
    stage_path,
    tensor_parallel_ranks,
    training_dtype,
    uses_bf16_optimizer,
)
from dsconfig.rules._fixes import differs_from_default, remove_key, report_keys_without_effect

# `data_types`: dtypes that contradict the model's, or make ZeRO settings ineffective.

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
    """`data_types.param_dtype` is not the dtype that `fp16` and `bf16` select.

    The key can only repeat that dtype. Otherwise engine initialization fails with "conflicts with the enabled
    precision mode".

    Bad:

        {"train_batch_size": 8, "data_types": {"param_dtype": "bf16"}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"param_dtype": "bf16"}}
    """
    dtype = normalize_dtype(ctx.value(_PARAM)) if ctx.has(_PARAM) else None
    if dtype is None or dtype == training_dtype(ctx):
        return
    model_dtype = training_dtype(ctx)
    yield ctx.at(
        _PARAM,
        f"`param_dtype` is {quote_value(ctx.value(_PARAM))}, but the model trains in {model_dtype}"
        + ("" if model_dtype != "fp32" else ": neither `fp16` nor `bf16` is enabled"),
        help=", or ".join(filter(None, ("remove the key", _how_to_train_in_dtype(dtype, model_dtype)))),
        related=related_dtype(ctx),
        fix=remove_key(ctx.written_path(_PARAM)),
    )


def _how_to_train_in_dtype(dtype: str, model_dtype: str) -> str:
    """Return how to train the model in a dtype, or an empty string if that is impossible, as for int8."""
    steps = [f"set `{model_dtype}.enabled` to `false`"] if model_dtype != "fp32" else []
    steps += [f"set `{dtype}.enabled` to `true`"] if dtype in ("fp16", "bf16") else []
    return " and ".join(steps) if dtype in ("fp16", "bf16", "fp32") else ""


@rule(
    "DSC343",
    effect="ignored",
    since="0.19.2",
    source="runtime/engine.py:DeepSpeedEngine._configure_distributed_model",
)
def buffer_format_without_mixed_precision(ctx: Context) -> Iterator[Finding]:
    """`data_types.buffer_dtype` is set, but neither `fp16` nor `bf16` is enabled.

    Buffers are cast together with the parameters, which fp32 training does not cast.

    Bad:

        {"train_batch_size": 8, "data_types": {"buffer_dtype": "bf16"}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"buffer_dtype": "bf16"}}
    """
    if ctx.has(_BUFFER) and normalize_dtype(ctx.value(_BUFFER)) and training_dtype(ctx) == "fp32":
        yield report_keys_without_effect(
            ctx,
            [_BUFFER],
            "neither `fp16` nor `bf16` is enabled, so DeepSpeed casts nothing",
            help="remove the key, or set `fp16.enabled` or `bf16.enabled` to `true`",
        )


_BUCKET_KEYS = tuple(
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
    """bf16 at stage 1 with fp32 accumulation uses `BF16_Optimizer`, which reads fewer ZeRO settings.

    This combination, unless offloaded to the CPU, trains with `BF16_Optimizer`, which reads only
    `allgather_bucket_size` from `zero_optimization`. Reported only when another setting differs from its
    default.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1, "reduce_bucket_size": 50000000}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 2, "reduce_bucket_size": 50000000}}
    """
    if not uses_bf16_optimizer(ctx):
        return
    unread = [path for path in _BUCKET_KEYS if differs_from_default(ctx, path)]
    if unread:
        them = "them" if len(unread) > 1 else "it"
        yield report_keys_without_effect(
            ctx,
            unread,
            "bf16 at stage 1 with fp32 accumulation trains with `BF16_Optimizer`, which does not read"
            f" {them}",
            help=f"remove {them}, or use stage 2, whose optimizer reads {them}",
            related=[
                ("fp32 accumulation is set here", _ACCUMULATION),
                ("the stage is set here", stage_path(ctx)),
            ],
        )


# The dtype in which gradients accumulate.

_SANITY = "runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check"


@rule("DSC340", effect="crashes", since="0.7.6", source=_SANITY)
def gradient_accumulation_format_unsupported(ctx: Context) -> Iterator[Finding]:
    """`data_types.grad_accum_dtype` differs from the model's dtype, but DeepSpeed supports only that.

    With ZeRO off, gradients accumulate in the model's dtype; otherwise engine initialization fails with
    "unsupported mix".

    Up to 0.18.4, a bf16 model could accumulate in fp32 without ZeRO, and up to 0.17.5 in nothing else. Up to
    0.10.0, ZeRO also required a single dtype. In 0.7.6, a bf16 model accumulates in fp32 unless the key is
    "bf16".

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 2}}
    """
    if ctx.value(_ACCUMULATION) is None:
        if ctx.before("0.7.7"):
            yield from _report_fp32_default(ctx)
        return
    dtype = normalize_dtype(ctx.value(_ACCUMULATION))
    model_dtype = training_dtype(ctx) if dtype else None
    if dtype is not None and dtype == model_dtype:
        if dtype == "bf16" and ctx.before("0.17.6") and effective_stage(ctx) == 0:
            yield _report_fp32_only_accumulation(ctx)
        return
    if dtype is None:
        return
    uses_zero = effective_stage(ctx) > 0
    if uses_zero and (ctx.since("0.10.1") or uses_bf16_optimizer(ctx)):
        return
    if not uses_zero and (model_dtype, dtype) == ("bf16", "fp32") and ctx.before("0.18.5"):
        return
    alternative = "or remove the key"
    if not uses_zero and ctx.since("0.10.1"):
        alternative = _suggest_accumulating_stage(ctx, model_dtype, dtype)
    condition = "with ZeRO" if uses_zero else "without ZeRO"
    yield ctx.at(
        _ACCUMULATION,
        f"`grad_accum_dtype` is {quote_value(ctx.value(_ACCUMULATION))}, but the model trains in {model_dtype},"
        f" and {condition} DeepSpeed {ctx.release_name} accumulates in the model's dtype",
        help=f'set it to "{model_dtype}", {alternative}',
        related=[*related_dtype(ctx), *related_stage(ctx)],
        fix=remove_key(ctx.written_path(_ACCUMULATION)),
    )


def _report_fp32_default(ctx: Context) -> Iterator[Finding]:
    """Report that 0.7.6 accumulates gradients of a bf16 model in fp32 by default, which ZeRO rejects."""
    enabled_key = enabled_bf16_path(ctx)
    if enabled_key is None or ctx.is_on("fp16.enabled") or effective_stage(ctx) == 0:
        return
    yield ctx.at(
        enabled_key,
        "the model trains in bf16, and DeepSpeed 0.7.6 accumulates its gradients in fp32 by default, which it"
        " rejects with ZeRO",
        help=f'set `{_ACCUMULATION}` to "bf16", or upgrade DeepSpeed to 0.7.7 or later',
        related=related_stage(ctx),
        fix=Fix("accumulate in bf16", (SetValue((_SECTION, "grad_accum_dtype"), "bf16"),), safe=True),
    )


def _report_fp32_only_accumulation(ctx: Context) -> Finding:
    """Report that up to 0.17.5, a bf16 model without ZeRO accumulates only in fp32."""
    return ctx.at(
        _ACCUMULATION,
        f"`grad_accum_dtype` is {quote_value(ctx.value(_ACCUMULATION))}, but without ZeRO DeepSpeed"
        f" {ctx.release_name} accumulates the gradients of a bf16 model only in fp32",
        help="remove the key, or use ZeRO stage 1",
        related=[*related_dtype(ctx), *related_stage(ctx)],
        fix=remove_key(ctx.written_path(_ACCUMULATION)),
    )


def _suggest_accumulating_stage(ctx: Context, model_dtype: str | None, dtype: str) -> str:
    """Suggest a ZeRO stage that accumulates in this dtype and averages gradients (DSC417)."""
    if (model_dtype, dtype) == ("bf16", "fp32") and offload_device(ctx, OPTIMIZER) != "cpu":
        return "remove the key, or use ZeRO stage 1"
    return "or remove the key" if ctx.data.get("pipeline") else "remove the key, or use ZeRO stage 3"


@rule("DSC341", effect="wasteful", since="0.7.6", source="runtime/config.py:DtypeEnum")
def gradients_accumulated_in_int8(ctx: Context) -> Iterator[Finding]:
    """`data_types.grad_accum_dtype` is "int8".

    DeepSpeed lists this dtype only for inference. Gradients accumulated in 8-bit integers lose nearly all of
    their information, and DeepSpeed does not raise.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "int8"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "fp32"}}
    """
    if ctx.has(_ACCUMULATION) and normalize_dtype(ctx.value(_ACCUMULATION)) == "int8":
        yield ctx.at(
            _ACCUMULATION,
            f"`grad_accum_dtype` is {quote_value(ctx.value(_ACCUMULATION))}: gradients lose nearly all"
            " of their information when they accumulate in 8-bit integers",
            help='use `"fp32"`, `"bf16"` or `"fp16"`, or remove the key',
        )


@rule("DSC345", effect="wasteful", since="0.17.6", source=_SANITY)
def pipeline_accumulates_in_bf16(ctx: Context) -> Iterator[Finding]:
    """A pipeline model in bf16 accumulates its gradients in bf16.

    A pipeline processes many micro-batches per step, and each sum in bf16 keeps only 8 significant bits:
    DeepSpeed warns that this "is not safe numerically". Reported only when the config has a `pipeline`
    section and ZeRO is off.

    Bad:

        {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
        "pipeline": {"activation_checkpoint_interval": 1}}

    Good:

        {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
        "pipeline": {"activation_checkpoint_interval": 1}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1}}
    """
    enabled_key = enabled_bf16_path(ctx)
    if enabled_key is None or not ctx.data.get("pipeline") or effective_stage(ctx) > 0:
        return
    dtype = normalize_dtype(ctx.value(_ACCUMULATION))
    if dtype in (None, "bf16"):
        advice = 'set `data_types.grad_accum_dtype` to "fp32", and set `zero_optimization.stage` to 1'
        fix = Fix(
            "accumulate in fp32 at ZeRO stage 1",
            (SetValue((_SECTION, "grad_accum_dtype"), "fp32"), SetValue((ZERO, "stage"), 1)),
        )
        first_release = "0.19.8" if offload_device(ctx, OPTIMIZER) == "cpu" else "0.18.5"  # DSC417, DSC346
        works = ctx.since(first_release)
        yield ctx.at(
            enabled_key,
            "the pipeline accumulates the gradients of its micro-batches in bf16, which has only 8 bits of precision",
            help=advice if works else f"upgrade DeepSpeed to {first_release} or later, then {advice}",
            related=[("the pipeline is configured here", "pipeline")],
            fix=fix if works else None,
        )


@rule(
    "DSC346",
    effect="ignored",
    since="0.17.6",
    until="0.18.4",
    source=f"{_SANITY}, DeepSpeedEngine._configure_optimizer, runtime/constants.py:DDP_BFLOAT16",
)
def fp32_accumulation_ignored(ctx: Context) -> Iterator[Finding]:
    """`data_types.grad_accum_dtype` is fp32, but the gradients of a bf16 model accumulate in bf16.

    From 0.17.6 to 0.18.4, the fp32-accumulating optimizer and the plain bf16 wrapper share one name, and the
    engine uses the wrapper. This affects runs with ZeRO off, and stage 1, where every rank then holds all
    master weights and optimizer states, as if ZeRO were off. An optimizer offloaded to the CPU is not
    affected.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}}
    """
    if not ctx.has(_ACCUMULATION) or normalize_dtype(ctx.value(_ACCUMULATION)) != "fp32":
        return
    if enabled_bf16_path(ctx) is None or not (effective_stage(ctx) == 0 or uses_bf16_optimizer(ctx)):
        return
    consequence = ", and every rank holds the full optimizer state" if effective_stage(ctx) else ""
    upgrade = "upgrade DeepSpeed to 0.18.5 or later"
    yield ctx.at(
        _ACCUMULATION,
        f"`grad_accum_dtype` has no effect: gradients accumulate in bf16{consequence}",
        help=f"remove the key, or {upgrade}{'' if effective_stage(ctx) else ' and use ZeRO stage 1'}",
        related=[*related_dtype(ctx), *related_stage(ctx)],
        fix=remove_key(ctx.written_path(_ACCUMULATION)),
    )


# Stage 1 with gradients that accumulate in another dtype than the model's.

_OVERLAP = f"{ZERO}.overlap_comm"
_REDUCED = "runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.get_gradient_for_reduction"


@rule("DSC417", effect="altered", since="0.10.1", until="0.19.7", source=_REDUCED)
def gradients_of_ranks_not_averaged(ctx: Context) -> Iterator[Finding]:
    """Stage 1 accumulates gradients in a dtype other than the model's, and never averages them over the ranks.

    The ranks reduce a copy in the model's dtype, and up to 0.19.7 the average stays in that copy. Each rank
    updates its partition with the gradients of its own samples, and nothing is raised: with two ranks whose
    gradients are 1 and 3, one half of the weights moves by 1 and the other half by 3.

    Stage 3 does average them, as does bf16 with fp32 accumulation without CPU offload, which uses another optimizer.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1}}
    """
    if _has_separate_gradients(ctx) and not _has_single_replica(ctx):
        yield ctx.at(
            _ACCUMULATION,
            f"`grad_accum_dtype` is {quote_value(ctx.value(_ACCUMULATION))}, but the model trains in"
            f" {training_dtype(ctx)}: at stage 1 each rank updates its partition with its local gradients,"
            " which are never averaged",
            help="remove it, or upgrade DeepSpeed to 0.19.8 or later",
            related=[*related_dtype(ctx), *related_stage(ctx)],
            fix=remove_key(ctx.written_path(_ACCUMULATION)),
        )


@rule("DSC418", effect="crashes", since="0.10.1", until="0.16.4", source=_REDUCED)
def overlap_before_gradients_are_there(ctx: Context) -> Iterator[Finding]:
    """With `overlap_comm`, stage 1 reduces gradients before they exist in `grad_accum_dtype`.

    Up to 0.16.4, gradients are converted to `grad_accum_dtype` after the backward pass, but `overlap_comm`
    sends them while it runs: "'NoneType' object has no attribute 'view'". Reported only when each step has
    one micro-batch. With more, the gradients of earlier micro-batches exist.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1, "overlap_comm": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 3, "overlap_comm": true}}
    """
    if _has_separate_gradients(ctx) and ctx.is_on(_OVERLAP) and accumulation_steps(ctx) == 1:
        yield ctx.at(
            _OVERLAP,
            f"`overlap_comm` sends gradients before they exist in {ctx.value(_ACCUMULATION)}, and the"
            " backward pass raises",
            help="remove it, or upgrade DeepSpeed to 0.16.5 or later",
            related=[("the accumulation dtype is set here", _ACCUMULATION), *related_stage(ctx)],
            fix=remove_key(ctx.written_path(_OVERLAP)),
        )


def _has_separate_gradients(ctx: Context) -> bool:
    """Return whether stage 1 keeps gradients in a dtype other than the model's."""
    dtype = normalize_dtype(ctx.value(_ACCUMULATION)) if ctx.has(_ACCUMULATION) else None
    return (
        dtype not in (None, training_dtype(ctx))
        and effective_stage(ctx) == 1
        and not uses_bf16_optimizer(ctx)
    )


def _has_single_replica(ctx: Context) -> bool:
    """Return whether the job is known to have a single data-parallel rank."""
    return ctx.world_size is not None and ctx.world_size // max(1, tensor_parallel_ranks(ctx)) == 1
