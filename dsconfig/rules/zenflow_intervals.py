"""ZenFlow intervals: gradient accumulation, column selection, and keys without effect."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    effective_stage,
    normalize_dtype,
    offload_device,
    related_dtype,
    training_dtype,
)
from dsconfig.rules._fixes import remove_key
from dsconfig.rules.zenflow import ZENFLOW, uses_zenflow

# `update_interval`, which replaces gradient accumulation, and the dtype of gradients.

_UPDATE = f"{ZENFLOW}.update_interval"
_CONFIGURE = "runtime/zenflow/engine.py:configure_zenflow"


@rule("DSC487", effect="altered", since="0.18.3", source="runtime/engine.py:DeepSpeedEngine.backward")
def zenflow_update_left_to_auto(ctx: Context) -> Iterator[Finding]:
    """`update_interval` is "auto", so DeepSpeed sets gradient accumulation to 0 and divides by it.

    The interval replaces `gradient_accumulation_steps`, and "auto", the default, means 0 there. DeepSpeed divides every
    loss by that number. Gradients become infinite, and after a few steps all weights are NaN. No error is raised.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow": {}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}
    """
    if uses_zenflow(ctx) and effective_stage(ctx) > 0 and ctx.value(_UPDATE) == "auto":
        default = "" if ctx.has(_UPDATE) else " by default"
        yield ctx.at(
            _UPDATE if ctx.has(_UPDATE) else ZENFLOW,
            f'`update_interval` is `"auto"`{default}: DeepSpeed sets gradient accumulation to 0 and divides'
            " every"
            " loss by it, so all weights become NaN",
            help=f"set `{_UPDATE}` to the value of `gradient_accumulation_steps`",
            part="value" if ctx.has(_UPDATE) else "key",
        )


@rule("DSC488", effect="altered", since="0.17.5", source=_CONFIGURE)
def accumulation_set_by_zenflow(ctx: Context) -> Iterator[Finding]:
    """`gradient_accumulation_steps` differs from ZenFlow's `update_interval`, which replaces it.

    The global batch size then differs from `train_batch_size`.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 8, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 2}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 2, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 2}}}

    Fixed:

        {"train_batch_size": 8, "gradient_accumulation_steps": 2, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 2}}}
    """
    path = "gradient_accumulation_steps"
    if not uses_zenflow(ctx) or not ctx.has(path) or effective_stage(ctx) == 0:
        return
    steps, update = ctx.value(path), ctx.value(_UPDATE)
    if isinstance(steps, int) and isinstance(update, int) and steps != update:
        accepts_update = update > 0  # DeepSpeed rejects a config with less than one step per batch
        yield ctx.at(
            path,
            f"`{path}` is {steps}, but DeepSpeed uses the `update_interval` of ZenFlow, {update}, and does"
            " not recompute `train_batch_size`",
            help=(f"set `{path}` to {update}, or " if accepts_update else "") + f"set `{_UPDATE}` to {steps}",
            related=[("the interval is set here", _UPDATE)],
            fix=Fix(f"replace with {update}", (SetValue((path,), update),)) if accepts_update else None,
        )


@rule(
    "DSC494",
    effect="crashes",
    since="0.17.5",
    source="runtime/zenflow/zenflow_stage_1_and_2.py:ZenFlowZeroOptimizer._process_selected_fp32_groups_grad",
)
def zenflow_beside_other_gradients(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is enabled at stage 1 with a `data_types.grad_accum_dtype` other than the model's dtype.

    Stage 1 then moves gradients into a separate attribute. ZenFlow reads the usual attribute, which is empty: the first
    backward pass fails with "'NoneType' object is not subscriptable". Stage 2 does not move them.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Fixed:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "bf16": {"enabled": true}, "data_types": {}, "zero_optimization": {"stage": 1,
        "offload_optimizer": {"device": "cpu"}, "zenflow": {"update_interval": 4}}}
    """
    path = "data_types.grad_accum_dtype"
    if (
        not uses_zenflow(ctx)
        or not ctx.has(path)
        or effective_stage(ctx) != 1
        or offload_device(ctx, OPTIMIZER) != "cpu"
    ):
        return
    dtype = normalize_dtype(ctx.value(path))
    if dtype in ("fp32", "bf16", "fp16") and dtype != training_dtype(ctx):
        yield ctx.at(
            path,
            f"`grad_accum_dtype` is {quote_value(ctx.value(path))}, but the model trains in {training_dtype(ctx)}:"
            " ZenFlow finds no gradients at stage 1",
            help="remove it, or use stage 2",
            related=[*related_dtype(ctx), ("ZenFlow is enabled here", ZENFLOW)],
            fix=remove_key(ctx.written_path(path)),
        )


# Column selection of ZenFlow: intervals that contradict each other.

_SELECT = f"{ZENFLOW}.select_strategy"
_INTERVAL = f"{ZENFLOW}.select_interval"


@rule("DSC482", effect="crashes", since="0.17.5", source=_CONFIGURE)
def zenflow_interval_beside_auto(ctx: Context) -> Iterator[Finding]:
    """`select_interval` is a number, but `select_strategy` is "auto".

    "auto", the default, selects once per epoch and accepts no other interval. DeepSpeed raises a warning as an
    exception: "If use auto select strategy, select_interval will be set to 1".

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"select_interval": 8, "update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"select_strategy": "step", "select_interval": 8, "update_interval": 4}}}

    Fixed:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"select_strategy": "step", "select_interval": 8, "update_interval": 4}}}
    """
    if uses_zenflow(ctx) and ctx.value(_SELECT) == "auto" and isinstance(ctx.value(_INTERVAL), int):
        default = "" if ctx.has(_SELECT) else " by default"
        yield ctx.at(
            _INTERVAL,
            f'`select_interval` is {quote_value(ctx.value(_INTERVAL))}, but `select_strategy` is `"auto"`{default}'
            " and"
            " accepts no interval",
            help='add `"select_strategy": "step"` or `"epoch"`, or remove `select_interval`',
            related=[("the strategy is set here", _SELECT)] if ctx.has(_SELECT) else [],
            fix=Fix('set `select_strategy` to `"step"`', (SetValue(ctx.written_path(_SELECT), "step"),)),
        )


@rule("DSC483", effect="crashes", since="0.17.5", source=_CONFIGURE)
def zenflow_strategy_without_interval(ctx: Context) -> Iterator[Finding]:
    """`select_strategy` is "step" or "epoch", but `select_interval` is not a number.

    Engine initialization fails with "select_interval must be a number".

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"select_strategy": "step", "update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"select_strategy": "step", "select_interval": 8, "update_interval": 4}}}
    """
    if uses_zenflow(ctx) and ctx.value(_SELECT) in ("step", "epoch") and ctx.value(_INTERVAL) == "auto":
        default = "" if ctx.has(_INTERVAL) else " by default"
        yield ctx.at(
            _SELECT,
            f'`select_interval` is `"auto"`{default}, but `select_strategy` {quote_value(ctx.value(_SELECT))}'
            " requires a number",
            help=f"set `select_interval` to a number of {ctx.value(_SELECT)}s",
        )


@rule("DSC484", effect="crashes", since="0.17.5", source=_CONFIGURE)
def zenflow_selection_before_update(ctx: Context) -> Iterator[Finding]:
    """ZenFlow selects columns more often than it updates the other columns.

    Engine initialization fails with "Select interval must be greater or equal to update interval".

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"select_strategy": "step", "select_interval": 2, "update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"select_strategy": "step", "select_interval": 8, "update_interval": 4}}}

    Fixed:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"select_strategy": "step", "select_interval": 4, "update_interval": 4}}}
    """
    if not uses_zenflow(ctx) or ctx.value(_SELECT) != "step":
        return  # the data loader counts epochs, or nothing does
    select, update = ctx.value(_INTERVAL), ctx.value(_UPDATE)
    if isinstance(select, int) and isinstance(update, int) and select != 0 and select < update:
        yield ctx.at(
            _INTERVAL,
            f"`select_interval` is {select}, less than `update_interval`, {update}: a selection must last for"
            " at least one update",
            help=f"set `select_interval` to {update} or more",
            related=[("the update interval is set here", _UPDATE)],
            fix=Fix(f"replace with {update}", (SetValue(ctx.written_path(_INTERVAL), update),)),
        )


# ZenFlow keys without effect.


@rule("DSC489", effect="ignored", since="0.17.5", source="runtime/zenflow/zenflow_config.py:ZenFlowConfig")
def zenflow_key_without_effect(ctx: Context) -> Iterator[Finding]:
    """`steps_per_epoch` is set, or `full_warm_up_rounds` is negative.

    In `steps_per_epoch` the engine stores the length of its data loader: it overwrites the key once it has a data
    loader, and reads it only if selections are counted in epochs. `full_warm_up_rounds` is a number of initial rounds,
    and a negative number means none.

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
    if not uses_zenflow(ctx):
        return
    steps, rounds = f"{ZENFLOW}.steps_per_epoch", f"{ZENFLOW}.full_warm_up_rounds"
    if ctx.has(steps) and ctx.value(steps) is not None:
        counts_steps = ctx.value(f"{ZENFLOW}.select_strategy") == "step"
        yield ctx.at(
            steps,
            "`steps_per_epoch` has no effect: selections are counted in steps"
            if counts_steps
            else "`steps_per_epoch` is set, but the engine overwrites it with the length of its data loader",
            help="remove it",
            effect="ignored" if counts_steps else "altered",
            fix=remove_key(ctx.written_path(steps)),
        )
    if ctx.has(rounds) and isinstance(ctx.value(rounds), int) and ctx.value(rounds) < 0:
        yield ctx.at(
            rounds,
            f"`full_warm_up_rounds` is {ctx.value(rounds)}, which is treated as 0",
            help="set it to the number of initial rounds that apply every gradient at once, or remove it",
            fix=remove_key(ctx.written_path(rounds)),
        )
