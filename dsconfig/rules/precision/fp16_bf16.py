"""`fp16` and `bf16`: conflicts, load errors, 16-bit master weights and optimizer states."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers import HUGGING_FACE
from dsconfig.core.diagnostic import Fix, Remove, Set
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import kind, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import Absent, Condition, Is, rule
from dsconfig.rules._consumer import consumer_label
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    bf16_place,
    device,
    device_place,
    format_of,
    format_place,
    model_format,
    stage,
    stage_path,
    stage_set_here,
    stage_words,
)
from dsconfig.rules._fixes import removal

# `fp16`, `bf16` and `torch_autocast`: which exclude each other, which are on.

_INIT = "runtime/config.py:DeepSpeedConfig._initialize_params"


@rule(
    "DSC301",
    effect="rejected",
    since="0.5.5",
    source=_INIT,
    conditions=(
        Condition(
            "Config",
            (Is("fp16.enabled", (True,)), Is("bf16.enabled", (True,))),
            Absent("fp16.enabled", "`fp16` and `bf16` are both enabled, and DeepSpeed takes only one"),
        ),
    ),
)
def fp16_and_bf16(ctx: Context) -> Iterator[Finding]:
    """`fp16` and `bf16` are both enabled.

    A model trains in one of the two. Up to 0.17.0 the sections are read by hand, and whatever is not empty
    counts as true: `"auto"` too, where nobody fills it.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "bf16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": false}, "bf16": {"enabled": true}}
    """
    there = bf16_place(ctx, "enabled")
    if there and ctx.on("fp16.enabled"):
        section = there.split(".")[0]
        yield ctx.at(
            "fp16.enabled",
            f"`fp16` and `{section}` are both enabled",
            help=f"set `fp16.enabled` or `{there}` to `false`: `{section}` needs no loss "
            "scaling, `fp16` runs on older GPUs",
            related=[(f"`{section}` is enabled here", there)],
            fix=Fix("disable `fp16`", (Set(ctx.place("fp16.enabled"), False),)),
        )


@rule(
    "DSC302",
    effect="rejected",
    since="0.5.5",
    until="0.7.4",
    source=f"{_INIT}, runtime/engine.py:DeepSpeedEngine._configure_distributed_model",
)
def bf16_at_unsupported_stage(ctx: Context) -> Iterator[Finding]:
    """bfloat16 is enabled at a ZeRO stage that cannot train in it yet.

    The first releases with bfloat16 took it at stage 2 alone; 0.6.0 and 0.6.1 at stages 1 to 3. From 0.6.3 to
    0.7.4 the config passes and the engine stops without ZeRO, unless the model is a `PipelineModule`; which
    it is only the script knows, so that is a warning where plain DeepSpeed reads the config.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
    """
    there = bf16_place(ctx, "enabled")
    stages = (2,) if ctx.before("0.6.0") else (1, 2, 3)
    by_engine = ctx.since("0.6.3")
    if by_engine and (ctx.data.get("pipeline") or ctx.on("fp16.enabled")):
        return
    if there and stage(ctx) not in stages:
        section = there.split(".")[0]
        needed = "stage 2" if len(stages) == 1 else "stage 1, 2 or 3"
        first = "0.7.5" if stage(ctx) == 0 else "0.6.0" if stage(ctx) in (1, 3) else "0.6.3"
        pipeline = ", unless the model is a `PipelineModule`" if by_engine and not ctx.plugged else ""
        yield ctx.at(
            there,
            f"`{section}` needs ZeRO {needed} in DeepSpeed {ctx.release_name}, but {stage_words(ctx)}"
            f"{pipeline}",
            help=f"use ZeRO {needed}, or upgrade DeepSpeed to {first} or later",
            effect=("altered" if pipeline else "crashes") if by_engine else "rejected",
            related=[("the stage is set here", stage_path(ctx))] if ctx.has("zero_optimization") else [],
        )


_SWITCHED = ("fp16", "bf16", "torch_autocast")


@rule("DSC323", effect="ignored", source="runtime/precision_config.py:DeepSpeedFP16Config")
def precision_section_not_enabled(ctx: Context) -> Iterator[Finding]:
    """A section of number formats holds settings, and no `enabled`.

    `fp16`, `bf16` and `torch_autocast` are off unless they say `"enabled": true`; written without it, all of
    the section does nothing. One that says `"enabled": false` was switched off on purpose.

    Bad:

        {"train_batch_size": 8, "fp16": {"loss_scale": 0, "initial_scale_power": 16}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16}}
    """
    for section in _SWITCHED:
        written = ctx.data.get(section)
        if not isinstance(written, dict) or not written or "enabled" in written:
            continue
        known = ctx.section(section)
        keys = [f"`{key}`" for key in written if known is not None and key in known.keys]
        if keys:
            yield ctx.at(
                section,
                f"`{section}` has no `enabled`, so it is off, and {', '.join(keys)} "
                f"{'has' if len(keys) == 1 else 'have'} no effect",
                help='add `"enabled": true`, or remove the section',
                part="key",
                fix=Fix('add `"enabled": true`', (Set((section, "enabled"), True),)),
            ).lacking(ctx.place(f"{section}.enabled"))


@rule(
    "DSC324", effect="crashes", since="0.17.1", source="runtime/engine.py:DeepSpeedEngine._cast_inputs_half"
)
def auto_cast_without_fp16(ctx: Context) -> Iterator[Finding]:
    """`fp16.auto_cast` is on, and `fp16` is not enabled.

    The engine casts every floating-point input to fp16 all the same, and the first layer, whose weights are
    in another format, fails ("must have the same dtype"). It casts what the engine is called with by
    position, `engine(images)`; inputs by name, `engine(pixel_values=images)`, stay as they are, and so do
    token ids, which are integers. Up to 0.17.0 DeepSpeed looked at `auto_cast` only where `fp16` is enabled.

    The Trainer of Transformers hands inputs over by name (`compute_loss`), as most loops with Accelerate do:
    `auto_cast` does nothing there. Where they fill `enabled`, it is right for the runs with fp16.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": false, "auto_cast": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "auto_cast": true}}
    """
    path, enabled = "fp16.auto_cast", "fp16.enabled"
    if not ctx.has(path) or not ctx.on(path):
        return
    by_name = ctx.consumer in HUGGING_FACE
    if (by_name and ctx.written(enabled) == "auto") or ctx.on(enabled) or ctx.on("torch_autocast.enabled"):
        return
    in_bf16 = any(ctx.written(f"{section}.enabled") is True for section in ("bf16", "bfloat16"))
    yield ctx.at(
        path,
        "`auto_cast` casts inputs given by position to fp16, though `fp16` is not enabled: those given by "
        f"name, as {consumer_label(ctx)} gives them, stay as they are"
        if by_name
        else f"`auto_cast` casts inputs given by position to fp16, though `fp16` is not "
        f"enabled: the model is in {model_format(ctx)}, and its layers do not take them",
        help="remove `auto_cast`" + ("" if in_bf16 else f", or set `{enabled}` to `true`"),
        effect="ignored" if by_name else None,
        fix=removal(ctx.place(path)),
    )


@rule("DSC311", effect="ignored", since="0.6.0", source="runtime/precision_config.py:get_bfloat16_config")
def bfloat16_beside_bf16(ctx: Context) -> Iterator[Finding]:
    """`bfloat16` stands beside `bf16`, its later name.

    DeepSpeed reads `bfloat16` only where there is no `bf16`.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": false}, "bfloat16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}}
    """
    new = ctx.data.get("bf16")
    if "bfloat16" in ctx.data and "bf16" in ctx.data and (new is not None or ctx.before("0.17.1")):
        yield ctx.at(
            "bfloat16",
            f"`bfloat16` is the old name of `bf16`, which is {kind(new)} here: DeepSpeed reads that alone",
            help="keep `bf16` alone",
            part="key",
            related=[("`bf16` is written here", "bf16")],
            fix=removal(("bfloat16",), safe=True),
        )


# What the sections of number formats refuse as soon as the config is loaded.

_SANITY = "runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check"
_ACCUMULATION = "data_types.grad_accum_dtype"


@rule("DSC309", effect="rejected", until="0.19.7", source="runtime/config.py:get_amp_params")
def amp_without_enabled(ctx: Context) -> Iterator[Finding]:
    """The section `amp` does not say `enabled`.

    DeepSpeed takes that key out of the section before it hands the rest to Apex, and fails where there is
    none.

    Bad:

        {"train_batch_size": 8, "amp": {"opt_level": "O1"}}

    Good:

        {"train_batch_size": 8, "amp": {"enabled": true, "opt_level": "O1"}}
    """
    if isinstance(ctx.written("amp"), dict) and not ctx.has("amp.enabled"):
        yield ctx.at(
            "amp",
            "`amp` has no `enabled`, which DeepSpeed demands here",
            help='add `"enabled": true` or `false`, or remove the section',
            part="key",
        )


@rule("DSC360", effect="crashes", since="0.3.0", until="0.19.7", source=_SANITY)
def amp_with_partner(ctx: Context) -> Iterator[Finding]:
    """`amp` is enabled together with ZeRO, `fp16` or `bf16`, or with another format for gradients.

    Apex casts the model and its optimizer itself. The engine
    says "Amp and ZeRO are not currently compatible" or "Cannot enable both amp" and stops.

    Bad, release 0.19.5:

        {"train_batch_size": 8, "amp": {"enabled": true}, "zero_optimization": {"stage": 1}}

    Good, release 0.19.5:

        {"train_batch_size": 8, "amp": {"enabled": true}}
    """
    if not isinstance(ctx.data.get("amp"), dict) or not ctx.on("amp.enabled"):
        return
    model = model_format(ctx)
    partner = "ZeRO" if stage(ctx) > 0 else f"`{model}`" if model != "fp32" else None
    related = stage_set_here(ctx) if stage(ctx) > 0 else format_place(ctx)
    if partner is None and ctx.has(_ACCUMULATION):
        chosen = format_of(ctx.value(_ACCUMULATION))
        if chosen not in (None, "fp32") and ctx.since("0.7.6"):
            partner = f'`grad_accum_dtype` "{chosen}"'
            related = [("the format is set here", _ACCUMULATION)]
    if partner is None:
        return
    yield ctx.at(
        "amp.enabled",
        f"`amp` does not work with {partner}, and both are on",
        help="remove `amp`: `fp16` and `bf16` work with everything, and 0.19.8 knows `amp` no more",
        related=related,
        fix=removal(("amp",)),
    )


# Master weights and optimizer states that stay in 16 bits: what they require.

_CHECK = "runtime/config.py:DeepSpeedConfig._do_error_check"
_CONFIGURE = "runtime/base_optimizer.py:ZeROOptimizer._configure_master_weights"
_FP16 = "fp16.fp16_master_weights_and_grads"
_BF16 = "bf16_master_weights_and_grads"


class _Narrow(NamedTuple):
    """A key that keeps more than the model in 16 bits."""

    section: str
    key: str
    since: str


_NARROW = (
    _Narrow("fp16", "fp16_master_weights_and_grads", "0.5.0"),
    _Narrow("bf16", "bf16_master_weights_and_grads", "0.18.3"),
    _Narrow("bf16", "bf16_optimizer_states", "0.18.3"),
)


@rule("DSC307", effect="rejected", since="0.5.0", source=_CHECK)
def half_precision_master_weights_without_zero(ctx: Context) -> Iterator[Finding]:
    """Master weights or optimizer states are to stay in 16 bits, and ZeRO is not at a stage that can do so.

    Up to 0.18.2 that is stage 2 alone, from then on any from 1 to 3. From 0.17.1 on it is checked even where
    the section is not enabled.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "fp16_master_weights_and_grads": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "fp16_master_weights_and_grads": true},
        "zero_optimization": {"stage": 2}}
    """
    stages = (1, 2, 3) if ctx.since("0.18.3") else (2,)
    for row in _NARROW:
        if ctx.before(row.since) or stage(ctx) in stages:
            continue
        there = f"fp16.{row.key}" if row.section == "fp16" and ctx.on(f"fp16.{row.key}") else None
        if row.section == "bf16":
            there = bf16_place(ctx, row.key)
        if there and (ctx.since("0.17.1") or ctx.on("fp16.enabled")):
            needed = "stage 2" if len(stages) == 1 else "stage 1, 2 or 3"
            yield ctx.at(
                there,
                f"`{there}` needs ZeRO {needed}, but {stage_words(ctx)}",
                help=f"use ZeRO {needed}, or remove `{row.key}`",
                related=[("the stage is set here", stage_path(ctx))] if ctx.has("zero_optimization") else [],
                fix=removal(ctx.place(there)),
            )


@rule("DSC308", effect="rejected", since="0.18.3", source=_CHECK)
def bf16_optimizer_states_without_master_weights(ctx: Context) -> Iterator[Finding]:
    """`bf16_optimizer_states` is on without `bf16_master_weights_and_grads`.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true,
        "bf16_optimizer_states": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true,
        "bf16_optimizer_states": true, "bf16_master_weights_and_grads": true}}
    """
    there = bf16_place(ctx, "bf16_optimizer_states")
    if there and not bf16_place(ctx, "bf16_master_weights_and_grads"):
        yield ctx.at(
            there,
            f"`{there}` is on, but `bf16_master_weights_and_grads` beside it is not",
            help="set `bf16_master_weights_and_grads` to `true`, or remove `bf16_optimizer_states`",
            fix=Fix(
                "switch on `bf16_master_weights_and_grads`",
                (Set((*ctx.place(there)[:-1], "bf16_master_weights_and_grads"), True),),
            ),
        )


@rule("DSC331", effect="crashes", since="0.18.3", source=_CONFIGURE)
def master_weights_in_two_formats(ctx: Context) -> Iterator[Finding]:
    """Master weights are asked for in fp16 and in bfloat16.

    Both keys count whether or not their sections are enabled; the engine says that they are "mutually
    exclusive".

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "fp16": {"fp16_master_weights_and_grads": true, "enabled": false},
        "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}}
    """
    there = bf16_place(ctx, _BF16)
    if there and ctx.has("fp16") and ctx.on(_FP16) and stage(ctx) in (1, 2, 3):
        idle = there if ctx.on("fp16.enabled") else _FP16
        yield ctx.at(
            idle,
            f"`{_FP16}` and `{there}` are both on, and exclude each other",
            help=f"remove `{idle}`",
            related=[("the other one is on here", _FP16 if idle == there else there)],
            fix=Fix(f"remove `{idle}`", (Remove(ctx.place(idle)),)),
        )


# 16-bit master weights and DeepSpeed's Adam for the CPU.

_STATES = "bf16_optimizer_states"
_CPU_ADAM = ("adam", "adamw")


class _Lack(NamedTuple):
    """What keeps DeepSpeed from using its CPU Adam, and where that is said."""

    says: str
    place: str | None
    way: str
    """What to do about it."""


def _asks(ctx: Context) -> str | None:
    """The key by which 16-bit master weights are asked for, where they have to live on the host."""
    if ctx.has("fp16") and ctx.on(_FP16) and (ctx.since("0.17.1") or ctx.on("fp16.enabled")):
        return _FP16
    there = bf16_place(ctx, _BF16) if ctx.since("0.18.3") else None
    if there is None or not bf16_place(ctx, _STATES):
        return there
    # The states may stay on the GPU in bf16; 0.19.1 began to look at them where they are offloaded.
    return None if _states_help(ctx) else there


def _states_help(ctx: Context) -> bool:
    """Whether the weights may stay in 16 bits once the moments are in bfloat16."""
    return ctx.before("0.19.1") or device(ctx, OPTIMIZER) == "none"


def _lacks(ctx: Context) -> Iterator[_Lack]:
    if device(ctx, OPTIMIZER) == "none":
        yield _Lack(
            "the optimizer is not offloaded",
            device_place(ctx, OPTIMIZER),
            f'set `{OPTIMIZER}.device` to `"cpu"`',
        )
    name = ctx.written("optimizer.type")
    if not isinstance(name, str):  # the script may hand over a DeepSpeedCPUAdam
        return
    if name.lower() not in _CPU_ADAM:
        yield _Lack(f"the optimizer is {quoted(name)}", "optimizer.type", 'set `optimizer.type` to `"AdamW"`')
    torch = ctx.written("optimizer.params.torch_adam")
    if torch is not MISSING and torch:
        place = "optimizer.params.torch_adam"
        yield _Lack(f"`torch_adam` {quoted(torch)} asks for PyTorch's own", place, f"remove `{place}`")


@rule("DSC330", effect="crashes", since="0.5.0", source=_CONFIGURE)
def half_precision_master_weights_without_cpu_adam(ctx: Context) -> Iterator[Finding]:
    """Master weights are to stay in 16 bits, and the optimizer is not DeepSpeed's CPU Adam.

    Only `DeepSpeedCPUAdam`, which an `Adam` or `AdamW` becomes when the optimizer is offloaded, keeps its
    weights in 16 bits. In bfloat16 there is a second way: with `bf16_optimizer_states` the moments are in
    bfloat16 too, and everything may stay on the GPU. The engine says "Master weights feature requires" and
    stops; it looks at the key even where its section is not enabled.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 2},
        "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 2},
        "bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}}
    """
    there = _asks(ctx)
    if there is None or stage(ctx) not in (1, 2, 3):
        return
    lacks = list(_lacks(ctx))
    if lacks:
        lack = lacks[0]
        key = there.rpartition(".")[2]
        states = key == _BF16 and not bf16_place(ctx, _STATES) and _states_help(ctx)
        way = f", or set `{_STATES}` to `true`" if states else ""
        yield ctx.at(
            there,
            f"`{there}` needs DeepSpeed's CPU Adam, but {lack.says}",
            help=", and ".join(each.way for each in lacks) + way,
            related=[("this is said here", lack.place)] if lack.place and ctx.has(lack.place) else [],
            fix=removal(ctx.place(there)),
        )


@rule(
    "DSC332",
    effect="altered",
    since="0.19.1",
    source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration",
)
def fp32_optimizer_states_overridden(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params.fp32_optimizer_states` is true beside `bf16_optimizer_states`.

    The CPU Adam then keeps its moments in bfloat16 all the same; DeepSpeed only logs a warning.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"fp32_optimizer_states": true}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true,
        "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true,
        "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}}
    """
    path = "optimizer.params.fp32_optimizer_states"
    states = bf16_place(ctx, _STATES)
    if states and ctx.written(path) is True and device(ctx, OPTIMIZER) != "none":
        yield ctx.at(
            path,
            f"`fp32_optimizer_states` is `true`, but `{states}` overrides it: the moments are in bfloat16",
            help=f"remove it, or set `{states}` to `false`",
            related=[("overridden here", states)],
            fix=removal(ctx.place(path)),
        )
