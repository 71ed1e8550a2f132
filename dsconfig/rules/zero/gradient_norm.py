"""`compute_grad_norm`: where the norm of the gradients cannot be left out."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.schema_condition import Absent, Condition, Counts, Is
from dsconfig.rules._dtypes import bf16_optimizer
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, device, device_place
from dsconfig.rules._stage import ZERO, stage, stage_words

_STAGES_1_2 = "runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__"


@rule(
    "DSC402",
    effect="rejected",
    since="0.19.7",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.compute_grad_norm_valid",
    conditions=(
        Condition(
            "ZeroOptimization",
            (Is("compute_grad_norm", (False,)), Counts("stage", (0, 3))),
            Absent("compute_grad_norm", "`compute_grad_norm` may be false only at ZeRO stage 1 or 2"),
        ),
    ),
)
def gradient_norm_skipped_at_wrong_stage(ctx: Context) -> Iterator[Finding]:
    """`compute_grad_norm` is false, and the stage is neither 1 nor 2.

    Only the optimizer of stages 1 and 2 can leave the norm out.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "compute_grad_norm": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "compute_grad_norm": false}}
    """
    path = "zero_optimization.compute_grad_norm"
    if ctx.has(path) and not ctx.on(path) and stage(ctx) not in (1, 2):
        yield ctx.at(
            path,
            f"`compute_grad_norm` may be `false` only at ZeRO stage 1 or 2, but {stage_words(ctx)}",
            help="remove the key, or use stage 1 or 2",
            fix=removal(ctx.place(path)),
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
            fix=removal(ctx.place(path)),
        )
        return


def _norm_users(ctx: Context) -> Iterator[tuple[str, str]]:
    if device(ctx, OPTIMIZER) != "none":
        yield "optimizer offload needs the norm of the gradients", device_place(ctx, OPTIMIZER)
    if ctx.value(f"{ZERO}.zenflow") is not None:
        yield "ZenFlow needs the norm of the gradients", f"{ZERO}.zenflow"
    if bf16_optimizer(ctx):
        yield (
            "stage 1 with bf16 and gradients accumulated in fp32 needs the norm of the gradients",
            "data_types.grad_accum_dtype",
        )
    clipping = ctx.value("gradient_clipping")
    if isinstance(clipping, int | float) and clipping > 0:
        default = "" if ctx.has("gradient_clipping") else ", the default,"
        yield f"`gradient_clipping` is {clipping}{default} and clips by that norm", "gradient_clipping"
