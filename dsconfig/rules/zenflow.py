"""ZenFlow: the ZeRO stage, offloading, optimizer and release that it requires."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding
from dsconfig.rules._effective_values import OPTIMIZER, ZERO, effective_stage, offload_device, related_stage
from dsconfig.rules._fixes import remove_key

# Whether ZenFlow is enabled.

ZENFLOW = f"{ZERO}.zenflow"


def uses_zenflow(ctx: Context) -> bool:
    """Return whether ZenFlow is enabled; even an empty section enables it."""
    return ctx.has(ZENFLOW) and isinstance(ctx.value(ZENFLOW), dict)


def _uses_zenflow_optimizer(ctx: Context) -> bool:
    """Return whether ZenFlow builds its own optimizer: at stages 1 and 2, if the optimizer is offloaded."""
    return uses_zenflow(ctx) and effective_stage(ctx) in (1, 2) and offload_device(ctx, OPTIMIZER) != "none"


# What ZenFlow requires of ZeRO and offloading.

_STAGES_1_2 = "runtime/zenflow/zenflow_stage_1_and_2.py:ZenFlowZeroOptimizer"


@rule("DSC480", effect="crashes", since="0.17.5", source="runtime/zenflow/engine.py:zenflow_step")
def zenflow_without_zero(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is enabled, but ZeRO is off.

    The engine calls methods of an optimizer that only stages 1 to 3 build, so the first training step fails with an
    AttributeError.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 0, "zenflow": {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 0}}
    """
    if uses_zenflow(ctx) and effective_stage(ctx) == 0:
        yield ctx.at(
            ZENFLOW,
            "`zenflow` is set, but ZeRO is off: the first step fails because there is no ZenFlow optimizer",
            help="use stage 1, 2 or 3 with `offload_optimizer`, or remove `zenflow`",
            part="key",
            related=related_stage(ctx),
            fix=remove_key(ctx.written_path(ZENFLOW)),
        )


@rule("DSC481", effect="crashes", since="0.17.5", source=f"{_STAGES_1_2}._configure_zenflow")
def zenflow_without_offload(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is enabled at stage 1 or 2, but the optimizer is not offloaded.

    ZenFlow is a form of offloading. Without offloading, engine initialization fails with "Zenflow must be
    used with cpu offload".

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "zenflow": {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}
    """
    if uses_zenflow(ctx) and effective_stage(ctx) in (1, 2) and offload_device(ctx, OPTIMIZER) == "none":
        yield ctx.at(
            ZENFLOW,
            "`zenflow` is set, but the optimizer is not offloaded, which ZenFlow requires at stages 1 and 2",
            help='add `"offload_optimizer": {"device": "cpu"}`, or remove `zenflow`',
            part="key",
            fix=Fix("offload the optimizer", (SetValue((*ctx.written_path(OPTIMIZER), "device"), "cpu"),)),
        )


@rule("DSC485", effect="crashes", since="0.17.5", source=f"{_STAGES_1_2}.__init__")
def zenflow_offload_without_overlap(ctx: Context) -> Iterator[Finding]:
    """`zenflow.offload` is true, but `overlap_comm` is not.

    The selected columns return from the CPU while gradients are reduced: "offload selective optimizer should
    be used with overlap_comm". Below stage 3, `overlap_comm` is false by default.

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
    if not uses_zenflow(ctx) or not ctx.is_on(path) or effective_stage(ctx) == 0:
        return
    overlaps = ctx.value(overlap)
    if not (effective_stage(ctx) == 3 if overlaps is None else overlaps):
        absent = " by default" if overlaps is None else ""
        yield ctx.at(
            path,
            f"`zenflow.offload` requires `overlap_comm`, which is `false`{absent}",
            help='add `"overlap_comm": true`, or remove `offload`',
            related=[("`overlap_comm` is set here", overlap)] if ctx.has(overlap) else [],
            fix=Fix("set `overlap_comm` to `true`", (SetValue(ctx.written_path(overlap), True),)),
        )


@rule("DSC492", effect="crashes", since="0.17.5", source=f"{_STAGES_1_2}.average_tensor")
def zenflow_without_reduce_scatter(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is enabled at stage 1 or 2, but `reduce_scatter` is false.

    DeepSpeed calls the alternative reduction without one of its arguments, so the first backward pass fails
    with a TypeError: "missing 1 required positional argument: 'communication_data_type'".

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
    if uses_zenflow(ctx) and effective_stage(ctx) in (1, 2) and ctx.value(path) is False:
        yield ctx.at(
            path,
            "`reduce_scatter` is `false`, but ZenFlow requires it to reduce gradients at stages 1 and 2",
            help="remove it",
            related=[("ZenFlow is enabled here", ZENFLOW)],
            fix=remove_key(ctx.written_path(path)),
        )


# The optimizer config, from which ZenFlow also builds its own AdamW.

_ADAMW_ARGUMENTS = (
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
"""Arguments of PyTorch's AdamW, the base class of ZenFlow's (ops/adam/zenflow_torch_adam.py)."""

_LISTED = 5
"""Maximum number of arguments that messages list; the others are of no use here."""


@rule("DSC486", effect="crashes", since="0.17.5", source=f"{_STAGES_1_2}.__init__")
def zenflow_with_foreign_params(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params` has a key that PyTorch's AdamW rejects, and ZenFlow is enabled at stage 1 or 2.

    ZenFlow passes the params unchanged to its own AdamW, including those that only DeepSpeed supports. Engine
    initialization fails with a TypeError, "unexpected keyword argument".

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
    if not _uses_zenflow_optimizer(ctx):
        return
    accepted = join_alternatives((f"`{key}`" for key in _ADAMW_ARGUMENTS[:_LISTED]), "and")
    params = ctx.raw("optimizer.params")
    for key in params if isinstance(params, dict) else ():
        if key not in _ADAMW_ARGUMENTS:
            path = ("optimizer", "params", key)
            yield ctx.at(
                path,
                f"`{key}` is passed to ZenFlow's AdamW, which accepts only {accepted}",
                help="remove it",
                part="key",
                related=[("ZenFlow is enabled here", ZENFLOW)],
                fix=remove_key(path),
            )


@rule(
    "DSC490",
    effect="crashes",
    since="0.17.5",
    source="runtime/zenflow/engine.py:_take_selective_parameter_step",
)
def zenflow_without_adam(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is enabled, but the optimizer is not Adam.

    In every step, ZenFlow tells the CPU optimizer which of its two states to use. Only its own Adam accepts
    this argument. Other optimizers fail in the first step with "step() got an unexpected keyword argument
    'step_id'".

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "Lion", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}
    """
    if not uses_zenflow(ctx) or effective_stage(ctx) == 0:
        return
    kind = ctx.value("optimizer.type")
    if isinstance(kind, str) and kind.lower() not in ("adam", "adamw"):
        yield ctx.at(
            "optimizer.type",
            f"the optimizer is {quote_value(kind)}, but ZenFlow works only with `Adam` and `AdamW`",
            help='use `"AdamW"`, or remove `zenflow`',
            related=[("ZenFlow is enabled here", ZENFLOW)],
        )


@rule("DSC491", effect="crashes", since="0.17.5", source=f"{_STAGES_1_2}.__init__")
def zenflow_without_params(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is enabled at stage 1 or 2, but the config has no `optimizer.params`.

    ZenFlow builds its own AdamW from them, even if the script passes the optimizer: engine initialization
    fails with "argument after ** must be a mapping, not NoneType". An empty object is sufficient.

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
    if not _uses_zenflow_optimizer(ctx):
        return
    if ctx.raw("optimizer.params") in (MISSING, None):
        has_optimizer = isinstance(ctx.raw("optimizer"), dict)
        yield ctx.at(
            "optimizer" if has_optimizer else ZENFLOW,
            f"{'`optimizer` has no `params`' if has_optimizer else 'the config has no `optimizer`'}, but"
            " ZenFlow builds its own AdamW from `optimizer.params` at stages 1 and 2",
            help='add `"params": {"lr": 1e-4}`, or another learning rate'
            if has_optimizer
            else 'add `"optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}`, or your own settings',
            part="key",
            related=[("ZenFlow is enabled here", ZENFLOW)],
        )


# The weights of a model that ZenFlow trains.


@rule(
    "DSC493",
    effect="altered",
    since="0.19.7",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer._update_model_bit16_weights",
)
def zenflow_scrambles_weights(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is enabled at stage 1 or 2, which trains scrambled weights instead of the loaded ones.

    ZenFlow stores every matrix transposed (`runtime/zenflow/zenflow_utils.py:_flatten_dense_tensors`). Up to 0.19.6,
    DeepSpeed also read it transposed. Since 0.19.7, it reads the matrix row by row, so its elements are in the wrong
    positions as soon as the engine is built. Gradients are stored transposed as well, so the updates on the CPU reach
    the wrong weights. No error is raised. A pretrained model starts with the loss of a random one.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    if uses_zenflow(ctx) and effective_stage(ctx) in (1, 2):
        yield ctx.at(
            ZENFLOW,
            "with `zenflow` at stages 1 and 2, DeepSpeed stores matrices transposed but reads them back as if they"
            " were not, so it trains scrambled weights",
            help="remove `zenflow`, use stage 3, or use DeepSpeed 0.19.6",
            part="key",
            related=related_stage(ctx),
        )
