"""Options of DeepCompile while it is off."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.compile._section import section_of

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
_DEEP = "compile.deepcompile"


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
    section = section_of(ctx)
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
