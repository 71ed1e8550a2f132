"""Keys that the ZeRO stage at hand does not read."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import (
    PARAM,
    ZERO,
    departs,
    device,
    device_place,
    said_here,
    stage,
    stage_words,
    without_effect,
    zero,
)
from dsconfig.words import one_of, quoted

_WRAP = "runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer"


@rule("DSC430", effect="ignored", source="runtime/zero/config.py:DeepSpeedZeroConfig.stage")
def section_without_stage(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` says how, but not at which stage.

    The default stage is 0, so ZeRO stays off, and with it everything else in the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"offload_param": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
    """
    written = [name for name in zero(ctx) if name != "stage"]
    if written and not ctx.has(f"{ZERO}.stage"):
        names = one_of((f"`{ctx.place(f'{ZERO}.{name}')[-1]}`" for name in written), "and")
        yield ctx.at(
            ZERO,
            "`zero_optimization` has no `stage`, and the default is 0: ZeRO is off, and"
            f" {names if len(written) <= _MOST else f'its {len(written)} keys'}"
            f" {'do' if len(written) > 1 else 'does'} nothing",
            help='add `"stage": 1`, `2` or `3`, or remove the section',
            part="key",
        )


_MOST = 3
"""More names than these are counted only."""

_PARTITIONED = (3,)
_GRADIENTS = (1, 2)
_READ_BY: dict[str, tuple[int, ...]] = {
    "sub_group_size": _PARTITIONED,
    "stage3_prefetch_bucket_size": _PARTITIONED,
    "stage3_param_persistence_threshold": _PARTITIONED,
    "stage3_model_persistence_threshold": _PARTITIONED,
    "stage3_max_live_parameters": _PARTITIONED,
    "stage3_max_reuse_distance": _PARTITIONED,
    "stage3_gather_16bit_weights_on_model_save": _PARTITIONED,
    "stage3_gather_fp16_weights_on_model_save": _PARTITIONED,
    "stage3_module_granularity_threshold": _PARTITIONED,
    "stage3_use_all_reduce_for_fetch_params": _PARTITIONED,
    "stage3_allgather_sequential": _PARTITIONED,
    "zero_hpz_partition_size": _PARTITIONED,
    "zero_quantized_weights": _PARTITIONED,
    "zero_quantized_nontrainable_weights": _PARTITIONED,
    "zero_quantized_gradients": _PARTITIONED,
    "memory_efficient_linear": _PARTITIONED,
    "leaf_module": _PARTITIONED,
    "override_module_apply": _PARTITIONED,
    "enable_sanity_checks": _PARTITIONED,
    "log_trace_cache_warnings": _PARTITIONED,
    "save_muon_momentum_buffer_in_memory": _PARTITIONED,
    "round_robin_gradients": _GRADIENTS,
    "allgather_bucket_size": _GRADIENTS,
    "use_multi_rank_bucket_allreduce": _GRADIENTS,
    "ignore_unused_parameters": _GRADIENTS,
    "parameter_alignment": _GRADIENTS,
    "reduce_bucket_size": (1, 2, 3),
    "reduce_scatter": (1, 2, 3),
    "contiguous_gradients": (1, 2, 3),
    "overlap_comm": (1, 2, 3),
    "load_from_fp32_weights": (1, 2, 3),
}
"""The stages that look at a key; keys with a rule of their own are not here."""


@rule("DSC431", effect="ignored", source=_WRAP)
def key_of_another_stage(ctx: Context) -> Iterator[Finding]:
    """A key of `zero_optimization` belongs to another stage than the one in use.

    The optimizer of stages 1 and 2 and that of stage 3 each take keys of their own, and stage 0 takes none.
    A key that is written with its default is not reported.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "sub_group_size": 100000000,
        "stage3_gather_16bit_weights_on_model_save": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "sub_group_size": 100000000,
        "stage3_gather_16bit_weights_on_model_save": true}}

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "allgather_bucket_size": 200000000}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 200000000}}
    """
    values, level = zero(ctx), stage(ctx)
    unread = [
        f"{ZERO}.{name}"
        for name in values
        if level not in _READ_BY.get(name, (level,)) and departs(ctx, f"{ZERO}.{name}")
    ]
    unread = [path for path in unread if not _taken_at_stage_0(ctx, path)] if level == 0 else unread
    if unread and ctx.has(f"{ZERO}.stage"):
        them = "them" if len(unread) > 1 else "it"
        wanted = {number for path in unread for number in _READ_BY[path.rpartition(".")[2]]}
        stages = _stages(sorted(wanted))
        off = f"{stage_words(ctx)}, and nothing reads {them}"
        yield without_effect(
            ctx,
            unread,
            f"{stage_words(ctx)}, and only {stages} {_reads(wanted)} {them}" if level else off,
            help=f"use {_stages(sorted(wanted), 'or') if level else 'stage 1, 2 or 3'}, or remove {them}",
            related=said_here(ctx),
        )


def _reads(stages: set[int]) -> str:
    return "read" if len(stages) > 1 else "reads"


def _stages(numbers: list[int], conjunction: str = "and") -> str:
    plural = "s" if len(numbers) > 1 and conjunction == "and" else ""
    return f"stage{plural} {f' {conjunction} '.join(map(str, numbers))}"


def _taken_at_stage_0(ctx: Context, path: str) -> bool:
    """Two keys do something without ZeRO: the optimizer around bf16 gathers by the one
    (runtime/engine.py, `DeepSpeedEngine._configure_bf16_optimizer`), of the other `unmanaged-accumulation-…`
    speaks.
    """
    if path.endswith(".allgather_bucket_size"):
        return ctx.on("bf16.enabled") or ctx.on("bfloat16.enabled")
    return path.endswith(".overlap_comm") and ctx.value("managed_gradient_accumulation") is False


@rule("DSC432", effect="ignored", source=_WRAP)
def parameter_offload_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`offload_param` moves parameters off the GPU, and the stage is below 3.

    Below stage 3 every rank holds all parameters, and nothing looks at the section: they stay on the GPU.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    if not isinstance(ctx.value(ZERO), dict) or not ctx.has(f"{ZERO}.stage"):
        return
    home = device(ctx, PARAM)
    if home != "none" and stage(ctx) < 3:
        place = PARAM if ctx.has(PARAM) else device_place(ctx, PARAM)
        yield ctx.at(
            place,
            f"`{ctx.place(place)[-1]}` has no effect: only stage 3 offloads parameters, and"
            f" {stage_words(ctx)}",
            help="use stage 3, or remove it",
            part="key",
            related=said_here(ctx),
            fix=Fix(f"remove `{ctx.place(place)[-1]}`", (Remove(ctx.place(place)),)),
        )


@rule(
    "DSC433",
    effect="ignored",
    since="0.10.1",
    source="runtime/engine.py:DeepSpeedEngine._load_zero_checkpoint",
)
def pipelined_checkpoint_loading_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`pipeline_loading_checkpoint` is true, and the stage is not 3.

    Training does not look at it. Loading a checkpoint does, and stops at stages 1 and 2 with an
    AssertionError.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "pipeline_loading_checkpoint": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "pipeline_loading_checkpoint": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.pipeline_loading_checkpoint"
    if ctx.has(path) and ctx.on(path) and stage(ctx) < 3:
        at_load = ", and `load_checkpoint` stops with an AssertionError" if stage(ctx) > 0 else ""
        yield ctx.at(
            path,
            f"`pipeline_loading_checkpoint` works at stage 3 alone, but {stage_words(ctx)}{at_load}",
            help="remove it, or use stage 3",
            related=said_here(ctx),
            fix=Fix("remove `pipeline_loading_checkpoint`", (Remove(ctx.place(path)),)),
        )


@rule(
    "DSC434",
    effect="ignored",
    since="0.5.9",
    source="runtime/engine.py:DeepSpeedEngine.zero_allgather_partitions",
)
def broadcast_of_partitions(ctx: Context) -> Iterator[Finding]:
    """`allgather_partitions` is false, to broadcast updated parameters.

    Only the first implementation of stage 1 could do so, and that is gone since 0.5.9: parameters are
    collected by all-gather whatever the key says.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_partitions": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.allgather_partitions"
    if ctx.has(path) and not ctx.on(path):
        yield ctx.at(
            path,
            f"`allgather_partitions` is {quoted(ctx.written(path))}, but DeepSpeed has not looked at it since"
            " 0.5.9: updated parameters are collected by all-gather",
            help="remove it",
            fix=Fix("remove `allgather_partitions`", (Remove(ctx.place(path)),), safe=True),
        )
