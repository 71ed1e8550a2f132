"""When ZenFlow selects columns: intervals that contradict each other."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.zenflow._section import ZENFLOW, zenflow

_SELECT = f"{ZENFLOW}.select_strategy"
_EVERY = f"{ZENFLOW}.select_interval"
_UPDATE = f"{ZENFLOW}.update_interval"
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
