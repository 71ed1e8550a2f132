"""A section without `type`, or whose `params` are null."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Rename, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model import torch_classes
from dsconfig.model.keyinfo import type_named
from dsconfig.rules._built_class import optimizer, written_type

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
_TYPE = "optimizer.type"


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
    section = ctx.data.get("optimizer")
    if not isinstance(section, dict) or not section or section.get("type") is not None:
        return
    other = next(
        (key for key in ("name", "optimizer", "optimizer_type", "Type") if _is_type(section.get(key))), None
    )
    fix = None
    if other and "type" not in section:
        fix = Fix(f"rename `{other}` to `type`", (Rename(("optimizer", other), "type"),))
    yield ctx.at(
        _TYPE if "type" in section else "optimizer",
        "the section has no effect: "
        + ("`type` is `null`" if "type" in section else "it has no `type`")
        + ", so DeepSpeed builds no optimizer",
        help=f"rename `{other}` to `type`" if fix else 'add `"type": "AdamW"`, or remove the section',
        part="value" if "type" in section else "key",
        fix=fix,
    )


def _is_type(word: object) -> bool:
    if not isinstance(word, str):
        return False
    return type_named("Optimizer", word) is not None or word in torch_classes.OPTIMIZERS


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
        ("`params` is `null`" if "params" in section else "`params` is absent")
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
