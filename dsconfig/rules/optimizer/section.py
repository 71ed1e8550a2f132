"""A section without `type`, or whose `params` are null."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import optimizer, written_type
from dsconfig.rules._missing_type import type_left_out

_ENGINE = "runtime/engine.py:DeepSpeedEngine"


@rule("DSC505", effect="ignored", source="runtime/config.py:get_optimizer_name")
def optimizer_without_type(ctx: Context) -> Iterator[Finding]:
    """The optimizer section has no `type`, and so no effect at all.

    No optimizer is built, whatever `params` say. Unless the script hands one to `deepspeed.initialize`, ZeRO
    stops for want of an optimizer, and without ZeRO nothing can be trained.

    Bad:

        {"train_batch_size": 8, "optimizer": {"name": "AdamW", "params": {"lr": 0.001}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
    """
    yield from type_left_out(
        ctx, "optimizer", names=("name", "optimizer", "optimizer_type", "Type"), example="AdamW"
    )


@rule("DSC506", effect="altered", source=f"{_ENGINE}._configure_basic_optimizer")
def optimizer_params_null(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params` is null, which leaves everything, the learning rate too, to the class.

    Before 0.5.1 the engine looks for keys in it, and stops, also where `params` is absent.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": null}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}}}
    """
    section = ctx.data.get("optimizer")
    if (
        not isinstance(section, dict)
        or section.get("params") is not None
        or written_type(ctx, "optimizer") is None
    ):
        return
    crashes = ctx.before("0.5.1")
    if not crashes and "params" not in section:
        return
    chosen = optimizer(ctx)
    default = chosen.params["lr"].default if chosen and "lr" in chosen.params else None
    yield ctx.at(
        "optimizer.params",
        ("`optimizer.params` is `null`" if "params" in section else "`optimizer.params` is absent")
        + (
            ", and DeepSpeed looks for keys in it"
            if crashes
            else ": the optimizer's own defaults apply"
            + (f", a learning rate of {default:g} among them" if default is not None else "")
        ),
        help="write an object with the learning rate at least",
        effect="crashes" if crashes else "altered",
        fix=Fix("write `{}`", (Set(("optimizer", "params"), {}),), safe=True),
    )
