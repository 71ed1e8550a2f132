"""Offloading by DeepCompile beside that of ZeRO."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Remove
from dsconfig.core.wording import one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, PARAM
from dsconfig.rules._stage import stage
from dsconfig.rules.compile._section import device_of, on_here, passes_of, requires_deepcompile

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
_OFFLOADS = ("offload_activation", "offload_parameters", "offload_opt_states")


@rule("DSC752", effect="crashes", since="0.19.4", source="compile/init_z3.py:init_z3")
def two_offloads_in_deepcompile(ctx: Context) -> Iterator[Finding]:
    """DeepCompile at stage 3 is to offload two kinds of state, or one that ZeRO offloads already.

    `offload_activation`, `offload_parameters` and `offload_opt_states` exclude each other, and the last one
    also excludes `zero_optimization.offload_optimizer`. Parameters count as offloaded too where ZeRO offloads
    both optimizer and parameters to the CPU.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3},
         "compile": {"deepcompile": true, "offload_opt_states": true, "offload_parameters": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3},
         "compile": {"deepcompile": true, "offload_opt_states": true}}

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
         "compile": {"deepcompile": true, "offload_opt_states": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}},
         "compile": {"deepcompile": true}}
    """
    requires_deepcompile(ctx)
    if stage(ctx) != 3 or "autosp" in passes_of(ctx) or "autotp" in passes_of(ctx):
        return
    on = {key: f"compile.{key}" for key in _OFFLOADS if ctx.on(f"compile.{key}")}
    if "offload_opt_states" in on and device_of(ctx, OPTIMIZER) in ("cpu", "nvme"):
        yield _optimizer_twice(ctx)
        return
    if device_of(ctx, OPTIMIZER) == "cpu" == device_of(ctx, PARAM):
        on.setdefault("offload_parameters", PARAM)
    if ctx.before("0.19.6"):
        on.pop("offload_activation", None)
    if len(on) > 1:
        yield _kinds_of_offload(ctx, on)


def _optimizer_twice(ctx: Context) -> Finding:
    return ctx.at(
        "compile.offload_opt_states",
        "`offload_opt_states` is on, and ZeRO's `offload_optimizer` keeps the same state off the device",
        help="keep one of the two",
        related=[("ZeRO offloads the optimizer here", OPTIMIZER)],
        fix=removal(("compile", "offload_opt_states")),
    )


def _kinds_of_offload(ctx: Context, on: dict[str, str]) -> Finding:
    """More than one kind of offload is on; `on` says where."""
    first, *others = on
    by_zero = on.get("offload_parameters") == PARAM
    return ctx.at(
        on[first],
        f"`{first}` and {one_of([f'`{other}`' for other in others], 'and')} exclude each other"
        + (", and ZeRO offloads the parameters to the CPU" if by_zero else ""),
        help=f"remove it, or remove {one_of((f'`{on[other]}`' for other in others), 'and')}",
        related=[(f"`{other}` is on here", on[other]) for other in others],
    )


@rule("DSC753", effect="crashes", since="0.16.6", source=f"{_ENGINE}.get_deepcompile_backend")
def null_offload_with_deepcompile(ctx: Context) -> Iterator[Finding]:
    """DeepCompile is on, both offload sections are written, and one of them is null.

    Null means "no offload" to ZeRO. But `engine.compile()` asks only whether both keys are there, and then
    for the device of each.

    Bad:

        {"train_batch_size": 8, "compile": {"deepcompile": true},
         "zero_optimization": {"stage": 3, "offload_param": null, "offload_optimizer": null}}

    Good:

        {"train_batch_size": 8, "compile": {"deepcompile": true}, "zero_optimization": {"stage": 3}}

    Fixed:

        {"train_batch_size": 8, "compile": {"deepcompile": true}, "zero_optimization": {"stage": 3}}
    """
    requires_deepcompile(ctx)
    paths = (PARAM, OPTIMIZER)
    nulls = [path for path in paths if ctx.has(path) and ctx.value(path) is None]
    # The device of `offload_optimizer` is asked for only where that of `offload_param` is "cpu".
    if all(ctx.has(path) for path in paths) and stage(ctx) in (1, 2, 3) and _stumbles(ctx, nulls):
        names = one_of([f"`{path.rsplit('.', 1)[-1]}`" for path in nulls], "and")
        yield ctx.at(
            nulls[0],
            f"`engine.compile()` asks for the device of both offload sections, and {names} is `null`",
            help="remove the key: without it nothing is offloaded either",
            related=[on_here()],
            fix=Fix("remove the null sections", tuple(Remove(ctx.place(path)) for path in nulls), safe=True),
        )


def _stumbles(ctx: Context, nulls: list[str]) -> bool:
    return PARAM in nulls or (OPTIMIZER in nulls and device_of(ctx, PARAM) == "cpu")
