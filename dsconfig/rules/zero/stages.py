"""The stage itself: left out, without fp16, or too low to load a checkpoint."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import compact, one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.schema_condition import Absent, Condition, Counts, Is, Needed, NotEmpty
from dsconfig.rules._fixes import removal
from dsconfig.rules._stage import STAGE, ZERO, stage, stage_place, stage_set_here, stage_words, zero

_CHECK = "runtime/config.py:DeepSpeedConfig._do_error_check"


@rule(
    "DSC430",
    effect="ignored",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.stage",
    conditions=(Condition("ZeroOptimization", (NotEmpty(),), Needed("stage")),),
)
def section_without_stage(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` says how, but not at which stage.

    The default stage is 0, so ZeRO stays off, and with it everything else in the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"offload_param": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}
    """
    written = [name for name in zero(ctx) if name != "stage"]
    if written and not ctx.has(STAGE):
        names = one_of((f"`{ctx.place(f'{ZERO}.{name}')[-1]}`" for name in written), "and")
        yield ctx.at(
            ZERO,
            "`zero_optimization` has no `stage`, and the default is 0: ZeRO is off, and"
            f" {names if len(written) <= _MOST else f'its {len(written)} keys'}"
            f" {'do' if len(written) > 1 else 'does'} nothing",
            help=f'add `"stage": 1`, `2` or `3`, or {_off(ctx)}',
            part="key",
        ).lacking(ctx.place(STAGE))


def _off(ctx: Context) -> str:
    """How to say that there is no ZeRO; Transformers and Accelerate refuse a config without the section."""
    return 'write `{"stage": 0}`' if ctx.plugged else "remove the section"


_MOST = 3
"""More names than these are counted only."""


@rule(
    "DSC433",
    effect="ignored",
    since="0.10.1",
    source="runtime/engine.py:DeepSpeedEngine._load_zero_checkpoint",
    conditions=(
        Condition(
            "ZeroOptimization",
            (Is("pipeline_loading_checkpoint", (True,)), Counts("stage", (0, 1, 2))),
            Absent("pipeline_loading_checkpoint", "`pipeline_loading_checkpoint` works at stage 3 alone"),
        ),
    ),
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
            related=stage_set_here(ctx),
            fix=removal(ctx.place(path)),
        )


@rule("DSC401", effect="rejected", until="0.3.16", source=_CHECK)
def zero_without_fp16(ctx: Context) -> Iterator[Finding]:
    """ZeRO is on and `fp16` is not.

    The first releases sharded half-precision training only; 0.3.16 dropped the demand for stages 2 and 3,
    0.4.0 for stage 1 as well.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1}, "fp16": {"enabled": true}}
    """
    level = stage(ctx)
    if level > 0 and not ctx.on("fp16.enabled") and (ctx.before("0.3.16") or level < 2):
        yield ctx.at(
            stage_place(ctx),
            f"stage {compact(level)} needs `fp16`, which is not enabled",
            help="enable `fp16`; from 0.4.0 on ZeRO works without it",
            related=[("fp16 is switched here", "fp16.enabled")] if ctx.has("fp16") else [],
        )
