"""A section without `type` or `params`."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import required, scheduler, written_type
from dsconfig.rules._missing_type import type_left_out

_BUILD = "runtime/engine.py:DeepSpeedEngine._scheduler_from_config"
_PARAMS = "scheduler.params"


@rule("DSC554", effect="crashes", source=_BUILD)
def scheduler_without_params(ctx: Context) -> Iterator[Finding]:
    """The scheduler has a `type` and no `params`, not even empty ones.

    The engine unpacks them into keyword arguments, and what is absent counts as null, which cannot be
    unpacked: a TypeError as it starts. Optimizers do without.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR"}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}
    """
    if not written_type(ctx, "scheduler"):
        return
    found = ctx.data["scheduler"].get("params")
    if isinstance(found, dict):
        return
    chosen = scheduler(ctx)
    needed = required(chosen) if chosen else []
    yield ctx.at(
        _PARAMS,
        (
            f"`scheduler.params` is {quoted(found)}"
            if "params" in ctx.data["scheduler"]
            else "`scheduler.params` is absent"
        )
        + ", and the engine unpacks it into arguments",
        help=f"write an object with {one_of((f'`{key}`' for key in needed), 'and')}"
        if needed
        else "write an object, if only `{}`",
        fix=Fix("write `{}`", (Set(("scheduler", "params"), {}),), safe=found is None)
        if not needed
        else None,
    )


@rule("DSC555", effect="ignored", source="runtime/config.py:get_scheduler_name")
def scheduler_without_type(ctx: Context) -> Iterator[Finding]:
    """The scheduler section has no `type`, and so no effect at all.

    The learning rate stays what the optimizer was given.

    Bad:

        {"train_batch_size": 8, "scheduler": {"name": "WarmupLR", "params": {"warmup_num_steps": 100}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}
    """
    yield from type_left_out(ctx, "scheduler", names=("name", "scheduler", "Type"), example="WarmupLR")
