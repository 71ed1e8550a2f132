"""Offload sections that do not say `device`."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.schema_condition import Condition, Needed
from dsconfig.rules._offload import OPTIMIZER, PARAM

_CONFIG = "runtime/zero/offload_config.py"


@rule(
    "DSC421",
    effect="rejected",
    since="0.5.7",
    until="0.6.7",
    source=f"{_CONFIG}:get_offload_param_config",
)
def offload_without_device(ctx: Context) -> Iterator[Finding]:
    """An offload section does not say `device`.

    Earlier releases took "cpu" then, later ones take "none"; these refuse the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"pin_memory": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu",
        "pin_memory": true}}}
    """
    for path in (PARAM, OPTIMIZER):
        section = ctx.value(path)
        if isinstance(section, dict) and "device" not in section:
            yield _without_device(ctx, path, f"which DeepSpeed {ctx.release_name} demands")


def _without_device(ctx: Context, section: str, so: str) -> Finding:
    return ctx.at(
        section,
        f"`{section.rpartition('.')[2]}` has no `device`, {so}",
        help='add `"device": "cpu"`, add `"device": "nvme"` and `nvme_path`, or remove the section',
        part="key",
        fix=Fix('add `"device": "cpu"`', (Set((*ctx.place(section), "device"), "cpu"),)),
    ).lacking(ctx.place(f"{section}.device"))


@rule(
    "DSC463",
    effect="ignored",
    since="0.7.0",
    source=_CONFIG,
    conditions=tuple(
        Condition(section, (), Needed("device")) for section in ("OffloadParam", "OffloadOptimizer")
    ),
)
def device_left_out(ctx: Context) -> Iterator[Finding]:
    """An offload section has no `device`, and the default is "none".

    Nothing is offloaded, whatever else the section says. The first releases took "cpu" instead.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"pin_memory": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu",
        "pin_memory": true}}}
    """
    for section in (PARAM, OPTIMIZER):
        if isinstance(ctx.value(section), dict) and not ctx.has(f"{section}.device"):
            yield _without_device(ctx, section, 'and the default is `"none"`: nothing is offloaded')
