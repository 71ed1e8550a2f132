"""Intervals of ZenFlow: gradient accumulation, selection of columns, and keys without effect."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._effective_values import OPTIMIZER, device, format_of, format_place, model_format, stage
from dsconfig.rules._fixes import removal
from dsconfig.rules.zenflow.requirements import ZENFLOW, zenflow

# `update_interval`, which takes the place of gradient accumulation, and the format of gradients.

_UPDATE = f"{ZENFLOW}.update_interval"
_CONFIGURE = "runtime/zenflow/engine.py:configure_zenflow"


@rule("DSC487", effect="altered", since="0.18.3", source="runtime/engine.py:DeepSpeedEngine.backward")
def zenflow_update_left_to_auto(ctx: Context) -> Iterator[Finding]:
    """`update_interval` is "auto", by which DeepSpeed sets gradient accumulation to 0 and divides by it.

    The interval takes the place of `gradient_accumulation_steps`, and "auto", the default, stands for 0
    there. Every loss is divided by that number, gradients become infinite, and after a few steps all weights
    are NaN. Nothing is raised.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow": {}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}
    """
    if zenflow(ctx) and stage(ctx) > 0 and ctx.value(_UPDATE) == "auto":
        said = "" if ctx.has(_UPDATE) else ", the default"
        yield ctx.at(
            _UPDATE if ctx.has(_UPDATE) else ZENFLOW,
            f'`update_interval` is `"auto"`{said}: DeepSpeed sets gradient accumulation to 0 and divides'
            " every loss by it, and all weights turn NaN",
            help=f"set `{_UPDATE}` to a number, the same as `gradient_accumulation_steps`",
            part="value" if ctx.has(_UPDATE) else "key",
        )


@rule("DSC488", effect="altered", since="0.17.5", source=_CONFIGURE)
def accumulation_set_by_zenflow(ctx: Context) -> Iterator[Finding]:
    """`gradient_accumulation_steps` is not ZenFlow's `update_interval`, which takes its place.

    The global batch then is another one than `train_batch_size` says.

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
    if not zenflow(ctx) or not ctx.has(path) or stage(ctx) == 0:
        return
    written, update = ctx.value(path), ctx.value(_UPDATE)
    if isinstance(written, int) and isinstance(update, int) and written != update:
        either = f"write {update}, or " if update > 0 else ""  # a batch takes a step at the least
        yield ctx.at(
            path,
            f"`{path}` is {written} and counts as {update}, the `update_interval` of ZenFlow;"
            " `train_batch_size` is not worked out again",
            help=f"{either}set `{_UPDATE}` to {written}",
            related=[("the interval is set here", _UPDATE)],
            fix=Fix(f"replace by {update}", (Set((path,), update),)) if either else None,
        )


@rule(
    "DSC494",
    effect="crashes",
    since="0.17.5",
    source="runtime/zenflow/zenflow_stage_1_and_2.py:ZenFlowZeroOptimizer._process_selected_fp32_groups_grad",
)
def zenflow_beside_other_gradients(ctx: Context) -> Iterator[Finding]:
    """ZenFlow is on at stage 1, and `data_types.grad_accum_dtype` is not the model's format.

    Stage 1 then moves gradients into an attribute of their own, and ZenFlow takes what it selected from the
    usual one, which is empty: "'NoneType' object is not subscriptable" in the first backward pass. Stage 2
    keeps them where they are.

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
    if not zenflow(ctx) or not ctx.has(path) or stage(ctx) != 1 or device(ctx, OPTIMIZER) != "cpu":
        return
    chosen = format_of(ctx.value(path))
    if chosen in ("fp32", "bf16", "fp16") and chosen != model_format(ctx):
        yield ctx.at(
            path,
            f"`grad_accum_dtype` is {quoted(ctx.value(path))}, but the model trains in {model_format(ctx)},"
            " and ZenFlow at stage 1 finds no gradients then",
            help="remove it, or use stage 2",
            related=[*format_place(ctx), ("ZenFlow is switched on here", ZENFLOW)],
            fix=removal(ctx.written_path(path)),
        )


# When ZenFlow selects columns: intervals that contradict each other.

_SELECT = f"{ZENFLOW}.select_strategy"
_EVERY = f"{ZENFLOW}.select_interval"


@rule("DSC482", effect="crashes", since="0.17.5", source=_CONFIGURE)
def zenflow_interval_beside_auto(ctx: Context) -> Iterator[Finding]:
    """`select_interval` is a number while `select_strategy` is "auto".

    "auto", the default, selects once an epoch and will not be told otherwise. DeepSpeed raises its warning
    of it as an exception: "If use auto select strategy, select_interval will be set to 1".

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
    if zenflow(ctx) and ctx.value(_SELECT) == "auto" and isinstance(ctx.value(_EVERY), int):
        said = "" if ctx.has(_SELECT) else ", the default"
        yield ctx.at(
            _EVERY,
            f'`select_interval` is {quoted(ctx.value(_EVERY))}, which `select_strategy` `"auto"`{said}'
            " refuses",
            help='add `"select_strategy": "step"` or `"epoch"`, or remove `select_interval`',
            related=[("the strategy is chosen here", _SELECT)] if ctx.has(_SELECT) else [],
            fix=Fix("count the interval in steps", (Set(ctx.written_path(_SELECT), "step"),)),
        )


@rule("DSC483", effect="crashes", since="0.17.5", source=_CONFIGURE)
def zenflow_strategy_without_interval(ctx: Context) -> Iterator[Finding]:
    """`select_strategy` is "step" or "epoch", and `select_interval` is not a number.

    The engine stops as it starts: "select_interval must be a number".

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"select_strategy": "step", "update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"select_strategy": "step", "select_interval": 8, "update_interval": 4}}}
    """
    if zenflow(ctx) and ctx.value(_SELECT) in ("step", "epoch") and ctx.value(_EVERY) == "auto":
        said = "" if ctx.has(_EVERY) else ", the default"
        yield ctx.at(
            _SELECT,
            f"`select_strategy` is {quoted(ctx.value(_SELECT))}, which needs a number for `select_interval`,"
            f' and that is `"auto"`{said}',
            help=f"add `select_interval`, a number of {ctx.value(_SELECT)}s",
        )


@rule("DSC484", effect="crashes", since="0.17.5", source=_CONFIGURE)
def zenflow_selection_before_update(ctx: Context) -> Iterator[Finding]:
    """ZenFlow selects columns more often than it updates the others.

    The engine stops as it starts: "Select interval must be greater or equal to update interval".

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
    if (
        not zenflow(ctx) or ctx.value(_SELECT) != "step"
    ):  # epochs are counted by the data loader, or not at all
        return
    select, update = ctx.value(_EVERY), ctx.value(_UPDATE)
    if isinstance(select, int) and isinstance(update, int) and select != 0 and select < update:
        yield ctx.at(
            _EVERY,
            f"`select_interval` {select} < {update}, the `update_interval`: a selection must hold for at"
            " least one update",
            help=f"write {update} or more",
            related=[("updates are set here", _UPDATE)],
            fix=Fix(f"replace by {update}", (Set(ctx.written_path(_EVERY), update),)),
        )


# Keys of ZenFlow without effect.


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
            fix=removal(ctx.written_path(steps)),
        )
    if ctx.has(rounds) and isinstance(ctx.value(rounds), int) and ctx.value(rounds) < 0:
        yield ctx.at(
            rounds,
            f"`full_warm_up_rounds` is {ctx.value(rounds)}, which is as good as 0",
            help="write the number of first rounds in which every gradient is applied at once, or remove it",
            fix=removal(ctx.written_path(rounds)),
        )
