"""How ZenFlow's intervals fit together, and what they do to gradient accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import ZENFLOW, stage, zenflow
from dsconfig.words import quoted

_SELECT, _EVERY, _UPDATE = (
    f"{ZENFLOW}.select_strategy",
    f"{ZENFLOW}.select_interval",
    f"{ZENFLOW}.update_interval",
)
_CONFIGURE = "runtime/zenflow/engine.py:configure_zenflow"


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
            fix=Fix("count the interval in steps", (Set(ctx.place(_SELECT), "step"),)),
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
            fix=Fix(f"replace by {update}", (Set(ctx.place(_EVERY), update),)),
        )


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
            help="write a number, the same as `gradient_accumulation_steps`",
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
        yield ctx.at(
            path,
            f"`{path}` is {written} and counts as {update}, the `update_interval` of ZenFlow;"
            " `train_batch_size` is not worked out again",
            help=f"write {update} in both places, or {written}",
            related=[("the interval is set here", _UPDATE)],
            fix=Fix(f"replace by {update}", (Set((path,), update),)),
        )
