"""Stage 1 with gradients that add up in another format than the model's."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.batch_triplet import Triplet, derive
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import bf16_optimizer, format_of, format_place, model_format
from dsconfig.rules._fixes import removal
from dsconfig.rules._stage import ZERO, stage, stage_set_here
from dsconfig.rules.batch._triplet import data_parallel_size, written
from dsconfig.rules.tensor_parallel._size import tensor_parallel

_ACCUMULATION, _OVERLAP = "data_types.grad_accum_dtype", f"{ZERO}.overlap_comm"
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
    train, micro, steps = written(ctx)
    ranks = data_parallel_size(ctx)
    if ranks is not None or train is None or micro is None:
        found = derive(train, micro, steps, ranks or 1)
        steps = found.gradient_accumulation_steps if isinstance(found, Triplet) else None
    return bool(steps == 1)
