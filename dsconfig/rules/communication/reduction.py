"""`gradient_allreduce_op`: what can only average."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._stage import stage, stage_place

_OP = "gradient_allreduce_op"
_ZENFLOW = "zero_optimization.zenflow"
_DEEPCOMPILE = "compile.deepcompile"


@rule("DSC901", effect="rejected", since="0.19.6", source="runtime/config.py:DeepSpeedConfig._do_error_check")
def summed_gradients_with_partner(ctx: Context) -> Iterator[Finding]:
    """`gradient_allreduce_op` is "sum" together with something that can only average.

    ZeRO stage 3, ZenFlow and DeepCompile reduce gradients themselves and always divide.

    Bad:

        {"train_batch_size": 8, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "gradient_allreduce_op": "sum", "zero_optimization": {"stage": 2}}
    """
    op = ctx.value(_OP)
    if not isinstance(op, str) or op.lower() != "sum":
        return
    partners = {
        "ZeRO stage 3": stage_place(ctx) if stage(ctx) == 3 else None,
        "ZenFlow": _ZENFLOW if ctx.value(_ZENFLOW) is not None else None,
        "DeepCompile": _DEEPCOMPILE if ctx.on(_DEEPCOMPILE) else None,
    }
    there = {name: path for name, path in partners.items() if path}
    if there:
        names = " and ".join(there)
        yield ctx.at(
            _OP,
            f"`{_OP}` is {quoted(op)}, which does not work with {names}",
            help=f'use "mean", or do without {names}',
            related=[(f"{name} is switched on here", path) for name, path in there.items()],
        )
