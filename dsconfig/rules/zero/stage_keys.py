"""Keys that the stage at hand does not read."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._stage import ZERO, stage, stage_set_here, stage_words, zero
from dsconfig.rules._unread import differs_from_default, without_effect

_WRAP = "runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer"
_PARTITIONED = (3,)
_GRADIENTS = (1, 2)
READ_BY: dict[str, tuple[int, ...]] = {
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
        if level not in READ_BY.get(name, (level,)) and differs_from_default(ctx, f"{ZERO}.{name}")
    ]
    unread = [path for path in unread if not _taken_at_stage_0(ctx, path)] if level == 0 else unread
    if unread and ctx.has(f"{ZERO}.stage"):
        them = "them" if len(unread) > 1 else "it"
        readers = [set(READ_BY[path.rpartition(".")[2]]) for path in unread]
        wanted, shared = set().union(*readers), sorted({1, 2, 3}.intersection(*readers))
        stages = _stages(sorted(wanted))
        off = f"{stage_words(ctx)}, and nothing reads {them}"
        yield without_effect(
            ctx,
            unread,
            f"{stage_words(ctx)}, and only {stages} {_reads(wanted)} {them}" if level else off,
            help=(f"use {_stages(shared, 'or')}, or " if shared else "") + f"remove {them}",
            related=stage_set_here(ctx),
        )


def _reads(stages: set[int]) -> str:
    return "read" if len(stages) > 1 else "reads"


def _stages(numbers: list[int], conjunction: str = "and") -> str:
    plural = "s" if len(numbers) > 1 and conjunction == "and" else ""
    *first, last = map(str, numbers)
    return f"stage{plural} {', '.join(first)}{f' {conjunction} ' if first else ''}{last}"


def _taken_at_stage_0(ctx: Context, path: str) -> bool:
    """Whether the key does something without ZeRO.

    The optimizer around bf16 gathers by the one (runtime/engine.py,
    `DeepSpeedEngine._configure_bf16_optimizer`); the other is the matter of
    `unmanaged-accumulation-with-overlap`.
    """
    if path.endswith(".allgather_bucket_size"):
        return ctx.on("bf16.enabled") or ctx.on("bfloat16.enabled")
    return path.endswith(".overlap_comm") and ctx.value("managed_gradient_accumulation") is False
