"""`update_interval`, which takes the place of gradient accumulation, and the format of gradients."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import format_of, format_place, model_format
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, device
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
            fix=removal(ctx.place(path)),
        )
