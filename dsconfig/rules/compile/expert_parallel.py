"""`compile.autoep_non_moe`, and what it does not go with."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._offload import OPTIMIZER, PARAM
from dsconfig.rules._stage import stage
from dsconfig.rules.compile._section import device_of, section_of

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
_DEEP = "compile.deepcompile"
_TP = "tensor_parallel.autotp_size"


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
    if "autoep_non_moe" not in section_of(ctx) or not ctx.on(path):
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
        if device_of(ctx, offload) != "none":
            yield f"with offload to {quoted(device_of(ctx, offload))}", offload
    backend = ctx.value("expert_parallel.comm_backend")
    if backend != "comm":
        yield f"with `comm_backend` {quoted(backend)}", "expert_parallel.comm_backend"
