"""ZenFlow: the ZeRO stage, offloading, optimizer and weights that it requires."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._effective_values import OPTIMIZER, ZERO, device, stage, stage_set_here
from dsconfig.rules._fixes import removal

# Whether ZenFlow is on.

ZENFLOW = f"{ZERO}.zenflow"


def zenflow(ctx: Context) -> bool:
    """Whether ZenFlow is on: its section is there, even if empty."""
    return ctx.has(ZENFLOW) and isinstance(ctx.value(ZENFLOW), dict)


# What ZenFlow requires of ZeRO and offloading.

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
            fix=removal(ctx.written_path(ZENFLOW)),
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
            fix=Fix("offload the optimizer", (Set((*ctx.written_path(OPTIMIZER), "device"), "cpu"),)),
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
    if not zenflow(ctx) or not ctx.is_on(path) or stage(ctx) == 0:
        return
    said = ctx.value(overlap)
    if not (stage(ctx) == 3 if said is None else said):
        absent = " by default" if said is None else ""
        yield ctx.at(
            path,
            f"`zenflow.offload` needs `overlap_comm`, which is `false`{absent}",
            help='add `"overlap_comm": true`, or remove `offload`',
            related=[("overlap is switched here", overlap)] if ctx.has(overlap) else [],
            fix=Fix("switch `overlap_comm` on", (Set(ctx.written_path(overlap), True),)),
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
            fix=removal(ctx.written_path(path)),
        )


# The optimizer beside ZenFlow's own AdamW.

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
    params = ctx.raw("optimizer.params")
    for name in params if isinstance(params, dict) else ():
        if name not in _TAKEN:
            place = ("optimizer", "params", name)
            yield ctx.at(
                place,
                f"`{name}` goes to ZenFlow's AdamW as well, which takes only {taken}",
                help="remove it",
                part="key",
                related=[("ZenFlow is switched on here", ZENFLOW)],
                fix=removal(place),
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
            help='write `"AdamW"`, or remove `zenflow`',
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
    if ctx.raw("optimizer.params") in (MISSING, None):
        there = isinstance(ctx.raw("optimizer"), dict)
        yield ctx.at(
            "optimizer" if there else ZENFLOW,
            f"{'`optimizer` has no `params`' if there else 'the config has no `optimizer`'}, and from its"
            " params ZenFlow builds an AdamW of its own at stages 1 and 2",
            help='add `"params": {"lr": 1e-4}`, or the rate that you mean'
            if there
            else 'add `"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}`, or the one that you mean',
            part="key",
            related=[("ZenFlow is switched on here", ZENFLOW)],
        )


# The weights that ZenFlow trains.


@rule(
    "DSC493",
    effect="altered",
    since="0.19.7",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer._update_model_bit16_weights",
)
def zenflow_scrambles_weights(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is on at stage 1 or 2, and the model is trained from other weights than those loaded.

    ZenFlow lays every matrix down transposed (`runtime/zenflow/zenflow_utils.py:_flatten_dense_tensors`).
    Up to 0.19.6 it was read so, too; from 0.19.7 on it is read row by row, and its numbers stand in other
    places as soon as the engine is built. Gradients are laid down transposed as well, and what waits for
    the update on the CPU reaches other weights than its own. Nothing is raised; a pretrained model starts
    with the loss of a random one.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    if zenflow(ctx) and stage(ctx) in (1, 2):
        yield ctx.at(
            ZENFLOW,
            "`zenflow` at stages 1 and 2 reads matrices that it transposed as if they were not transposed:"
            " the model is trained from other weights than those that were loaded",
            help="remove it, use stage 3, or use DeepSpeed 0.19.6",
            part="key",
            related=stage_set_here(ctx),
        )
