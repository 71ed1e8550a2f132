"""Whether stage 1 hands over to the optimizer made for bf16."""

from __future__ import annotations

from dsconfig.evaluation.context import Context
from dsconfig.rules._offload import OPTIMIZER, device
from dsconfig.rules._stage import stage

_FP32 = ("torch.float32", "fp32", "float32", "float")


def bf16_optimizer(ctx: Context) -> bool:
    """Whether stage 1 hands over to the optimizer made for bf16, which has other demands.

    Source: runtime/engine.py, `DeepSpeedEngine._do_optimizer_sanity_check`.
    """
    return (
        ctx.since("0.7.6")
        and stage(ctx) == 1
        and ctx.value("data_types.grad_accum_dtype") in _FP32
        and (ctx.on("bf16.enabled") or (not ctx.has("bf16") and ctx.on("bfloat16.enabled")))
        and (device(ctx, OPTIMIZER) != "cpu" or ctx.before("0.12.0"))
    )
