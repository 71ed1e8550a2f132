"""Adam and its kin: which kind of weight decay, whose defaults, and what Lamb and Lion ask for."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._precision import bf16_place
from dsconfig.rules._types import (
    ADAM,
    decoupled,
    known_type,
    offload_place,
    offloaded,
    params,
    written_type,
    zero_stage,
)
from dsconfig.words import quoted

_BUILD = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_TYPE = "optimizer.type"
_SCALE = "fp16.loss_scale"
_NOTABLE = 1e-5
"""A smaller weight decay (DeepSpeed's own examples have 3e-7) does next to nothing in either form."""


def _own(ctx: Context) -> str | None:
    """The name of the type, as DeepSpeed spells it, where the release knows it."""
    word = written_type(ctx, "optimizer")
    kind = known_type(ctx, "Optimizer", word) if word is not None else None
    return kind.name if kind else None


@rule("DSC520", effect="altered", since="0.3.11", source=_BUILD)
def adam_that_is_adamw(ctx: Context) -> Iterator[Finding]:
    """Type `Adam` with weight decay is AdamW, unless `adam_w_mode` is false.

    The decay is taken from the weights themselves, not added to the gradient as Adam's is, which is another
    algorithm as soon as `weight_decay` is more than next to nothing. The fix changes the name alone.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.001, "weight_decay": 0.1}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.001, "weight_decay": 0.1,
        "adam_w_mode": false}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "weight_decay": 0.1}}}
    """
    written = params(ctx, "optimizer")
    decay = written.get("weight_decay")
    if not isinstance(decay, int | float) or decay < _NOTABLE or "adam_w_mode" in written:
        return
    if _own(ctx) != "Adam":
        return
    yield ctx.at(
        _TYPE,
        f"`type` is {quoted(ctx.written(_TYPE))}, and DeepSpeed runs AdamW: it takes the weight decay of"
        f" {quoted(decay)} from the weights, not through the gradient",
        help='write `"AdamW"` if that is meant, else add `"adam_w_mode": false`',
        related=[("the weight decay is set here", "optimizer.params.weight_decay")],
        fix=Fix('write `"AdamW"`', (Set(("optimizer", "type"), "AdamW"),), safe=True),
    )


@rule("DSC521", effect="ignored", since="0.3.11", source=_BUILD)
def adam_w_mode_of_adamw(ctx: Context) -> Iterator[Finding]:
    """`adam_w_mode` is false beside type `AdamW`, which has no other mode.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"adam_w_mode": false}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}}}
    """
    written = params(ctx, "optimizer")
    if "adam_w_mode" in written and not written["adam_w_mode"] and _own(ctx) == "AdamW":
        yield ctx.at(
            "optimizer.params.adam_w_mode",
            f"`adam_w_mode` is {quoted(written['adam_w_mode'])} without effect: type `AdamW` decides",
            help='remove it, or write `"type": "Adam"`',
            fix=Fix("remove `adam_w_mode`", (Remove(("optimizer", "params", "adam_w_mode")),), safe=True),
        )


@rule("DSC522", effect="wasteful", since="0.3.11", source="torch.optim:AdamW")
def weight_decay_of_torch(ctx: Context) -> Iterator[Finding]:
    """`torch_adam` brings a weight decay of 0.01 that nobody wrote.

    DeepSpeed's own Adam has no weight decay unless it is written, `torch.optim.AdamW` has 0.01. It is what
    runs with `torch_adam`, also behind type `Adam` unless `adam_w_mode` is false.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": true}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": true,
        "weight_decay": 0.01}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": true,
        "weight_decay": 0.01}}}
    """
    written = params(ctx, "optimizer")
    if not written.get("torch_adam") or "weight_decay" in written or _own(ctx) not in ADAM:
        return
    kind = known_type(ctx, "Optimizer", written_type(ctx, "optimizer"))
    if kind is not None and decoupled(ctx, kind):
        yield ctx.at(
            "optimizer.params.torch_adam",
            "`weight_decay` is not written: with `torch_adam` it is 0.01, `torch.optim.AdamW`'s default,"
            " instead of 0",
            help="write the weight decay that you mean",
            fix=Fix(
                "write the 0.01 that applies",
                (Set(("optimizer", "params", "weight_decay"), 0.01),),
            ),
        )


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
    if not ({"fp16", "bf16", "bfloat16"} & ctx.data.keys()) or _own(ctx) not in ("Lamb", "OneBitLamb"):
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
            help="use fp16, another optimizer, or DeepSpeed 0.17.1 or later",
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
    if "zero_optimization" in ctx.data and _own(ctx) == "Lamb" and offloaded(ctx) and zero_stage(ctx) > 0:
        yield ctx.at(
            _TYPE,
            f"`type` is {quoted(ctx.written(_TYPE))}, which works on the GPU alone, and the optimizer is"
            " offloaded",
            help='use `"AdamW"`, or do not offload the optimizer',
            related=offload_place(ctx),
        )


@rule("DSC525", effect="wasteful", since="0.11.0", source="ops/lion/fused_lion.py:FusedLion.__init__")
def lion_with_betas_of_adam(ctx: Context) -> Iterator[Finding]:
    """Lion without `betas` takes those of Adam.

    DeepSpeed's default is [0.9, 0.999]; Lion's authors, and other implementations, use [0.9, 0.99].

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Lion", "params": {"lr": 0.0001}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Lion", "params": {"lr": 0.0001, "betas": [0.9, 0.99]}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "Lion", "params": {"lr": 0.0001, "betas": [0.9, 0.99]}}}
    """
    if "betas" not in (written := params(ctx, "optimizer")) and _own(ctx) == "Lion":
        yield ctx.at(
            _TYPE,
            "`betas` is not written: DeepSpeed's Lion takes [0.9, 0.999], not the usual [0.9, 0.99]",
            help='write `"betas": [0.9, 0.99]`, or the ones that you mean',
            fix=Fix("write [0.9, 0.99]", (Set(("optimizer", "params", "betas"), [0.9, 0.99]),))
            if written
            else None,
        )
