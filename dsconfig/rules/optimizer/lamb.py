"""What Lamb asks for."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import bf16_place
from dsconfig.rules._offload import OPTIMIZER, asked_for, offload_place, offloaded
from dsconfig.rules._stage import zero_stage
from dsconfig.rules.optimizer._own_type import own_type

_TYPE = "optimizer.type"
_SCALE = "fp16.loss_scale"


@rule("DSC523", effect="crashes", source="runtime/engine.py:DeepSpeedEngine._do_sanity_check")
def lamb_with_fixed_loss_scale(ctx: Context) -> Iterator[Finding]:
    """Lamb needs dynamic loss scaling, that is a `loss_scale` of 0.

    From 0.17.1 on, the engine looks at `fp16.loss_scale` even where fp16 is off. From 0.5.5 to 0.17.0 it
    counts bf16 as a fixed scale of 1, so that Lamb and bf16 exclude one another.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Lamb"}, "fp16": {"enabled": true, "loss_scale": 128}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Lamb"}, "fp16": {"enabled": true, "loss_scale": 0}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "Lamb"}, "fp16": {"enabled": true, "loss_scale": 0}}
    """
    of_lamb = own_type(ctx) in ("Lamb", "OneBitLamb")
    if not of_lamb or not any(word in ctx.data for word in ("fp16", "bf16", "bfloat16")):
        return
    word = ctx.written(_TYPE)
    chosen = [("the optimizer is chosen here", _TYPE)]
    if ctx.since("0.17.1") or ctx.on("fp16.enabled"):
        if ctx.has(_SCALE) and ctx.value(_SCALE) != 0:
            yield ctx.at(
                _SCALE,
                f"`loss_scale` is {quoted(ctx.written(_SCALE))}, and {quoted(word)} needs dynamic loss"
                " scaling",
                help="write 0",
                related=chosen,
                fix=Fix("write 0", (Set(("fp16", "loss_scale"), 0),)),
            )
    elif (place := bf16_place(ctx)) and ctx.since("0.5.5"):
        yield ctx.at(
            place,
            f"bf16 is on, which counts as a fixed loss scale of 1, and {quoted(word)} needs dynamic loss"
            " scaling",
            help='set `optimizer.type` to `"AdamW"`, or upgrade DeepSpeed to 0.17.1 or later',
            related=chosen,
        )


@rule("DSC524", effect="crashes", source="ops/lamb/fused_lamb.py:FusedLamb.step")
def lamb_offloaded(ctx: Context) -> Iterator[Finding]:
    """Lamb is offloaded, and has a kernel for the GPU alone.

    There is no Lamb for the CPU: the kernel insists on CUDA tensors (csrc/lamb/fused_lamb_cuda.cpp), and
    offloading keeps what it has to update in the memory of the host.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Lamb"}, "zero_allow_untested_optimizer": true,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Lamb"}, "zero_allow_untested_optimizer": true,
        "zero_optimization": {"stage": 2}}
    """
    if "zero_optimization" in ctx.data and own_type(ctx) == "Lamb" and offloaded(ctx) and zero_stage(ctx) > 0:
        asked = one_of((f"`{path}`" for path in asked_for(ctx, OPTIMIZER)), "and")
        yield ctx.at(
            _TYPE,
            f"`optimizer.type` is {quoted(ctx.written(_TYPE))}, which works on the GPU alone, and the"
            " optimizer is offloaded",
            help=f'use `"AdamW"`, or remove {asked}',
            related=offload_place(ctx),
        )
