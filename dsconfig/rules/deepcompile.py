"""DeepCompile: what `engine.compile()` refuses, and where it falls back to plain torch.compile.

Nothing of the section is looked at before that call, and without it the section has no effect.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.diagnostic import Fix, Remove
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import OPTIMIZER, PARAM, said_here, stage, stage_words
from dsconfig.words import one_of, quoted

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
_DEEP = "compile.deepcompile"
_TP = "tensor_parallel.autotp_size"
_PASSES = "compile.passes"


def _section(ctx: Context) -> dict[str, Any]:
    """The section as written.

    Raises:
        SkipRule: it is not there, or no object.
    """
    section = ctx.data.get("compile")
    if not isinstance(section, dict):
        raise SkipRule
    return section


def _deep(ctx: Context) -> None:
    """Go on only where DeepCompile is on.

    Raises:
        SkipRule: it is not.
    """
    if not _section(ctx).get("deepcompile") or not ctx.on(_DEEP):
        raise SkipRule


def _on_here() -> tuple[str, str]:
    return "DeepCompile is switched on here", _DEEP


def _passes(ctx: Context) -> list[str]:
    passes = ctx.value(_PASSES) if "passes" in _section(ctx) else None
    return passes if isinstance(passes, list) else []


@rule("DSC750", effect="crashes", since="0.19.6", source=f"{_ENGINE}.get_deepspeed_compile_backend")
def autotp_pass_with_others(ctx: Context) -> Iterator[Finding]:
    """`compile.passes` lists "autotp" together with another pass.

    The pass for tensor parallelism cannot be combined with the others yet: `engine.compile()` raises.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1},
         "compile": {"deepcompile": true, "passes": ["autotp", "z1"]}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2},
         "compile": {"deepcompile": true, "passes": ["autotp"]}}
    """
    _deep(ctx)
    passes = _passes(ctx)
    others = sorted(set(passes) - {"autotp"})
    if "autotp" in passes and others:
        yield ctx.at(
            _PASSES,
            f'`passes` lists `"autotp"` with {one_of(others, "and")}, and `engine.compile()` raises',
            help='list `"autotp"` alone, or leave it out',
        )


@rule("DSC751", effect="altered", since="0.16.6", source=f"{_ENGINE}.get_deepcompile_backend")
def deepcompile_falls_back(ctx: Context) -> Iterator[Finding]:
    """DeepCompile is on, and what it works on is not there.

    Its passes for ZeRO need stage 1, 2 or 3, the pass "autosp" needs stage 0 or 1, and "autotp" an
    `autotp_size` above 1. Otherwise `engine.compile()` says a word in the log and calls plain torch.compile.
    Up to 0.17.0 it raises at every stage but 1 and 3.

    Bad:

        {"train_batch_size": 8, "compile": {"deepcompile": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "compile": {"deepcompile": true}}
    """
    _deep(ctx)
    passes = _passes(ctx)
    size = ctx.value(_TP)
    if "autotp" in passes and ctx.since("0.19.6"):
        if isinstance(size, int) and size <= 1 and passes == ["autotp"]:
            yield _fallback(
                ctx, f'the pass `"autotp"` needs an `autotp_size` above 1, and it is {size}', _PASSES
            )
    elif "autosp" in passes:
        if stage(ctx) > 1:
            yield _fallback(ctx, f'the pass `"autosp"` needs stage 0 or 1, and {stage_words(ctx)}', _PASSES)
    elif ctx.before("0.17.1") and stage(ctx) not in (1, 3):
        yield ctx.at(
            _DEEP,
            f"`deepcompile` works at stage 1 and 3 only in {ctx.release_name}, and {stage_words(ctx)}",
            help="use stage 1 or 3, or set `deepcompile` to `false`",
            effect="crashes",
            related=said_here(ctx),
        )
    elif stage(ctx) not in (1, 2, 3):
        yield _fallback(ctx, f"its passes need ZeRO stage 1, 2 or 3, and {stage_words(ctx)}", _DEEP)


def _fallback(ctx: Context, why: str, path: str) -> Finding:
    return ctx.at(
        path,
        f"`deepcompile` falls back to plain torch.compile: {why}",
        help="give it what it needs, or set `deepcompile` to `false`",
        related=[_on_here(), *said_here(ctx)] if path != _DEEP else said_here(ctx),
    )


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
    _deep(ctx)
    if stage(ctx) != 3 or "autosp" in _passes(ctx) or "autotp" in _passes(ctx):
        return
    on = {key: f"compile.{key}" for key in _OFFLOADS if ctx.on(f"compile.{key}")}
    if "offload_opt_states" in on and _device(ctx, OPTIMIZER) in ("cpu", "nvme"):
        yield ctx.at(
            on["offload_opt_states"],
            "`offload_opt_states` is on, and ZeRO's `offload_optimizer` keeps the same state off the device",
            help="keep one of the two",
            related=[("ZeRO offloads the optimizer here", OPTIMIZER)],
            fix=Fix("remove `offload_opt_states`", (Remove(("compile", "offload_opt_states")),)),
        )
        return
    if _device(ctx, OPTIMIZER) == "cpu" == _device(ctx, PARAM):
        on.setdefault("offload_parameters", PARAM)
    if ctx.before("0.19.6"):
        on.pop("offload_activation", None)
    if len(on) > 1:
        first, *others = on
        yield ctx.at(
            on[first],
            f"`{first}` and {one_of([f'`{other}`' for other in others], 'and')} exclude each other"
            + (
                ", and ZeRO offloads the parameters to the CPU"
                if on.get("offload_parameters") == PARAM
                else ""
            ),
            help="keep one kind of offload",
            related=[(f"`{other}` is on here", on[other]) for other in others],
        )


def _device(ctx: Context, path: str) -> Any:
    return ctx.value(f"{path}.device") if isinstance(ctx.written(path), dict) else "none"


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
    _deep(ctx)
    paths = (PARAM, OPTIMIZER)
    nulls = [path for path in paths if ctx.has(path) and ctx.value(path) is None]
    # The device of `offload_optimizer` is asked for only where that of `offload_param` is "cpu".
    if all(ctx.has(path) for path in paths) and stage(ctx) in (1, 2, 3) and _stumbles(ctx, nulls):
        names = one_of([f"`{path.rsplit('.', 1)[-1]}`" for path in nulls], "and")
        yield ctx.at(
            nulls[0],
            f"`engine.compile()` asks for the device of both offload sections, and {names} is `null`",
            help="remove the key: without it nothing is offloaded either",
            related=[_on_here()],
            fix=Fix("remove the null sections", tuple(Remove(ctx.place(path)) for path in nulls), safe=True),
        )


def _stumbles(ctx: Context, nulls: list[str]) -> bool:
    return PARAM in nulls or (OPTIMIZER in nulls and _device(ctx, PARAM) == "cpu")


@rule("DSC754", effect="crashes", since="0.19.8", source=f"{_ENGINE}.compile")
def autoep_compile_conflict(ctx: Context) -> Iterator[Finding]:
    """`compile.autoep_non_moe` is on, with something that `engine.compile()` refuses beside it.

    It compiles what surrounds AutoEP layers with plain torch.compile. That needs `expert_parallel`, and works
    neither with DeepCompile, ZeRO stage 3, offload, tensor or sequence parallelism, nor with DeepEP.

    Bad:

        {"train_batch_size": 8, "compile": {"autoep_non_moe": true}}

    Good:

        {"train_batch_size": 8, "compile": {"autoep_non_moe": true},
         "expert_parallel": {"enabled": true, "autoep_size": 2}}

    Bad:

        {"train_batch_size": 8, "compile": {"autoep_non_moe": true, "deepcompile": true},
         "expert_parallel": {"enabled": true, "autoep_size": 2}}

    Good:

        {"train_batch_size": 8, "compile": {"autoep_non_moe": true},
         "expert_parallel": {"enabled": true, "autoep_size": 2}}
    """
    path = "compile.autoep_non_moe"
    if "autoep_non_moe" not in _section(ctx) or not ctx.on(path):
        return
    against = dict(_against_autoep(ctx))
    if against:
        yield ctx.at(
            path,
            f"`autoep_non_moe` is on, and `engine.compile()` refuses it {', '.join(against)}",
            help="set `autoep_non_moe` to `false`, or change the rest",
            related=[(f"{what} here", where) for what, where in against.items() if ctx.has(where)],
        )


def _against_autoep(ctx: Context) -> Iterator[tuple[str, str]]:
    """What `autoep_non_moe` does not go with, and where it stands."""
    if not ctx.on("expert_parallel.enabled"):
        yield "without `expert_parallel`", "expert_parallel"
    if ctx.on(_DEEP):
        yield "with `deepcompile`", _DEEP
    if stage(ctx) == 3:
        yield "at ZeRO stage 3", "zero_optimization.stage"
    for size, name in ((_TP, "tensor parallelism"), ("sequence_parallel_size", "sequence parallelism")):
        value = ctx.value(size) if ctx.has(size) else 1
        if isinstance(value, int) and value > 1:
            yield f"with {name} of size {value}", size
    for offload in (OPTIMIZER, PARAM):
        if _device(ctx, offload) != "none":
            yield f"with offload to {quoted(_device(ctx, offload))}", offload
    backend = ctx.value("expert_parallel.comm_backend")
    if backend != "comm":
        yield f"with `comm_backend` {quoted(backend)}", "expert_parallel.comm_backend"


@rule("DSC755", effect="ignored", since="0.16.6", source=f"{_ENGINE}.compile")
def compile_option_without_deepcompile(ctx: Context) -> Iterator[Finding]:
    """An option of `compile` is set, and `deepcompile` is off.

    Every key of the section but `autoep_non_moe` is for DeepCompile's passes; without them `engine.compile()`
    is plain torch.compile.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "compile": {"offload_parameters": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3},
         "compile": {"deepcompile": true, "offload_parameters": true}}
    """
    section = _section(ctx)
    if ctx.on(_DEEP):
        return
    for key in section:
        path = f"compile.{key}"
        known = ctx.key(path)
        if known is None or key in ("deepcompile", "autoep_non_moe") or ctx.value(path) == known.default:
            continue
        yield ctx.at(
            path,
            f"`{key}` is {quoted(section[key])}, and has no effect while `deepcompile` is off",
            help="set `deepcompile` to `true`, or remove it",
            part="key",
        )
