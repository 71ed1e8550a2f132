"""Requirements of Adam, Lamb, Lion and the 1-bit optimizers, and which optimizers ZeRO supports."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import format_number, join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._built_class import (
    ADAM,
    BuiltClass,
    built_optimizer,
    configured_params,
    has_decoupled_weight_decay,
    known_type,
    written_type,
)
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    describe_stage,
    effective_stage,
    enabled_bf16_path,
    offload_keys,
    related_offload,
    related_stage,
    related_stage_key,
    stage_if_configured,
    training_dtype,
    uses_cpu_optimizer,
)
from dsconfig.rules._fixes import remove_key

# The class built for a `type`: another one than the name says, or one without fusion.

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
    """Type `Adagrad` builds Adam unless the optimizer is offloaded.

    Up to 0.9.1, the name selected DeepSpeed's CPU Adagrad with offloading, and FusedAdam otherwise.

    Bad, release 0.8.3:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad", "params": {"lr": 0.01}}}

    Good, release 0.8.3:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad", "params": {"lr": 0.01}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    type_name = written_type(ctx, "optimizer")
    if type_name is not None and type_name.lower() == "adagrad" and not uses_cpu_optimizer(ctx):
        yield ctx.at(
            _TYPE,
            f"`optimizer.type` is {quote_value(type_name)}, but DeepSpeed {ctx.release_name} builds FusedAdam for"
            " it unless the optimizer is offloaded",
            help="upgrade DeepSpeed to 0.9.2 or later, or pass `torch.optim.Adagrad` to"
            " `deepspeed.initialize`",
        )


@rule("DSC508", effect="ignored", source=f"{_ENGINE}._configure_fp16_optimizer")
def legacy_fusion_unread(ctx: Context) -> Iterator[Finding]:
    """`legacy_fusion` is true, but has no effect.

    Only the 16-bit wrapper without ZeRO reads it, and only around FusedAdam: type `Adam` or `AdamW`, neither
    offloaded nor with `torch_adam`.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "legacy_fusion": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "optimizer": {"type": "AdamW", "legacy_fusion": true}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}}
    """
    if not ctx.has("optimizer.legacy_fusion") or not ctx.is_on("optimizer.legacy_fusion"):
        return
    reason = _why_not_fused(ctx)
    if reason:
        yield ctx.at(
            "optimizer.legacy_fusion",
            "`legacy_fusion` has no effect: it applies only to FusedAdam in 16 bits without ZeRO, and"
            f" {reason}",
            help="remove it",
            part="key",
            fix=remove_key(("optimizer", "legacy_fusion"), safe=True),
        )


def _why_not_fused(ctx: Context) -> str | None:
    if stage_if_configured(ctx) > 0:
        return describe_stage(ctx)
    if training_dtype(ctx) == "fp32":
        return "the model trains in fp32"
    chosen = built_optimizer(ctx)
    if chosen is not None and chosen.built != "FusedAdam":
        return f"the optimizer is {chosen.built}"
    return None


# The type of the optimizer as DeepSpeed spells it.


def _canonical_optimizer_type(ctx: Context) -> str | None:
    """Return the optimizer type as DeepSpeed spells it, or None if the release does not have it."""
    type_name = written_type(ctx, "optimizer")
    kind = known_type(ctx, "Optimizer", type_name) if type_name is not None else None
    return kind.name if kind else None


# Adam and AdamW: decoupled or L2 weight decay, and its default.

_BUILD = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_MIN_WEIGHT_DECAY = 1e-5
"""Weight decay below which its two forms hardly differ (DeepSpeed's own examples use 3e-7)."""


@rule("DSC520", effect="altered", since="0.3.11", source=_BUILD)
def adam_that_is_adamw(ctx: Context) -> Iterator[Finding]:
    """Type `Adam` with weight decay runs AdamW, unless `adam_w_mode` is false.

    The weight decay is applied to the weights directly instead of being added to the gradient as in Adam.
    This is a different algorithm unless `weight_decay` is negligible. The fix changes only the name.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.001, "weight_decay": 0.1}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.001, "weight_decay": 0.1,
        "adam_w_mode": false}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "weight_decay": 0.1}}}
    """
    arguments = configured_params(ctx, "optimizer")
    decay = arguments.get("weight_decay")
    if not isinstance(decay, int | float) or decay < _MIN_WEIGHT_DECAY or "adam_w_mode" in arguments:
        return
    if _canonical_optimizer_type(ctx) != "Adam":
        return
    yield ctx.at(
        _TYPE,
        f"`optimizer.type` is {quote_value(ctx.raw(_TYPE))}, but DeepSpeed runs AdamW: it applies the weight"
        f" decay of {quote_value(decay)} to the weights, not to the gradient",
        help='use `"AdamW"`, or add `"adam_w_mode": false` for the weight decay of Adam',
        related=[("the weight decay is set here", "optimizer.params.weight_decay")],
        fix=Fix('replace with `"AdamW"`', (SetValue(("optimizer", "type"), "AdamW"),), safe=True),
    )


@rule("DSC521", effect="ignored", since="0.3.11", source=_BUILD)
def adam_w_mode_of_adamw(ctx: Context) -> Iterator[Finding]:
    """`adam_w_mode` is false with type `AdamW`, which ignores the key.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"adam_w_mode": false}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"adam_w_mode": false}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}}}
    """
    arguments = configured_params(ctx, "optimizer")
    if (
        "adam_w_mode" in arguments
        and not arguments["adam_w_mode"]
        and _canonical_optimizer_type(ctx) == "AdamW"
    ):
        yield ctx.at(
            "optimizer.params.adam_w_mode",
            f"`adam_w_mode` is {quote_value(arguments['adam_w_mode'])}, but has no effect with type `AdamW`",
            help='remove it, or set `optimizer.type` to `"Adam"`',
            fix=remove_key(("optimizer", "params", "adam_w_mode"), safe=True),
        )


@rule("DSC522", effect="wasteful", since="0.3.11", source="torch.optim:AdamW")
def weight_decay_of_torch(ctx: Context) -> Iterator[Finding]:
    """`torch_adam` adds a weight decay of 0.01 that the config does not set.

    DeepSpeed's own Adam has no weight decay by default, but `torch.optim.AdamW` has 0.01. With `torch_adam`,
    `torch.optim.AdamW` runs, even for type `Adam` unless `adam_w_mode` is false.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": true}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": true,
        "weight_decay": 0.01}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "torch_adam": true,
        "weight_decay": 0.01}}}
    """
    arguments = configured_params(ctx, "optimizer")
    if (
        not arguments.get("torch_adam")
        or "weight_decay" in arguments
        or _canonical_optimizer_type(ctx) not in ADAM
    ):
        return
    kind = known_type(ctx, "Optimizer", written_type(ctx, "optimizer"))
    if kind is not None and has_decoupled_weight_decay(ctx, kind):
        yield ctx.at(
            "optimizer.params.torch_adam",
            "`weight_decay` is not set: with `torch_adam` it is 0.01, the default of `torch.optim.AdamW`,"
            " instead of 0",
            help='add `"weight_decay": 0.01`, or another weight decay',
            fix=Fix(
                "set `weight_decay` to 0.01, its effective value",
                (SetValue(("optimizer", "params", "weight_decay"), 0.01),),
            ),
        )


# `amsgrad`, which no DeepSpeed kernel supports.

_PARAMS = "optimizer.params"


@rule("DSC514", effect="crashes", source="ops/adam/fused_adam.py:FusedAdam.__init__")
def amsgrad_of_a_kernel(ctx: Context) -> Iterator[Finding]:
    """`amsgrad` is true, but DeepSpeed's own optimizers do not support it.

    FusedAdam, FusedLamb and, since 0.19.8, DeepSpeedCPUAdam reject it during engine initialization. Earlier
    releases of DeepSpeedCPUAdam ignore it, and DeepSpeedCPUAdagrad still does. PyTorch's Adam supports it;
    `torch_adam` selects that class.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"amsgrad": true}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"amsgrad": true,
        "torch_adam": true}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"amsgrad": true,
        "torch_adam": true}}}
    """
    if not configured_params(ctx, "optimizer").get("amsgrad"):
        return
    chosen = built_optimizer(ctx)
    if chosen is None or chosen.of_torch or "amsgrad" not in chosen.accepts or chosen.name == "Muon":
        return
    is_ignored = _ignores_amsgrad(ctx, chosen)
    path = f"{_PARAMS}.amsgrad"
    yield ctx.at(
        path,
        f"`amsgrad` is {quote_value(ctx.raw(path))}, but {chosen.built}"
        f" {'ignores' if is_ignored else 'rejects'} it",
        help=(f"set `{_PARAMS}.torch_adam` to `true`, or " if "torch_adam" in chosen.accepts else "")
        + "remove it",
        effect="ignored" if is_ignored else "crashes",
        fix=_amsgrad_fix(chosen, is_ignored),
    )


def _ignores_amsgrad(ctx: Context, chosen: BuiltClass) -> bool:
    if chosen.built == "DeepSpeedCPUAdam":
        return ctx.before("0.19.8")
    return chosen.built == "DeepSpeedCPUAdagrad"


def _amsgrad_fix(chosen: BuiltClass, is_ignored: bool) -> Fix:
    if chosen.built == "FusedAdam":
        return Fix("use PyTorch's Adam", (SetValue(("optimizer", "params", "torch_adam"), True),))
    return remove_key(("optimizer", "params", "amsgrad"), safe=is_ignored)


# Requirements of Lamb.

_SCALE = "fp16.loss_scale"


@rule("DSC523", effect="crashes", source="runtime/engine.py:DeepSpeedEngine._do_sanity_check")
def lamb_with_fixed_loss_scale(ctx: Context) -> Iterator[Finding]:
    """Lamb needs dynamic loss scaling, that is, a `loss_scale` of 0.

    Since 0.17.1, the engine checks `fp16.loss_scale` even if fp16 is disabled. From 0.5.5 to 0.17.0 it treats
    bf16 as a fixed loss scale of 1, so Lamb and bf16 exclude each other.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Lamb"}, "fp16": {"enabled": true, "loss_scale": 128}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Lamb"}, "fp16": {"enabled": true, "loss_scale": 0}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "Lamb"}, "fp16": {"enabled": true, "loss_scale": 0}}
    """
    is_lamb = _canonical_optimizer_type(ctx) in ("Lamb", "OneBitLamb")
    if not is_lamb or not any(section in ctx.data for section in ("fp16", "bf16", "bfloat16")):
        return
    type_name = ctx.raw(_TYPE)
    related = [("the optimizer is set here", _TYPE)]
    if ctx.since("0.17.1") or ctx.is_on("fp16.enabled"):
        if ctx.has(_SCALE) and ctx.value(_SCALE) != 0:
            yield ctx.at(
                _SCALE,
                f"`loss_scale` is {quote_value(ctx.raw(_SCALE))}, but {quote_value(type_name)} "
                "needs dynamic loss scaling",
                help="set it to 0",
                related=related,
                fix=Fix("replace with 0", (SetValue(("fp16", "loss_scale"), 0),)),
            )
    elif (place := enabled_bf16_path(ctx)) and ctx.since("0.5.5"):
        yield ctx.at(
            place,
            f"bf16 is enabled, which DeepSpeed treats as a fixed loss scale of 1, but {quote_value(type_name)}"
            " needs dynamic loss scaling",
            help='set `optimizer.type` to `"AdamW"`, or upgrade DeepSpeed to 0.17.1 or later',
            related=related,
        )


@rule("DSC524", effect="crashes", source="ops/lamb/fused_lamb.py:FusedLamb.step")
def lamb_offloaded(ctx: Context) -> Iterator[Finding]:
    """Lamb is offloaded, but it has a kernel only for the GPU.

    DeepSpeed has no Lamb for the CPU. The kernel requires CUDA tensors (csrc/lamb/fused_lamb_cuda.cpp), and
    offloading keeps the tensors that it updates in host memory.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Lamb"}, "zero_allow_untested_optimizer": true,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Lamb"}, "zero_allow_untested_optimizer": true,
        "zero_optimization": {"stage": 2}}
    """
    if (
        "zero_optimization" in ctx.data
        and _canonical_optimizer_type(ctx) == "Lamb"
        and uses_cpu_optimizer(ctx)
        and stage_if_configured(ctx) > 0
    ):
        keys = join_alternatives((f"`{path}`" for path in offload_keys(ctx, OPTIMIZER)), "and")
        yield ctx.at(
            _TYPE,
            f"`optimizer.type` is {quote_value(ctx.raw(_TYPE))}, which runs only on the GPU, but the optimizer"
            " is offloaded",
            help=f'use `"AdamW"`, or remove {keys}',
            related=related_offload(ctx),
        )


# Defaults of Lion.


@rule("DSC525", effect="wasteful", since="0.11.0", source="ops/lion/fused_lion.py:FusedLion.__init__")
def lion_with_betas_of_adam(ctx: Context) -> Iterator[Finding]:
    """Lion without `betas` uses the default betas of Adam.

    DeepSpeed's default is [0.9, 0.999]. Lion's authors and other implementations use [0.9, 0.99].

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Lion", "params": {"lr": 0.0001}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Lion", "params": {"lr": 0.0001, "betas": [0.9, 0.99]}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "Lion", "params": {"lr": 0.0001, "betas": [0.9, 0.99]}}}
    """
    if (
        "betas" not in (arguments := configured_params(ctx, "optimizer"))
        and _canonical_optimizer_type(ctx) == "Lion"
    ):
        yield ctx.at(
            _TYPE,
            "`betas` is not set: DeepSpeed's Lion defaults to [0.9, 0.999], not to the usual [0.9, 0.99]",
            help='add `"betas": [0.9, 0.99]`, or other values',
            fix=Fix("set `betas` to [0.9, 0.99]", (SetValue(("optimizer", "params", "betas"), [0.9, 0.99]),))
            if arguments
            else None,
        )


# 1-bit and 0/1 optimizers, which DeepSpeed 0.19.7 removed.

_BASIC = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_ONE_BIT = {"onebitadam": "0.4.1", "onebitlamb": "0.4.1", "zerooneadam": "0.6.1"}
"""Compressed optimizers, and the first release whose engine rejects them with ZeRO."""


def _one_bit_optimizer_type(ctx: Context) -> str | None:
    name = ctx.raw(_TYPE)
    return name.lower() if isinstance(name, str) and name.lower() in _ONE_BIT else None


@rule("DSC598", effect="crashes", since="0.4.1", until="0.19.6", source=_BASIC)
def one_bit_optimizer_with_zero(ctx: Context) -> Iterator[Finding]:
    """A 1-bit or 0/1 optimizer is used with ZeRO.

    These optimizers compress and exchange gradients themselves, which ZeRO does not allow at any stage.
    Engine initialization fails with "is not compatible with ZeRO".

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true}}
    """
    name = _one_bit_optimizer_type(ctx)
    if name is not None and ctx.since(_ONE_BIT[name]) and effective_stage(ctx) > 0:
        yield ctx.at(
            _TYPE,
            f"{quote_value(ctx.raw(_TYPE))} does not work with ZeRO, but the stage is "
            f"{format_number(effective_stage(ctx))}",
            help='use stage 0 or `"AdamW"`; DeepSpeed 0.19.7 removed the 1-bit optimizers',
            related=related_stage(ctx),
        )


@rule("DSC599", effect="wasteful", since="0.3.14", until="0.19.6", source=_BASIC)
def one_bit_optimizer_without_fp16(ctx: Context) -> Iterator[Finding]:
    """A 1-bit or 0/1 optimizer is used without `fp16`.

    DeepSpeed warns that these optimizers are known to converge only in fp16.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true}}
    """
    if _one_bit_optimizer_type(ctx) and training_dtype(ctx) != "fp16":
        yield ctx.at(
            _TYPE,
            f"{quote_value(ctx.raw(_TYPE))} is known to converge only in fp16, but the model trains in "
            f"{training_dtype(ctx)}",
            help=f"set `fp16.enabled` to `true`{_how_to_disable_bf16(ctx)}, or use another optimizer",
        )


def _how_to_disable_bf16(ctx: Context) -> str:
    enabled_key = enabled_bf16_path(ctx)
    return f", and set `{enabled_key}` to `false`" if enabled_key else ""


# Optimizers that are not tested with ZeRO.

_FLAG = "zero_allow_untested_optimizer"
_ZENFLOW_ADAM = "ZenFlowCPUAdam"
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
    _ZENFLOW_ADAM: "0.19.3",
}
"""Optimizer classes tested with ZeRO, and the first release that lists them.

Source: runtime/zero/utils.py, `ZERO_SUPPORTED_OPTIMIZERS`.
"""


@rule("DSC535", effect="crashes", source="runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check")
def untested_optimizer_with_zero(ctx: Context) -> Iterator[Finding]:
    """ZeRO is enabled with an optimizer class with which it is not tested.

    ZeRO is tested with Adam, AdamW, Adagrad, Lion and Muon. Engine initialization rejects every other class (`Lamb`,
    the optimizers of `mup`, the rest of `torch.optim`, and ZenFlow's Adam up to 0.19.2) unless
    `zero_allow_untested_optimizer` is true. Most optimizers work element by element, and are safe to use. Those that
    need whole layers, such as Lamb, see only slices of them.

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
        or ctx.is_on(_FLAG)
        or stage_if_configured(ctx) <= 0
    ):
        return
    untested = _untested_optimizer_class(ctx)
    if untested is not None:
        yield ctx.at(
            "optimizer.type",
            f"`optimizer.type` is {quote_value(written_type(ctx, 'optimizer'))}, which builds {untested}: ZeRO"
            f" rejects untested optimizers unless `{_FLAG}` is `true`",
            help=f'add `"{_FLAG}": true`, or '
            # The first releases are not tested with torch's AdamW either.
            + ("remove `zenflow`" if untested == _ZENFLOW_ADAM else f'use `"{_suggest_tested_type(ctx)}"`'),
            related=related_stage_key(ctx),
            fix=Fix(f'add `"{_FLAG}": true`', (SetValue((_FLAG,), True),)),
        )


def _suggest_tested_type(ctx: Context) -> str:
    return "Adam" if str(written_type(ctx, "optimizer")).lower() == "adamw" else "AdamW"


def _untested_optimizer_class(ctx: Context) -> str | None:
    """Return the optimizer class that the engine builds if ZeRO is not tested with it, else None."""
    chosen: BuiltClass | None = built_optimizer(ctx)
    if chosen is None:
        kind = known_type(ctx, "Optimizer", written_type(ctx, "optimizer"))
        return kind.gpu if kind else None
    if chosen.build != "torch" and chosen.kind and chosen.kind.name in _ONE_BIT_TYPES:
        return None  # reported by `one-bit-optimizer-with-zero`: the flag does not help
    built = chosen.built
    if built == "DeepSpeedCPUAdam" and isinstance(ctx.value("zero_optimization.zenflow"), dict):
        built = _ZENFLOW_ADAM  # runtime/engine.py, `DeepSpeedEngine._configure_basic_optimizer`
    tested = _TESTED.get(built)
    return None if tested and ctx.since(tested) else built


_ONE_BIT_TYPES = ("OneBitAdam", "OneBitLamb", "ZeroOneAdam")
