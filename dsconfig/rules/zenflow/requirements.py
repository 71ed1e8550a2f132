"""What ZenFlow requires of ZeRO and offloading."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, device
from dsconfig.rules._stage import ZERO, stage, stage_set_here
from dsconfig.rules.zenflow._section import ZENFLOW, zenflow

_STAGES_1_2 = "runtime/zenflow/zenflow_stage_1_and_2.py:ZenFlowZeroOptimizer"


@rule("DSC480", effect="crashes", since="0.17.5", source="runtime/zenflow/engine.py:zenflow_step")
def zenflow_without_zero(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is on, and ZeRO is off.

    The engine schedules its steps for an optimizer that only stages 1 to 3 build. The first training step
    ends in an AttributeError: the optimizer has no method of ZenFlow's.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 0, "zenflow": {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 0}}
    """
    if zenflow(ctx) and stage(ctx) == 0:
        yield ctx.at(
            ZENFLOW,
            "`zenflow` is on, but ZeRO is off: the first step looks for ZenFlow's optimizer and finds none",
            help="use stage 1, 2 or 3 with `offload_optimizer`, or remove `zenflow`",
            part="key",
            related=stage_set_here(ctx),
            fix=removal(ctx.place(ZENFLOW)),
        )


@rule("DSC481", effect="crashes", since="0.17.5", source=f"{_STAGES_1_2}._configure_zenflow")
def zenflow_without_offload(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is on at stage 1 or 2, and the optimizer is not offloaded.

    ZenFlow is a way to offload; without it the engine stops as it starts: "Zenflow must be used with cpu
    offload".

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "zenflow": {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}
    """
    if zenflow(ctx) and stage(ctx) in (1, 2) and device(ctx, OPTIMIZER) == "none":
        yield ctx.at(
            ZENFLOW,
            "`zenflow` is on, but the optimizer is not offloaded, which stages 1 and 2 need for it",
            help='add `"offload_optimizer": {"device": "cpu"}`, or remove `zenflow`',
            part="key",
            fix=Fix("offload the optimizer", (Set((*ctx.place(OPTIMIZER), "device"), "cpu"),)),
        )


@rule("DSC485", effect="crashes", since="0.17.5", source=f"{_STAGES_1_2}.__init__")
def zenflow_offload_without_overlap(ctx: Context) -> Iterator[Finding]:
    """`zenflow.offload` is true, and `overlap_comm` is not.

    The selected columns come back from the CPU while gradients are reduced: "offload selective optimizer
    should be used with overlap_comm". Below stage 3 overlap is off unless it is written.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"offload": true, "update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "overlap_comm": true, "offload_optimizer":
        {"device": "cpu"}, "zenflow": {"offload": true, "update_interval": 4}}}

    Fixed:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "overlap_comm": true, "offload_optimizer":
        {"device": "cpu"}, "zenflow": {"offload": true, "update_interval": 4}}}
    """
    path, overlap = f"{ZENFLOW}.offload", f"{ZERO}.overlap_comm"
    if not zenflow(ctx) or not ctx.on(path) or stage(ctx) == 0:
        return
    said = ctx.value(overlap)
    if not (stage(ctx) == 3 if said is None else said):
        absent = " by default" if said is None else ""
        yield ctx.at(
            path,
            f"`zenflow.offload` needs `overlap_comm`, which is `false`{absent}",
            help='add `"overlap_comm": true`, or remove `offload`',
            related=[("overlap is switched here", overlap)] if ctx.has(overlap) else [],
            fix=Fix("switch `overlap_comm` on", (Set(ctx.place(overlap), True),)),
        )


@rule("DSC492", effect="crashes", since="0.17.5", source=f"{_STAGES_1_2}.average_tensor")
def zenflow_without_reduce_scatter(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is on at stage 1 or 2, and `reduce_scatter` is false.

    The other way to reduce gradients is called without one of its arguments, and the first backward pass
    ends in a TypeError: "missing 1 required positional argument: 'communication_data_type'".

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "reduce_scatter": false, "offload_optimizer":
        {"device": "cpu"}, "zenflow": {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Fixed:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}
    """
    path = f"{ZERO}.reduce_scatter"
    if zenflow(ctx) and stage(ctx) in (1, 2) and ctx.value(path) is False:
        yield ctx.at(
            path,
            "`reduce_scatter` is `false`, and ZenFlow reduces gradients in no other way at stages 1 and 2",
            help="remove it",
            related=[("ZenFlow is switched on here", ZENFLOW)],
            fix=removal(ctx.place(path)),
        )
