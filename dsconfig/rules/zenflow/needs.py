"""What ZenFlow needs around it."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import OPTIMIZER, ZENFLOW, ZERO, device, said_here, stage, zenflow
from dsconfig.words import one_of, quoted

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
            related=said_here(ctx),
            fix=Fix("remove `zenflow`", (Remove(ctx.place(ZENFLOW)),)),
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


_TAKEN = (
    "lr",
    "betas",
    "eps",
    "weight_decay",
    "amsgrad",
    "maximize",
    "foreach",
    "capturable",
    "differentiable",
    "fused",
)
"""Arguments of torch's AdamW, from which ZenFlow's is derived (ops/adam/zenflow_torch_adam.py)."""


_USUAL = 5
"""How many of them are of any use here."""


@rule("DSC486", effect="crashes", since="0.17.5", source=f"{_STAGES_1_2}.__init__")
def zenflow_with_foreign_params(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params` has a key that torch's AdamW does not take, while ZenFlow is on at stage 1 or 2.

    ZenFlow hands the params to an AdamW of its own as they stand, those that only DeepSpeed knows too: a
    TypeError, "unexpected keyword argument", as the engine starts.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "adam_w_mode": true}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},
        "zenflow": {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},
        "zenflow": {"update_interval": 4}}}

    Fixed:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},
        "zenflow": {"update_interval": 4}}}
    """
    if not zenflow(ctx) or stage(ctx) not in (1, 2) or device(ctx, OPTIMIZER) == "none":
        return
    taken = one_of((f"`{key}`" for key in _TAKEN[:_USUAL]), "and")
    params = ctx.written("optimizer.params")
    for name in params if isinstance(params, dict) else ():
        if name not in _TAKEN:
            place = ("optimizer", "params", name)
            yield ctx.at(
                place,
                f"`{name}` goes to ZenFlow's AdamW as well, which takes only {taken}",
                help="remove it",
                part="key",
                related=[("ZenFlow is switched on here", ZENFLOW)],
                fix=Fix(f"remove `{name}`", (Remove(place),)),
            )


@rule("DSC489", effect="ignored", since="0.17.5", source="runtime/zenflow/zenflow_config.py:ZenFlowConfig")
def zenflow_key_without_effect(ctx: Context) -> Iterator[Finding]:
    """`steps_per_epoch` is written, or `full_warm_up_rounds` is negative.

    The first is the engine's own note of how long its data loader is; it counts only where selections are
    counted in epochs, and there the engine overwrites it as soon as it has a data loader. The second is a
    number of first rounds, and fewer than none are none.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"full_warm_up_rounds": -1, "update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Fixed:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}
    """
    if not zenflow(ctx):
        return
    steps, rounds = f"{ZENFLOW}.steps_per_epoch", f"{ZENFLOW}.full_warm_up_rounds"
    if ctx.has(steps) and ctx.value(steps) is not None:
        by_steps = ctx.value(f"{ZENFLOW}.select_strategy") == "step"
        yield ctx.at(
            steps,
            "`steps_per_epoch` has no effect: selections are counted in steps"
            if by_steps
            else "`steps_per_epoch` is the engine's to fill in: it puts the length of its data loader there",
            help="remove it",
            effect="ignored" if by_steps else "altered",
            fix=Fix("remove `steps_per_epoch`", (Remove(ctx.place(steps)),)),
        )
    if ctx.has(rounds) and isinstance(ctx.value(rounds), int) and ctx.value(rounds) < 0:
        yield ctx.at(
            rounds,
            f"`full_warm_up_rounds` is {ctx.value(rounds)}, which is as good as 0",
            help="write the number of first rounds in which every gradient is applied at once, or remove it",
            fix=Fix("remove `full_warm_up_rounds`", (Remove(ctx.place(rounds)),)),
        )


@rule(
    "DSC490",
    effect="crashes",
    since="0.17.5",
    source="runtime/zenflow/engine.py:_take_selective_parameter_step",
)
def zenflow_without_adam(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is on, and the optimizer is not Adam.

    ZenFlow tells the CPU optimizer in every step which one of its two states to use, and only the Adam made
    for it understands: "step() got an unexpected keyword argument 'step_id'" at the first step.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "Lion", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}
    """
    if not zenflow(ctx) or stage(ctx) == 0:
        return
    kind = ctx.value("optimizer.type")
    if isinstance(kind, str) and kind.lower() not in ("adam", "adamw"):
        yield ctx.at(
            "optimizer.type",
            f"the optimizer is {quoted(kind)}, but ZenFlow works with `Adam` and `AdamW` alone",
            help="use `AdamW`, or remove `zenflow`",
            related=[("ZenFlow is switched on here", ZENFLOW)],
        )


@rule("DSC491", effect="crashes", since="0.17.5", source=f"{_STAGES_1_2}.__init__")
def zenflow_without_params(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is on at stage 1 or 2, and the config holds no `optimizer.params`.

    ZenFlow builds an AdamW of its own from them, also where the script brings the optimizer: "argument after
    ** must be a mapping, not NoneType" as the engine starts. An empty object will do.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},
        "zenflow": {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4,
        "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},
        "zenflow": {"update_interval": 4}}}
    """
    if not zenflow(ctx) or stage(ctx) not in (1, 2) or device(ctx, OPTIMIZER) == "none":
        return
    if ctx.written("optimizer.params") in (MISSING, None):
        there = isinstance(ctx.written("optimizer"), dict)
        yield ctx.at(
            "optimizer" if there else ZENFLOW,
            f"{'`optimizer` has no `params`' if there else 'the config has no `optimizer`'}, and from its"
            " params ZenFlow builds an AdamW of its own at stages 1 and 2",
            help='add `"params": {"lr": …}`' if there else "add `optimizer` with its `params`",
            part="key",
            related=[("ZenFlow is switched on here", ZENFLOW)],
        )
