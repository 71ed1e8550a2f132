"""`data_types`: the dtype in which gradients accumulate, and settings that it makes ineffective."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.batch_triplet import Triplet, derive
from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._batch_triplet import batch_values, data_parallel_size
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    ZERO,
    bf16_optimizer,
    bf16_place,
    device,
    format_of,
    format_place,
    model_format,
    stage,
    stage_path,
    stage_set_here,
    tensor_parallel,
)
from dsconfig.rules._fixes import differs_from_default, removal, without_effect

# `data_types`: formats that contradict the model's, or leave settings of ZeRO unread.

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
                ("the stage is set here", stage_path(ctx)),
            ],
        )


# The format in which gradients add up.

_SANITY = "runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check"


@rule("DSC340", effect="crashes", since="0.7.6", source=_SANITY)
def gradient_accumulation_format_unsupported(ctx: Context) -> Iterator[Finding]:
    """`data_types.grad_accum_dtype` differs from the model's format where DeepSpeed cannot have two.

    With ZeRO off, gradients add up in the format of the model; the engine says "unsupported mix" and stops.
    Up to 0.18.4 a bfloat16 model could accumulate in fp32 without ZeRO, and up to 0.17.5 in nothing else; up
    to 0.10.0 ZeRO wanted one format too, and in 0.7.6 that of a bfloat16 model is fp32 unless the key says
    "bf16".

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 2}}
    """
    if ctx.value(_ACCUMULATION) is None:
        if ctx.before("0.7.7"):
            yield from _fp32_by_default(ctx)
        return
    chosen = format_of(ctx.value(_ACCUMULATION))
    model = model_format(ctx) if chosen else None
    if chosen is not None and chosen == model:
        if chosen == "bf16" and ctx.before("0.17.6") and stage(ctx) == 0:
            yield _bf16_wrapper(ctx)
        return
    if chosen is None:
        return
    sharded = stage(ctx) > 0
    if sharded and (ctx.since("0.10.1") or bf16_optimizer(ctx)):
        return
    if not sharded and (model, chosen) == ("bf16", "fp32") and ctx.before("0.18.5"):
        return
    remove = "or remove the key"
    if not sharded and ctx.since("0.10.1"):
        remove = _otherwise(ctx, model, chosen)
    where = "with ZeRO" if sharded else "without ZeRO"
    yield ctx.at(
        _ACCUMULATION,
        f"`grad_accum_dtype` is {quoted(ctx.value(_ACCUMULATION))}, but the model trains in {model}, and "
        f"{where} DeepSpeed {ctx.release_name} accumulates in the model's format",
        help=f'write "{model}", {remove}',
        related=[*format_place(ctx), *stage_set_here(ctx)],
        fix=removal(ctx.place(_ACCUMULATION)),
    )


def _fp32_by_default(ctx: Context) -> Iterator[Finding]:
    """0.7.6 takes fp32 for a bfloat16 model, ZeRO or not (`DeepSpeedEngine.get_data_types`)."""
    there = bf16_place(ctx)
    if there is None or ctx.on("fp16.enabled") or stage(ctx) == 0:
        return
    yield ctx.at(
        there,
        "the model trains in bf16, and 0.7.6 accumulates its gradients in fp32 by default, which it refuses"
        " with ZeRO",
        help=f'set `{_ACCUMULATION}` to "bf16", or upgrade DeepSpeed to 0.7.7 or later',
        related=stage_set_here(ctx),
        fix=Fix("accumulate in bf16", (Set((_SECTION, "grad_accum_dtype"), "bf16"),), safe=True),
    )


def _bf16_wrapper(ctx: Context) -> Finding:
    """Up to 0.17.5 the wrapper of a bfloat16 model without ZeRO accumulates in fp32 alone."""
    return ctx.at(
        _ACCUMULATION,
        f"`grad_accum_dtype` is {quoted(ctx.value(_ACCUMULATION))}, and without ZeRO DeepSpeed"
        f" {ctx.release_name} accumulates the gradients of a bf16 model in fp32 alone",
        help="remove the key, or use ZeRO stage 1",
        related=[*format_place(ctx), *stage_set_here(ctx)],
        fix=removal(ctx.place(_ACCUMULATION)),
    )


def _otherwise(ctx: Context, model: str | None, chosen: str) -> str:
    """What helps with ZeRO off: an optimizer that accumulates in another format and averages (DSC417)."""
    if (model, chosen) == ("bf16", "fp32") and device(ctx, OPTIMIZER) != "cpu":
        return "remove the key, or use ZeRO stage 1"
    return "remove the key" if ctx.data.get("pipeline") else "remove the key, or use ZeRO stage 3"


@rule("DSC341", effect="wasteful", since="0.7.6", source="runtime/config.py:DtypeEnum")
def gradients_accumulated_in_int8(ctx: Context) -> Iterator[Finding]:
    """`data_types.grad_accum_dtype` is "int8".

    It is in DeepSpeed's list of formats for the sake of inference. Gradients that add up in 8-bit integers
    lose nearly all that is in them, and no error says so.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "int8"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "data_types": {"grad_accum_dtype": "fp32"}}
    """
    if ctx.has(_ACCUMULATION) and format_of(ctx.value(_ACCUMULATION)) == "int8":
        yield ctx.at(
            _ACCUMULATION,
            f"`grad_accum_dtype` is {quoted(ctx.value(_ACCUMULATION))}: gradients add up in 8-bit integers",
            help='use "fp32", "bf16" or "fp16", or remove the key',
        )


@rule("DSC345", effect="wasteful", since="0.17.6", source=_SANITY)
def pipeline_accumulates_in_bf16(ctx: Context) -> Iterator[Finding]:
    """A pipelined model in bfloat16 adds up its gradients in bfloat16.

    A pipeline takes many micro batches a step, and each sum in bfloat16 keeps 8 bits: DeepSpeed warns that
    this "is not safe numerically". Reported where the section `pipeline` tells of a pipelined model, with
    ZeRO off.

    Bad:

        {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
        "pipeline": {"activation_checkpoint_interval": 1}}

    Good:

        {"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true},
        "pipeline": {"activation_checkpoint_interval": 1}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1}}
    """
    there = bf16_place(ctx)
    if there is None or not ctx.data.get("pipeline") or stage(ctx) > 0:
        return
    chosen = format_of(ctx.value(_ACCUMULATION))
    if chosen in (None, "bf16"):
        told = 'set `data_types.grad_accum_dtype` to "fp32", and set `zero_optimization.stage` to 1'
        fix = Fix(
            "accumulate in fp32 at ZeRO stage 1",
            (Set((_SECTION, "grad_accum_dtype"), "fp32"), Set((ZERO, "stage"), 1)),
        )
        first = "0.19.8" if device(ctx, OPTIMIZER) == "cpu" else "0.18.5"  # DSC417, DSC346
        heeded = ctx.since(first)
        yield ctx.at(
            there,
            "the pipeline adds up the gradients of its micro batches in bfloat16, which keeps 8 bits",
            help=told if heeded else f"upgrade DeepSpeed to {first} or later, then {told}",
            related=[("the pipeline is set up here", "pipeline")],
            fix=fix if heeded else None,
        )


@rule(
    "DSC346",
    effect="ignored",
    since="0.17.6",
    until="0.18.4",
    source=f"{_SANITY}, DeepSpeedEngine._configure_optimizer, runtime/constants.py:DDP_BFLOAT16",
)
def fp32_accumulation_ignored(ctx: Context) -> Iterator[Finding]:
    """`data_types.grad_accum_dtype` is fp32, and gradients of a bfloat16 model add up in bfloat16.

    From 0.17.6 to 0.18.4 the optimizer that accumulates in fp32 and the plain wrapper of bfloat16 go by the
    same word, and the engine takes the wrapper: with ZeRO off, and at stage 1, where every rank then holds
    all master weights and states, as if ZeRO were off. An optimizer that is offloaded to the CPU is another.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 1}}
    """
    if not ctx.has(_ACCUMULATION) or format_of(ctx.value(_ACCUMULATION)) != "fp32":
        return
    if bf16_place(ctx) is None or not (stage(ctx) == 0 or bf16_optimizer(ctx)):
        return
    held = ", and every rank holds the full optimizer state" if stage(ctx) else ""
    upgrade = "upgrade DeepSpeed to 0.18.5 or later"
    yield ctx.at(
        _ACCUMULATION,
        f"gradients are accumulated in bfloat16 whatever `grad_accum_dtype` says{held}",
        help=f"remove the key, or {upgrade}{'' if stage(ctx) else ' and use ZeRO stage 1'}",
        related=[*format_place(ctx), *stage_set_here(ctx)],
        fix=removal(ctx.place(_ACCUMULATION)),
    )


# Stage 1 with gradients that add up in another format than the model's.

_OVERLAP = f"{ZERO}.overlap_comm"
_REDUCED = "runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.get_gradient_for_reduction"


@rule("DSC417", effect="altered", since="0.10.1", until="0.19.7", source=_REDUCED)
def gradients_of_ranks_not_averaged(ctx: Context) -> Iterator[Finding]:
    """Stage 1 accumulates in another format than the model's, and no gradient is averaged over the ranks.

    What is sent is a copy in the model's format; up to 0.19.7 the average stays in that copy. Each rank
    updates its partition with the gradients of its own samples, and nothing is raised: with two ranks whose
    gradients are 1 and 3, one half of the weights moves by 1 and the other by 3. Stage 3 averages; so does
    bfloat16 with fp32 accumulation that is not offloaded to the CPU, which has an optimizer of its own.

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
    if _accumulates_apart(ctx) and not _is_alone(ctx):
        yield ctx.at(
            _ACCUMULATION,
            f"`grad_accum_dtype` is {quoted(ctx.value(_ACCUMULATION))} and the model trains in"
            f" {model_format(ctx)}: at stage 1 each rank updates its partition with its local gradients,"
            " which are never averaged",
            help="remove it, or upgrade DeepSpeed to 0.19.8 or later",
            related=[*format_place(ctx), *stage_set_here(ctx)],
            fix=removal(ctx.place(_ACCUMULATION)),
        )


@rule("DSC418", effect="crashes", since="0.10.1", until="0.16.4", source=_REDUCED)
def overlap_before_gradients_are_there(ctx: Context) -> Iterator[Finding]:
    """Stage 1 overlaps its messages with the backward pass, and gradients in another format come after it.

    Up to 0.16.4 gradients are brought into the format of `grad_accum_dtype` when the backward pass is over,
    and `overlap_comm` sends them while it runs: "'NoneType' object has no attribute 'view'". Reported where
    each step has one micro batch; with more there are gradients, those of the micro batches before.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1, "overlap_comm": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 3, "overlap_comm": true}}
    """
    if _accumulates_apart(ctx) and ctx.on(_OVERLAP) and _has_one_micro_batch(ctx):
        yield ctx.at(
            _OVERLAP,
            f"`overlap_comm` sends gradients before they are there in {ctx.value(_ACCUMULATION)}, and"
            " DeepSpeed stops",
            help="remove it, or upgrade DeepSpeed to 0.16.5 or later",
            related=[("gradients add up in this format", _ACCUMULATION), *stage_set_here(ctx)],
            fix=removal(ctx.place(_OVERLAP)),
        )


def _accumulates_apart(ctx: Context) -> bool:
    """Whether stage 1 keeps gradients in a format of their own (`use_grad_accum_attribute`)."""
    chosen = format_of(ctx.value(_ACCUMULATION)) if ctx.has(_ACCUMULATION) else None
    return chosen not in (None, model_format(ctx)) and stage(ctx) == 1 and not bf16_optimizer(ctx)


def _is_alone(ctx: Context) -> bool:
    """Whether one rank is known to have no other with other samples."""
    return ctx.world_size is not None and ctx.world_size // max(1, tensor_parallel(ctx)) == 1


def _has_one_micro_batch(ctx: Context) -> bool:
    """Whether a step is known to have no more.

    Raises:
        SkipRule: the elastic solver or the consumer says how many.
    """
    train, micro, steps = batch_values(ctx)
    ranks = data_parallel_size(ctx)
    if ranks is not None or train is None or micro is None:
        found = derive(train, micro, steps, ranks or 1)
        steps = found.gradient_accumulation_steps if isinstance(found, Triplet) else None
    return bool(steps == 1)
