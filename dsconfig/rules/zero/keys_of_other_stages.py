"""Keys that the stage at hand does not read."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model.keyinfo import ZERO_STAGES
from dsconfig.rules._no_effect import differs_from_default, without_effect
from dsconfig.rules._stage import ZERO, stage, stage_set_here, stage_words, zero

_WRAP = "runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer"


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
        if level not in ZERO_STAGES.get(name, (level,)) and differs_from_default(ctx, f"{ZERO}.{name}")
    ]
    unread = [path for path in unread if not _taken_at_stage_0(ctx, path)] if level == 0 else unread
    if unread and ctx.has(f"{ZERO}.stage"):
        them = "them" if len(unread) > 1 else "it"
        readers = [set(ZERO_STAGES[path.rpartition(".")[2]]) for path in unread]
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
