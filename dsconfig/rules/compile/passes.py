"""Passes of DeepCompile, and what they work on."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._stage import stage, stage_set_here, stage_words
from dsconfig.rules.compile._section import on_here, passes_of, requires_deepcompile

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
_DEEP = "compile.deepcompile"
_TP = "tensor_parallel.autotp_size"
_PASSES = "compile.passes"


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
    requires_deepcompile(ctx)
    passes = passes_of(ctx)
    others = sorted(set(passes) - {"autotp"})
    if "autotp" in passes and others:
        yield ctx.at(
            _PASSES,
            f'`passes` lists `"autotp"` with {one_of(others, "and")}, and `engine.compile()` raises',
            help=f'write `["autotp"]`, or {quoted(others)} without it',
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
    requires_deepcompile(ctx)
    passes = passes_of(ctx)
    size = ctx.value(_TP)
    if "autotp" in passes and ctx.since("0.19.6"):
        if isinstance(size, int) and size <= 1 and passes == ["autotp"]:
            yield _fallback(
                ctx,
                f'the pass `"autotp"` needs an `autotp_size` above 1, and it is {size}',
                _PASSES,
                f"set `{_TP}` to 2 or more",
            )
    elif "autosp" in passes:
        if stage(ctx) > 1:
            yield _fallback(
                ctx,
                f'the pass `"autosp"` needs stage 0 or 1, and {stage_words(ctx)}',
                _PASSES,
                "use stage 0 or 1",
            )
    elif ctx.before("0.17.1") and stage(ctx) not in (1, 3):
        yield ctx.at(
            _DEEP,
            f"`deepcompile` works at stage 1 and 3 only in {ctx.release_name}, and {stage_words(ctx)}",
            help="use stage 1 or 3, or set `deepcompile` to `false`",
            effect="crashes",
            related=stage_set_here(ctx),
        )
    elif stage(ctx) not in (1, 2, 3):
        yield _fallback(
            ctx, f"its passes need ZeRO stage 1, 2 or 3, and {stage_words(ctx)}", _DEEP, "use stage 1, 2 or 3"
        )


@rule(
    "DSC715",
    effect="altered",
    since="0.18.4",
    until="0.18.9",
    source="runtime/engine.py:DeepSpeedEngine.compile",
)
def deepcompile_of_stage_3_on_new_torch(ctx: Context) -> Iterator[Finding]:
    """DeepCompile is on at stage 3, which these releases refuse on PyTorch 2.9 or newer.

    `engine.compile()` raises "DeepCompile with ZeRO stage 3 is not currently supported on PyTorch >= 2.9". A
    warning, because the config does not tell the version of PyTorch.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}, "compile": {"deepcompile": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "compile": {"deepcompile": true}}
    """
    requires_deepcompile(ctx)
    if "autosp" not in passes_of(ctx) and stage(ctx) == 3:
        yield ctx.at(
            _DEEP,
            f"`deepcompile` at stage 3 stops on PyTorch 2.9 or newer in DeepSpeed {ctx.release_name}",
            help="use stage 1 or 2, or use PyTorch 2.8 or older, or upgrade DeepSpeed to 0.19.0 or later",
            related=stage_set_here(ctx),
        )


def _fallback(ctx: Context, why: str, path: str, way: str) -> Finding:
    return ctx.at(
        path,
        f"`deepcompile` falls back to plain torch.compile: {why}",
        help=f"{way}, or set `deepcompile` to `false`",
        related=[on_here(), *stage_set_here(ctx)] if path != _DEEP else stage_set_here(ctx),
    )
