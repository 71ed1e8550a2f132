"""The optimizer beside ZenFlow's own AdamW."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, device
from dsconfig.rules._stage import stage
from dsconfig.rules.zenflow._section import ZENFLOW, zenflow

_STAGES_1_2 = "runtime/zenflow/zenflow_stage_1_and_2.py:ZenFlowZeroOptimizer"
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
    if ctx.written("optimizer.params") in (MISSING, None):
        there = isinstance(ctx.written("optimizer"), dict)
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
