"""`update_interval`, which takes the place of gradient accumulation."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._stage import stage
from dsconfig.rules.zenflow._section import ZENFLOW, zenflow

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
