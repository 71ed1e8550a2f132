"""ZeRO keys that stop the engine as it starts."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import (
    OPTIMIZER,
    ZERO,
    device,
    device_place,
    said_here,
    stage,
    stage_words,
)
from dsconfig.words import quoted

_WRAP = "runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer"
_STAGES_1_2 = "runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__"
_CHECK = "runtime/engine.py:DeepSpeedEngine._do_sanity_check"


@rule("DSC435", effect="crashes", since="0.5.9", source=_WRAP)
def first_form_of_stage_1(ctx: Context) -> Iterator[Finding]:
    """`legacy_stage1` asks for an implementation that is gone.

    The engine stops at every stage from 1 on: "The deprecated version of ZeRO Stage 1 is not supported".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "legacy_stage1": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}
    """
    path = f"{ZERO}.legacy_stage1"
    if ctx.has(path) and ctx.on(path) and stage(ctx) > 0:
        yield ctx.at(
            path,
            "`legacy_stage1` asks for the first stage 1, which DeepSpeed dropped in 0.5.9: the engine stops"
            " as it starts",
            help="remove it; a checkpoint of that form needs DeepSpeed 0.5.8 or earlier",
            fix=Fix("remove `legacy_stage1`", (Remove(ctx.place(path)),)),
        )


@rule("DSC436", effect="crashes", since="0.5.2", source=_STAGES_1_2)
def odd_allgather_bucket(ctx: Context) -> Iterator[Finding]:
    """`allgather_bucket_size` is odd at stage 1 or 2.

    Two 16-bit elements make the 4 bytes at which a gather has to begin, so the optimizer takes even sizes
    only: "allgather_bucket_size must be a multiple of nccl_start_alignment_factor".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 499999999}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "allgather_bucket_size": 500000000}}
    """
    path = f"{ZERO}.allgather_bucket_size"
    if not ctx.has(path):
        return
    size = ctx.value(path)
    if not isinstance(size, int | float) or size % 2 == 0 or stage(ctx) not in (1, 2):
        return
    if not _bf16_optimizer(ctx):
        even = int(size) + 1
        yield ctx.at(
            path,
            f"`allgather_bucket_size` is {size}, an odd number, and stages 1 and 2 take even ones only",
            help=f"write {quoted(even)}",
            related=said_here(ctx),
            fix=Fix(f"replace by {quoted(even)}", (Set(ctx.place(path), even),)),
        )


_FP32 = ("torch.float32", "fp32", "float32", "float")


def _bf16_optimizer(ctx: Context) -> bool:
    """Whether stage 1 hands over to the optimizer made for bf16, which has other demands
    (runtime/engine.py, `DeepSpeedEngine._do_optimizer_sanity_check`).
    """
    return (
        ctx.since("0.7.6")
        and stage(ctx) == 1
        and ctx.value("data_types.grad_accum_dtype") in _FP32
        and (ctx.on("bf16.enabled") or (not ctx.has("bf16") and ctx.on("bfloat16.enabled")))
        and (device(ctx, OPTIMIZER) != "cpu" or ctx.before("0.12.0"))
    )


@rule("DSC437", effect="crashes", since="0.19.7", source=_STAGES_1_2)
def gradient_norm_skipped_though_needed(ctx: Context) -> Iterator[Finding]:
    """`compute_grad_norm` is false, and something else needs the norm.

    Clipping does, and `gradient_clipping` is 1.0 unless it is written; so do optimizer offload, ZenFlow, and
    the optimizer that stage 1 takes for bf16 with gradients accumulated in fp32. The engine stops as it
    starts: "compute_grad_norm=false requires gradient_clipping=0", or "does not support …".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "compute_grad_norm": false}}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 0,
        "zero_optimization": {"stage": 2, "compute_grad_norm": false}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.compute_grad_norm"
    if not ctx.has(path) or ctx.on(path) or stage(ctx) not in (1, 2):
        return
    for needs, place in _norm_users(ctx):
        yield ctx.at(
            path,
            f"`compute_grad_norm` is `false`, but {needs}",
            help="remove it" + (', or add `"gradient_clipping": 0`' if "clipping" in place else ""),
            related=[("this needs the norm", place)] if ctx.has(place) else [],
            fix=Fix("remove `compute_grad_norm`", (Remove(ctx.place(path)),)),
        )
        return


def _norm_users(ctx: Context) -> Iterator[tuple[str, str]]:
    if device(ctx, OPTIMIZER) != "none":
        yield "optimizer offload needs the norm of the gradients", device_place(ctx, OPTIMIZER)
    if ctx.value(f"{ZERO}.zenflow") is not None:
        yield "ZenFlow needs the norm of the gradients", f"{ZERO}.zenflow"
    if _bf16_optimizer(ctx):
        yield (
            "stage 1 with bf16 and gradients accumulated in fp32 needs the norm of the gradients",
            "data_types.grad_accum_dtype",
        )
    clipping = ctx.value("gradient_clipping")
    if isinstance(clipping, int | float) and clipping > 0:
        default = "" if ctx.has("gradient_clipping") else ", the default,"
        yield f"`gradient_clipping` is {clipping}{default} and clips by that norm", "gradient_clipping"


@rule("DSC438", effect="crashes", since="0.19.4", source=_CHECK)
def unmanaged_accumulation_with_overlap(ctx: Context) -> Iterator[Finding]:
    """`managed_gradient_accumulation` is false, and `overlap_comm` true below stage 2.

    Also at stage 0, where nothing overlaps: "managed_gradient_accumulation=False supports ZeRO overlap_comm
    only with ZeRO stage 2". Stage 3 is let through.

    Bad:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "zero_optimization": {"stage": 1, "overlap_comm": true}}

    Good:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "zero_optimization": {"stage": 2, "overlap_comm": true}}

    Fixed:

        {"train_batch_size": 8, "managed_gradient_accumulation": false, "zero_optimization": {"stage": 1}}
    """
    path = f"{ZERO}.overlap_comm"
    if not ctx.has("managed_gradient_accumulation") or ctx.on("managed_gradient_accumulation"):
        return
    if ctx.has(path) and ctx.on(path) and stage(ctx) < 2:
        yield ctx.at(
            path,
            "`managed_gradient_accumulation` is `false`, with which `overlap_comm` works from stage 2 on, but"
            f" {stage_words(ctx)}",
            help="remove `overlap_comm`, or use stage 2",
            related=[("accumulation is left to the script here", "managed_gradient_accumulation")],
            fix=Fix("remove `overlap_comm`", (Remove(ctx.place(path)),)),
        )


@rule("DSC439", effect="crashes", since="0.19.4", source=_CHECK)
def unmanaged_accumulation_with_deepcompile(ctx: Context) -> Iterator[Finding]:
    """`managed_gradient_accumulation` is false beside DeepCompile.

    DeepCompile schedules communication by the boundaries of accumulation, which the script keeps to itself
    then: "managed_gradient_accumulation=False is not supported with DeepCompile".

    Bad:

        {"train_batch_size": 8, "managed_gradient_accumulation": false,
        "compile": {"deepcompile": true}, "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "compile": {"deepcompile": true}, "zero_optimization": {"stage": 1}}

    Fixed:

        {"train_batch_size": 8, "compile": {"deepcompile": true}, "zero_optimization": {"stage": 1}}
    """
    path = "managed_gradient_accumulation"
    if ctx.has(path) and not ctx.on(path) and ctx.on("compile.deepcompile"):
        yield ctx.at(
            path,
            "`managed_gradient_accumulation` is `false`, which `compile.deepcompile` does not work with",
            help="remove it, or switch `deepcompile` off",
            related=[("DeepCompile is switched on here", "compile.deepcompile")],
            fix=Fix(f"remove `{path}`", (Remove((path,)),)),
        )
