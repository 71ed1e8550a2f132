"""Optimizer classes: Adam, Lamb, Lion, 1-bit optimizers, what is built for a `type`, support by ZeRO."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import compact, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import (
    ADAM,
    Chosen,
    has_decoupled_weight_decay,
    known_type,
    optimizer,
    params,
    written_type,
)
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    asked_for,
    bf16_place,
    model_format,
    offload_place,
    offloaded,
    related_stage_key,
    stage,
    stage_set_here,
    stage_words,
    zero_stage,
)
from dsconfig.rules._fixes import removal

# What is built for a `type`: another class than it says, or one that does not fuse.

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
_TYPE = "optimizer.type"


@rule(
    "DSC507",
    effect="altered",
    since="0.5.5",
    until="0.9.1",
    source=f"{_ENGINE}._configure_basic_optimizer",
)
def adagrad_that_is_adam(ctx: Context) -> Iterator[Finding]:
    """Type `Adagrad` without offloading builds Adam.

    Until 0.9.1 the name chose DeepSpeed's Adagrad for the CPU under offload, and FusedAdam everywhere else.

    Bad, release 0.8.3:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad", "params": {"lr": 0.01}}}

    Good, release 0.8.3:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad", "params": {"lr": 0.01}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    word = written_type(ctx, "optimizer")
    if word is not None and word.lower() == "adagrad" and not offloaded(ctx):
        yield ctx.at(
            _TYPE,
            f"`optimizer.type` is {quoted(word)}, but DeepSpeed {ctx.release_name} builds FusedAdam for it"
            " unless the optimizer is offloaded",
            help="upgrade DeepSpeed to 0.9.2 or later, or hand `torch.optim.Adagrad` to"
            " `deepspeed.initialize`",
        )


@rule("DSC508", effect="ignored", source=f"{_ENGINE}._configure_fp16_optimizer")
def legacy_fusion_unread(ctx: Context) -> Iterator[Finding]:
    """`legacy_fusion` is on where nothing reads it.

    Only the wrapper that trains in 16 bits without ZeRO does, and only around FusedAdam: type `Adam` or
    `AdamW`, neither offloaded nor with `torch_adam`.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "legacy_fusion": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "optimizer": {"type": "AdamW", "legacy_fusion": true}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}}
    """
    if not ctx.has("optimizer.legacy_fusion") or not ctx.on("optimizer.legacy_fusion"):
        return
    why = _not_fused(ctx)
    if why:
        yield ctx.at(
            "optimizer.legacy_fusion",
            f"`legacy_fusion` has no effect: it is for FusedAdam in 16 bits without ZeRO, and {why}",
            help="remove it",
            part="key",
            fix=removal(("optimizer", "legacy_fusion"), safe=True),
        )


def _not_fused(ctx: Context) -> str | None:
    if zero_stage(ctx) > 0:
        return stage_words(ctx)
    if model_format(ctx) == "fp32":
        return "the model trains in fp32"
    chosen = optimizer(ctx)
    if chosen is not None and chosen.built != "FusedAdam":
        return f"the optimizer is {chosen.built}"
    return None


# The type of the optimizer as DeepSpeed spells it.


def own_type(ctx: Context) -> str | None:
    """The name of the type, as DeepSpeed spells it, where the release knows it."""
    word = written_type(ctx, "optimizer")
    kind = known_type(ctx, "Optimizer", word) if word is not None else None
    return kind.name if kind else None


# Adam and AdamW: which kind of weight decay, and whose default.

_BUILD = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_NOTABLE = 1e-5
"""A smaller weight decay (DeepSpeed's own examples have 3e-7) does next to nothing in either form."""


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
    if own_type(ctx) != "Adam":
        return
    yield ctx.at(
        _TYPE,
        f"`optimizer.type` is {quoted(ctx.written(_TYPE))}, and DeepSpeed runs AdamW: it takes the"
        f" weight decay of {quoted(decay)} from the weights, not through the gradient",
        help='write `"AdamW"`, or add `"adam_w_mode": false` for the weight decay of Adam',
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
    if "adam_w_mode" in written and not written["adam_w_mode"] and own_type(ctx) == "AdamW":
        yield ctx.at(
            "optimizer.params.adam_w_mode",
            f"`adam_w_mode` is {quoted(written['adam_w_mode'])} without effect: type `AdamW` decides",
            help='remove it, or write `"type": "Adam"`',
            fix=removal(("optimizer", "params", "adam_w_mode"), safe=True),
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
    if not written.get("torch_adam") or "weight_decay" in written or own_type(ctx) not in ADAM:
        return
    kind = known_type(ctx, "Optimizer", written_type(ctx, "optimizer"))
    if kind is not None and has_decoupled_weight_decay(ctx, kind):
        yield ctx.at(
            "optimizer.params.torch_adam",
            "`weight_decay` is not written: with `torch_adam` it is 0.01, `torch.optim.AdamW`'s default,"
            " instead of 0",
            help='add `"weight_decay": 0.01`, or the weight decay that you mean',
            fix=Fix(
                "write the 0.01 that applies",
                (Set(("optimizer", "params", "weight_decay"), 0.01),),
            ),
        )


# `amsgrad`, which no kernel of DeepSpeed has.

_PARAMS = "optimizer.params"


@rule("DSC514", effect="crashes", source="ops/adam/fused_adam.py:FusedAdam.__init__")
def amsgrad_of_a_kernel(ctx: Context) -> Iterator[Finding]:
    """`amsgrad` is on, and none of DeepSpeed's own optimizers can do it.

    FusedAdam, FusedLamb and, from 0.19.8 on, DeepSpeedCPUAdam refuse it as the engine starts. Before, the
    Adam for the CPU took it and did nothing with it, as that of Adagrad does to this day. PyTorch's Adam can,
    and `torch_adam` chooses it.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"amsgrad": true}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"amsgrad": true,
        "torch_adam": true}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"amsgrad": true,
        "torch_adam": true}}}
    """
    if not params(ctx, "optimizer").get("amsgrad"):
        return
    chosen = optimizer(ctx)
    if chosen is None or chosen.of_torch or "amsgrad" not in chosen.accepts or chosen.name == "Muon":
        return
    ignored = _passes_over(ctx, chosen)
    path = f"{_PARAMS}.amsgrad"
    yield ctx.at(
        path,
        f"`amsgrad` is {quoted(ctx.written(path))}, and {chosen.built} "
        + ("does nothing with it" if ignored else "refuses it"),
        help=(f"set `{_PARAMS}.torch_adam` to `true`, or " if "torch_adam" in chosen.accepts else "")
        + "remove it",
        effect="ignored" if ignored else "crashes",
        fix=_way_out(chosen, ignored),
    )


def _passes_over(ctx: Context, chosen: Chosen) -> bool:
    if chosen.built == "DeepSpeedCPUAdam":
        return ctx.before("0.19.8")
    return chosen.built == "DeepSpeedCPUAdagrad"


def _way_out(chosen: Chosen, ignored: bool) -> Fix:
    if chosen.built == "FusedAdam":
        return Fix("take PyTorch's Adam", (Set(("optimizer", "params", "torch_adam"), True),))
    return removal(("optimizer", "params", "amsgrad"), safe=ignored)


# What Lamb asks for.

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


# What Lion asks for.


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
    if "betas" not in (written := params(ctx, "optimizer")) and own_type(ctx) == "Lion":
        yield ctx.at(
            _TYPE,
            "`betas` is not written: DeepSpeed's Lion takes [0.9, 0.999], not the usual [0.9, 0.99]",
            help='add `"betas": [0.9, 0.99]`, or the ones that you mean',
            fix=Fix("write [0.9, 0.99]", (Set(("optimizer", "params", "betas"), [0.9, 0.99]),))
            if written
            else None,
        )


# 1-bit and 0/1 optimizers, which are gone since 0.19.7.

_BASIC = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_ONE_BIT = {"onebitadam": "0.4.1", "onebitlamb": "0.4.1", "zerooneadam": "0.6.1"}
"""The compressed optimizers, and since when the engine refuses them beside ZeRO."""


def _one_bit(ctx: Context) -> str | None:
    name = ctx.written(_TYPE)
    return name.lower() if isinstance(name, str) and name.lower() in _ONE_BIT else None


@rule("DSC598", effect="crashes", since="0.4.1", until="0.19.6", source=_BASIC)
def one_bit_optimizer_with_zero(ctx: Context) -> Iterator[Finding]:
    """A 1-bit or 0/1 optimizer is used with ZeRO.

    They compress and exchange gradients themselves, which ZeRO does not allow at any stage. The engine says
    "is not compatible with ZeRO" and stops.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true}}
    """
    name = _one_bit(ctx)
    if name is not None and ctx.since(_ONE_BIT[name]) and stage(ctx) > 0:
        yield ctx.at(
            _TYPE,
            f"{quoted(ctx.written(_TYPE))} does not work with ZeRO, and the stage is {compact(stage(ctx))}",
            help='use stage 0, or write `"AdamW"`; 0.19.7 has no 1-bit optimizers any more',
            related=stage_set_here(ctx),
        )


@rule("DSC599", effect="wasteful", since="0.3.14", until="0.19.6", source=_BASIC)
def one_bit_optimizer_without_fp16(ctx: Context) -> Iterator[Finding]:
    """A 1-bit or 0/1 optimizer is used without `fp16`.

    DeepSpeed warns that they are known to converge in fp16 only.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true}}
    """
    if _one_bit(ctx) and model_format(ctx) != "fp16":
        yield ctx.at(
            _TYPE,
            f"{quoted(ctx.written(_TYPE))} is known to converge in fp16 only, and the model trains in "
            f"{model_format(ctx)}",
            help=f"set `fp16.enabled` to `true`{_without_bf16(ctx)}, or use another optimizer",
        )


def _without_bf16(ctx: Context) -> str:
    there = bf16_place(ctx)
    return f", and set `{there}` to `false`" if there else ""


# Optimizers that ZeRO has not been tested with.

_FLAG = "zero_allow_untested_optimizer"
_ZENFLOWS_OWN = "ZenFlowCPUAdam"
_TESTED = {
    "torch.optim.Adam": "0.3.1",
    "torch.optim.AdamW": "0.3.11",
    "FusedAdam": "0.3.1",
    "DeepSpeedCPUAdam": "0.3.1",
    "torch.optim.Adagrad": "0.9.2",
    "DeepSpeedCPUAdagrad": "0.9.2",
    "FusedLion": "0.11.0",
    "DeepSpeedCPULion": "0.11.0",
    "MuonWithAuxAdam": "0.17.6",
    _ZENFLOWS_OWN: "0.19.3",
}
"""The classes that ZeRO has been tested with, and since when (runtime/zero/utils.py,
`ZERO_SUPPORTED_OPTIMIZERS`)."""


@rule("DSC535", effect="crashes", source="runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check")
def untested_optimizer_with_zero(ctx: Context) -> Iterator[Finding]:
    """ZeRO is on, and its authors have not tested it with this optimizer.

    They have with Adam, AdamW, Adagrad, Lion and Muon. Any other class (`Lamb`, the ones of `mup`, all else
    in `torch.optim`, and up to 0.19.2 the Adam of ZenFlow) stops the engine unless
    `zero_allow_untested_optimizer` is true. Most work element by element and are fine; those that look at
    whole layers, such as Lamb, see slices of them.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": true}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": true}
    """
    if (
        "zero_optimization" not in ctx.data
        or "optimizer" not in ctx.data
        or ctx.on(_FLAG)
        or zero_stage(ctx) <= 0
    ):
        return
    built = _built(ctx)
    if built is not None:
        word = quoted(written_type(ctx, "optimizer"))
        yield ctx.at(
            "optimizer.type",
            f"`optimizer.type` is {word}, that is {built}, and ZeRO refuses optimizers that it has not"
            f" been tested with unless `{_FLAG}` is `true`",
            help=f'add `"{_FLAG}": true`, or '
            + ("remove `zenflow`" if built == _ZENFLOWS_OWN else 'use `"AdamW"`'),
            related=related_stage_key(ctx),
            fix=Fix(f'add `"{_FLAG}": true`', (Set((_FLAG,), True),)),
        )


def _built(ctx: Context) -> str | None:
    """The class that is built, where ZeRO has not been tested with it."""
    chosen: Chosen | None = optimizer(ctx)
    if chosen is None:
        kind = known_type(ctx, "Optimizer", written_type(ctx, "optimizer"))
        return kind.gpu if kind else None
    if chosen.build != "torch" and chosen.kind and chosen.kind.name in _ONE_BIT_TYPES:
        return None  # `one-bit-optimizer-with-zero` says that no flag helps
    built = chosen.built
    if built == "DeepSpeedCPUAdam" and isinstance(ctx.value("zero_optimization.zenflow"), dict):
        built = _ZENFLOWS_OWN  # runtime/engine.py, `DeepSpeedEngine._configure_basic_optimizer`
    tested = _TESTED.get(built)
    return None if tested and ctx.since(tested) else built


_ONE_BIT_TYPES = ("OneBitAdam", "OneBitLamb", "ZeroOneAdam")
