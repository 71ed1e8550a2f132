"""`fp16`, `bf16` and `torch_autocast`: which exclude each other, which are on."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.consumers import HUGGING_FACE
from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import kind
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.schema_condition import Absent, Condition, Is
from dsconfig.rules._dtypes import bf16_place, model_format
from dsconfig.rules._fixes import removal
from dsconfig.rules._stage import stage, stage_place, stage_words
from dsconfig.rules.consumers._reader import reader

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
            related=[("the stage is set here", stage_place(ctx))] if ctx.has("zero_optimization") else [],
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
        f"name, as {reader(ctx)} gives them, stay as they are"
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
