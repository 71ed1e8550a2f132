"""DeepCompile: configs that `engine.compile()` rejects, or for which it falls back to plain torch.compile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dsconfig.core.diagnostic import Fix, RemoveKey
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.rules._effective_values import OPTIMIZER, PARAM, describe_stage, effective_stage, related_stage
from dsconfig.rules._fixes import remove_key

# The `compile` section.

_DEEP = "compile.deepcompile"
_PASSES = "compile.passes"


def compile_section(ctx: Context) -> JsonObject:
    """Return the `compile` section as written.

    Raises:
        SkipRule: the section is absent, or not an object.
    """
    section = ctx.data.get("compile")
    if not isinstance(section, dict):
        raise SkipRule
    return section


def require_deepcompile(ctx: Context) -> None:
    """Skip the rule unless DeepCompile is enabled.

    Raises:
        SkipRule: DeepCompile is off.
    """
    if not compile_section(ctx).get("deepcompile") or not ctx.is_on(_DEEP):
        raise SkipRule


def related_switch() -> tuple[str, str]:
    """Return the DeepCompile switch as a related location."""
    return "DeepCompile is switched on here", _DEEP


def listed_passes(ctx: Context) -> list[str]:
    """Return the DeepCompile passes listed in the config, or an empty list."""
    passes = ctx.value(_PASSES) if "passes" in compile_section(ctx) else None
    return passes if isinstance(passes, list) else []


def configured_offload_device(ctx: Context, path: str) -> Json:
    """Return the device of a ZeRO offload section, or "none" if it is not an object."""
    return ctx.value(f"{path}.device") if isinstance(ctx.raw(path), dict) else "none"


# Passes of DeepCompile and their requirements.

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
_TP = "tensor_parallel.autotp_size"


@rule("DSC750", effect="crashes", since="0.19.6", source=f"{_ENGINE}.get_deepspeed_compile_backend")
def autotp_pass_with_others(ctx: Context) -> Iterator[Finding]:
    """`compile.passes` combines "autotp" with another pass.

    The tensor-parallel pass cannot be combined with others yet: `engine.compile()` raises.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1},
         "compile": {"deepcompile": true, "passes": ["autotp", "z1"]}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2},
         "compile": {"deepcompile": true, "passes": ["autotp"]}}
    """
    require_deepcompile(ctx)
    passes = listed_passes(ctx)
    others = sorted(set(passes) - {"autotp"})
    if "autotp" in passes and others:
        yield ctx.at(
            _PASSES,
            f'`passes` combines `"autotp"` with {join_alternatives(others, "and")}, but '
            "`engine.compile()` rejects that",
            help=f'write `["autotp"]`, or {quote_value(others)} without it',
        )


@rule("DSC751", effect="altered", since="0.16.6", source=f"{_ENGINE}.get_deepcompile_backend")
def deepcompile_falls_back(ctx: Context) -> Iterator[Finding]:
    """DeepCompile is on, but its passes do not apply to this config.

    The ZeRO passes need stage 1, 2 or 3, the pass "autosp" needs stage 0 or 1, and "autotp" needs an
    `autotp_size` above 1. Otherwise `engine.compile()` logs a message and falls back to plain torch.compile.
    Up to 0.17.0 it raises at every stage except 1 and 3.

    Bad:

        {"train_batch_size": 8, "compile": {"deepcompile": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "compile": {"deepcompile": true}}
    """
    require_deepcompile(ctx)
    passes = listed_passes(ctx)
    size = ctx.value(_TP)
    if "autotp" in passes and ctx.since("0.19.6"):
        if isinstance(size, int) and size <= 1 and passes == ["autotp"]:
            yield _report_fallback(
                ctx,
                f'the pass `"autotp"` needs an `autotp_size` above 1, but it is {size}',
                _PASSES,
                f"set `{_TP}` to 2 or more",
            )
    elif "autosp" in passes:
        if effective_stage(ctx) > 1:
            yield _report_fallback(
                ctx,
                f'the pass `"autosp"` needs stage 0 or 1, but {describe_stage(ctx)}',
                _PASSES,
                "use stage 0 or 1",
            )
    elif ctx.before("0.17.1") and effective_stage(ctx) not in (1, 3):
        yield ctx.at(
            _DEEP,
            f"`deepcompile` needs stage 1 or 3 in DeepSpeed {ctx.release_name}, but {describe_stage(ctx)}",
            help="use stage 1 or 3, or set `deepcompile` to `false`",
            effect="crashes",
            related=related_stage(ctx),
        )
    elif effective_stage(ctx) not in (1, 2, 3):
        yield _report_fallback(
            ctx,
            f"its passes need ZeRO stage 1, 2 or 3, but {describe_stage(ctx)}",
            _DEEP,
            "use stage 1, 2 or 3",
        )


@rule(
    "DSC715",
    effect="altered",
    since="0.18.4",
    until="0.18.9",
    source="runtime/engine.py:DeepSpeedEngine.compile",
)
def deepcompile_of_stage_3_on_new_torch(ctx: Context) -> Iterator[Finding]:
    """DeepCompile at stage 3 does not support PyTorch 2.9 or later in these releases.

    `engine.compile()` raises "DeepCompile with ZeRO stage 3 is not currently supported on PyTorch >= 2.9". This is a
    warning, because the config does not say which version of PyTorch is installed.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "compile": {"deepcompile": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "compile": {"deepcompile": true}}
    """
    require_deepcompile(ctx)
    if "autosp" not in listed_passes(ctx) and effective_stage(ctx) == 3:
        yield ctx.at(
            _DEEP,
            f"`deepcompile` at stage 3 raises on PyTorch 2.9 or later in DeepSpeed {ctx.release_name}",
            help="use stage 1 or 2, use PyTorch 2.8 or older, or upgrade DeepSpeed to 0.19.0 or later",
            related=related_stage(ctx),
        )


def _report_fallback(ctx: Context, why: str, path: str, remedy: str) -> Finding:
    return ctx.at(
        path,
        f"`deepcompile` falls back to plain torch.compile: {why}",
        help=f"{remedy}, or set `deepcompile` to `false`",
        related=[related_switch(), *related_stage(ctx)] if path != _DEEP else related_stage(ctx),
    )


# Offload by DeepCompile combined with offload by ZeRO.

_OFFLOADS = ("offload_activation", "offload_parameters", "offload_opt_states")


@rule("DSC752", effect="crashes", since="0.19.4", source="compile/init_z3.py:init_z3")
def two_offloads_in_deepcompile(ctx: Context) -> Iterator[Finding]:
    """DeepCompile at stage 3 offloads two kinds of state, or one that ZeRO already offloads.

    `offload_activation`, `offload_parameters` and `offload_opt_states` are mutually exclusive, and the last one
    also conflicts with `zero_optimization.offload_optimizer`. Parameters also count as offloaded if ZeRO
    offloads both the optimizer and the parameters to the CPU.

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
    require_deepcompile(ctx)
    if effective_stage(ctx) != 3 or "autosp" in listed_passes(ctx) or "autotp" in listed_passes(ctx):
        return
    on = {key: f"compile.{key}" for key in _OFFLOADS if ctx.is_on(f"compile.{key}")}
    if "offload_opt_states" in on and configured_offload_device(ctx, OPTIMIZER) in ("cpu", "nvme"):
        yield _report_optimizer_offloaded_twice(ctx)
        return
    if configured_offload_device(ctx, OPTIMIZER) == "cpu" == configured_offload_device(ctx, PARAM):
        on.setdefault("offload_parameters", PARAM)
    if ctx.before("0.19.6"):
        on.pop("offload_activation", None)
    if len(on) > 1:
        yield _report_several_offloads(ctx, on)


def _report_optimizer_offloaded_twice(ctx: Context) -> Finding:
    return ctx.at(
        "compile.offload_opt_states",
        "`offload_opt_states` is on, but ZeRO's `offload_optimizer` already offloads the same state",
        help="keep one of the two",
        related=[("ZeRO offloads the optimizer here", OPTIMIZER)],
        fix=remove_key(("compile", "offload_opt_states")),
    )


def _report_several_offloads(ctx: Context, on: dict[str, str]) -> Finding:
    """Report that several kinds of offload are on; `on` maps each kind to the path of its key."""
    first, *others = on
    by_zero = on.get("offload_parameters") == PARAM
    return ctx.at(
        on[first],
        f"`{first}` and {join_alternatives([f'`{other}`' for other in others], 'and')} are mutually exclusive"
        + (", and `offload_param` already offloads the parameters" if by_zero else ""),
        help=f"remove it, or remove {join_alternatives((f'`{on[other]}`' for other in others), 'and')}",
        related=[(f"`{other}` is on here", on[other]) for other in others],
    )


@rule("DSC753", effect="crashes", since="0.16.6", source=f"{_ENGINE}.get_deepcompile_backend")
def null_offload_with_deepcompile(ctx: Context) -> Iterator[Finding]:
    """DeepCompile is on, both offload sections are set, and one of them is null.

    For ZeRO, null means no offload. But `engine.compile()` only checks that both keys exist, and then reads the device
    of each section, which raises for null.

    Bad:

        {"train_batch_size": 8, "compile": {"deepcompile": true},
         "zero_optimization": {"stage": 3, "offload_param": null, "offload_optimizer": null}}

    Good:

        {"train_batch_size": 8, "compile": {"deepcompile": true}, "zero_optimization": {"stage": 3}}

    Fixed:

        {"train_batch_size": 8, "compile": {"deepcompile": true}, "zero_optimization": {"stage": 3}}
    """
    require_deepcompile(ctx)
    paths = (PARAM, OPTIMIZER)
    nulls = [path for path in paths if ctx.has(path) and ctx.value(path) is None]
    # The engine reads the device of `offload_optimizer` only if that of `offload_param` is "cpu".
    if (
        all(ctx.has(path) for path in paths)
        and effective_stage(ctx) in (1, 2, 3)
        and _accepts_null(ctx, nulls)
    ):
        names = join_alternatives([f"`{path.rsplit('.', 1)[-1]}`" for path in nulls], "and")
        verb = "is" if len(nulls) == 1 else "are"
        yield ctx.at(
            nulls[0],
            f"`engine.compile()` reads the device of both offload sections, but {names} {verb} `null`",
            help=f"remove {join_alternatives([f'`{path}`' for path in nulls], 'and')}: `null` means no offload, as does"
            " an absent section",
            related=[related_switch()],
            fix=Fix(
                "remove the null sections",
                tuple(RemoveKey(ctx.written_path(path)) for path in nulls),
                safe=True,
            ),
        )


def _accepts_null(ctx: Context, nulls: list[str]) -> bool:
    return PARAM in nulls or (OPTIMIZER in nulls and configured_offload_device(ctx, PARAM) == "cpu")


# `compile.autoep_non_moe` and its conflicts.


@rule("DSC754", effect="crashes", since="0.19.8", source=f"{_ENGINE}.compile")
def autoep_compile_conflict(ctx: Context) -> Iterator[Finding]:
    """`compile.autoep_non_moe` is on together with a feature that `engine.compile()` does not support with it.

    The option compiles the layers around AutoEP layers with plain torch.compile. It needs `expert_parallel`,
    and does not support DeepCompile, ZeRO stage 3, offload, tensor or sequence parallelism, or DeepEP.

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
    if "autoep_non_moe" not in compile_section(ctx) or not ctx.is_on(path):
        return
    conflicts = list(_conflicts_with_autoep(ctx))
    if conflicts:
        reasons = _join_phrases([each.phrase for each in conflicts])
        yield ctx.at(
            path,
            f"`autoep_non_moe` is on, but `engine.compile()` rejects it {reasons}",
            help=f"set `autoep_non_moe` to `false`, or {_join_phrases([each.remedy for each in conflicts])}",
            related=[(f"{each.phrase} here", each.path) for each in conflicts if ctx.has(each.path)],
        )


class _ConflictWithAutoEp(NamedTuple):
    """A setting that `autoep_non_moe` does not work with, or that it needs."""

    phrase: str
    """The setting as the end of a sentence, such as `at ZeRO stage 3`."""
    path: str
    remedy: str


def _join_phrases(phrases: Sequence[str]) -> str:
    *others, last = phrases
    return f"{', '.join(others)} and {last}" if others else last


def _conflicts_with_autoep(ctx: Context) -> Iterator[_ConflictWithAutoEp]:
    """Yield the settings that conflict with `autoep_non_moe`, and a missing `expert_parallel`."""
    if not ctx.is_on("expert_parallel.enabled"):
        yield _ConflictWithAutoEp(
            "without `expert_parallel`", "expert_parallel", "set `expert_parallel.enabled` to `true`"
        )
    if ctx.is_on(_DEEP):
        yield _ConflictWithAutoEp("with `deepcompile`", _DEEP, f"set `{_DEEP}` to `false`")
    if effective_stage(ctx) == 3:
        yield _ConflictWithAutoEp("at ZeRO stage 3", "zero_optimization.stage", "use stage 1 or 2")
    for size, name in ((_TP, "tensor parallelism"), ("sequence_parallel_size", "sequence parallelism")):
        value = ctx.value(size) if ctx.has(size) else 1
        if isinstance(value, int) and value > 1:
            yield _ConflictWithAutoEp(f"with {name} of size {value}", size, f"set `{size}` to 1")
    for offload in (OPTIMIZER, PARAM):
        if configured_offload_device(ctx, offload) != "none":
            device = configured_offload_device(ctx, offload)
            yield _ConflictWithAutoEp(
                f"with offload to {quote_value(device)}", offload, f"remove `{offload}`"
            )
    backend = ctx.value("expert_parallel.comm_backend")
    if backend != "comm":
        path = "expert_parallel.comm_backend"
        yield _ConflictWithAutoEp(
            f"with `comm_backend` {quote_value(backend)}", path, f'set `{path}` to `"comm"`'
        )


# Options without effect.


@rule("DSC755", effect="ignored", since="0.16.6", source=f"{_ENGINE}.compile")
def compile_option_without_deepcompile(ctx: Context) -> Iterator[Finding]:
    """An option of `compile` has no effect, because `deepcompile` is off.

    Every key of the section except `autoep_non_moe` configures DeepCompile's passes. Without them
    `engine.compile()` calls plain torch.compile.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "compile": {"offload_parameters": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3},
         "compile": {"deepcompile": true, "offload_parameters": true}}
    """
    section = compile_section(ctx)
    if ctx.is_on(_DEEP):
        return
    for key in section:
        path = f"compile.{key}"
        key_info = ctx.key(path)
        if (
            key_info is None
            or key in ("deepcompile", "autoep_non_moe")
            or ctx.value(path) == key_info.default
        ):
            continue
        yield ctx.at(
            path,
            f"`{key}` is {quote_value(section[key])}, but has no effect while `deepcompile` is off",
            help="set `deepcompile` to `true`, or remove it",
            part="key",
        )
