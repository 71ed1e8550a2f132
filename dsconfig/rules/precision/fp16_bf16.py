"""`fp16` and `bf16`: conflicts, rejected settings, 16-bit master weights and optimizer states."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, RemoveKey, SetValue
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import KeyEquals, KeyMustBeAbsent, SchemaCondition, rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    describe_stage,
    effective_stage,
    enabled_bf16_path,
    normalize_dtype,
    offload_device,
    offload_device_path,
    related_dtype,
    related_stage,
    stage_path,
    training_dtype,
)
from dsconfig.rules._fixes import remove_key
from dsconfig.rules._job_programs import consumer_label

# `fp16`, `bf16` and `torch_autocast`: conflicts, and sections that are not enabled.

_INIT = "runtime/config.py:DeepSpeedConfig._initialize_params"


@rule(
    "DSC301",
    effect="rejected",
    since="0.5.5",
    source=_INIT,
    conditions=(
        SchemaCondition(
            "Config",
            (KeyEquals("fp16.enabled", (True,)), KeyEquals("bf16.enabled", (True,))),
            KeyMustBeAbsent(
                "fp16.enabled", "`fp16` and `bf16` are both enabled, but DeepSpeed accepts only one"
            ),
        ),
    ),
)
def fp16_and_bf16(ctx: Context) -> Iterator[Finding]:
    """`fp16` and `bf16` are both enabled.

    A model trains in one of the two. Up to 0.17.0, DeepSpeed tests the raw values for truth, so an unresolved
    "auto" is treated as true.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "bf16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": false}, "bf16": {"enabled": true}}
    """
    bf16_key = enabled_bf16_path(ctx, "enabled")
    if bf16_key and ctx.is_on("fp16.enabled"):
        section = bf16_key.split(".")[0]
        yield ctx.at(
            "fp16.enabled",
            f"`fp16` and `{section}` are both enabled",
            help=f"set `fp16.enabled` or `{bf16_key}` to `false`: `{section}` needs no loss scaling, `fp16`"
            " runs on older GPUs",
            related=[(f"`{section}` is enabled here", bf16_key)],
            fix=Fix("disable `fp16`", (SetValue(ctx.written_path("fp16.enabled"), False),)),
        )


@rule(
    "DSC302",
    effect="rejected",
    since="0.5.5",
    until="0.7.4",
    source=f"{_INIT}, runtime/engine.py:DeepSpeedEngine._configure_distributed_model",
)
def bf16_at_unsupported_stage(ctx: Context) -> Iterator[Finding]:
    """bf16 is enabled at a ZeRO stage that does not support it yet.

    The first releases with bf16 supported it only at stage 2, and 0.6.0 and 0.6.1 at stages 1 to 3. From
    0.6.3 to 0.7.4, DeepSpeed accepts the config, but without ZeRO the engine raises unless the model is a
    `PipelineModule`. Only the script knows the model, so this is a warning for plain DeepSpeed.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}
    """
    bf16_key = enabled_bf16_path(ctx, "enabled")
    stages = (2,) if ctx.before("0.6.0") else (1, 2, 3)
    engine_checks = ctx.since("0.6.3")
    if engine_checks and (ctx.data.get("pipeline") or ctx.is_on("fp16.enabled")):
        return
    if bf16_key and effective_stage(ctx) not in stages:
        section = bf16_key.split(".")[0]
        needed = "stage 2" if len(stages) == 1 else "stage 1, 2 or 3"
        first_release = (
            "0.7.5" if effective_stage(ctx) == 0 else "0.6.0" if effective_stage(ctx) in (1, 3) else "0.6.3"
        )
        exception = (
            "unless the model is a `PipelineModule`, " if engine_checks and not ctx.uses_plugin else ""
        )
        yield ctx.at(
            bf16_key,
            f"{exception}`{section}` needs ZeRO {needed} in DeepSpeed {ctx.release_name}, but {describe_stage(ctx)}",
            help=f"use ZeRO {needed}, or upgrade DeepSpeed to {first_release} or later",
            effect=("altered" if exception else "crashes") if engine_checks else "rejected",
            related=[("the stage is set here", stage_path(ctx))] if ctx.has("zero_optimization") else [],
        )


_SWITCHED = ("fp16", "bf16", "torch_autocast")


@rule("DSC323", effect="ignored", source="runtime/precision_config.py:DeepSpeedFP16Config")
def precision_section_not_enabled(ctx: Context) -> Iterator[Finding]:
    """A precision section has settings but no `enabled`.

    `fp16`, `bf16` and `torch_autocast` are disabled unless they contain `"enabled": true`. Without it, the
    whole section has no effect. A section with `"enabled": false` was disabled on purpose and is not
    reported.

    Bad:

        {"train_batch_size": 8, "fp16": {"loss_scale": 0, "initial_scale_power": 16}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "loss_scale": 0, "initial_scale_power": 16}}
    """
    for section in _SWITCHED:
        settings = ctx.data.get(section)
        if not isinstance(settings, dict) or not settings or "enabled" in settings:
            continue
        view = ctx.section(section)
        keys = [f"`{key}`" for key in settings if view is not None and key in view.keys]
        if keys:
            yield ctx.at(
                section,
                f"`{section}` has no `enabled`, so it is disabled, and {', '.join(keys)} "
                f"{'has' if len(keys) == 1 else 'have'} no effect",
                help='add `"enabled": true`, or remove the section',
                part="key",
                fix=Fix('add `"enabled": true`', (SetValue((section, "enabled"), True),)),
            ).about_missing(ctx.written_path(f"{section}.enabled"))


@rule(
    "DSC324", effect="crashes", since="0.17.1", source="runtime/engine.py:DeepSpeedEngine._cast_inputs_half"
)
def auto_cast_without_fp16(ctx: Context) -> Iterator[Finding]:
    """`fp16.auto_cast` is true, but `fp16` is not enabled.

    The engine still casts every floating-point input to fp16, and the first layer, whose weights have another
    dtype, fails with "must have the same dtype". It casts only positional arguments, as in `engine(images)`.
    It leaves keyword arguments, as in `engine(pixel_values=images)`, and integers, such as token ids,
    unchanged. Up to 0.17.0, DeepSpeed read `auto_cast` only if `fp16` was enabled.

    Transformers' Trainer passes inputs as keyword arguments (`compute_loss`), as do most loops with Accelerate, so
    `auto_cast` has no effect there. If `enabled` is "auto", they resolve it, and `auto_cast` is useful for runs with
    fp16.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": false, "auto_cast": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "auto_cast": true}}
    """
    path, enabled = "fp16.auto_cast", "fp16.enabled"
    if not ctx.has(path) or not ctx.is_on(path):
        return
    uses_keywords = ctx.consumer in HUGGING_FACE
    if (
        (uses_keywords and ctx.raw(enabled) == "auto")
        or ctx.is_on(enabled)
        or ctx.is_on("torch_autocast.enabled")
    ):
        return
    in_bf16 = any(ctx.raw(f"{section}.enabled") is True for section in ("bf16", "bfloat16"))
    yield ctx.at(
        path,
        "`auto_cast` casts positional inputs to fp16, but `fp16` is not enabled; keyword arguments,"
        f" which {consumer_label(ctx)} uses, are not cast"
        if uses_keywords
        else "`auto_cast` casts positional inputs to fp16, but `fp16` is not enabled, so the layers of the"
        f" {training_dtype(ctx)} model cannot accept them",
        help="remove `auto_cast`" + ("" if in_bf16 else f", or set `{enabled}` to `true`"),
        effect="ignored" if uses_keywords else None,
        fix=remove_key(ctx.written_path(path)),
    )


@rule("DSC311", effect="ignored", since="0.6.0", source="runtime/precision_config.py:get_bfloat16_config")
def bfloat16_beside_bf16(ctx: Context) -> Iterator[Finding]:
    """`bfloat16` is set together with `bf16`, its new name.

    DeepSpeed reads `bfloat16` only if the config has no `bf16`.

    Bad:

        {"train_batch_size": 8, "bf16": {"enabled": false}, "bfloat16": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "bf16": {"enabled": true}}
    """
    new = ctx.data.get("bf16")
    if "bfloat16" in ctx.data and "bf16" in ctx.data and (new is not None or ctx.before("0.17.1")):
        yield ctx.at(
            "bfloat16",
            "`bfloat16`, the old name of `bf16`, has no effect: `bf16` is set too, and DeepSpeed reads only that",
            help="remove `bfloat16`",
            part="key",
            related=[("`bf16` is set here", "bf16")],
            fix=remove_key(("bfloat16",), safe=True),
        )


# Errors of the precision sections while DeepSpeed loads the config.

_SANITY = "runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check"
_ACCUMULATION = "data_types.grad_accum_dtype"


@rule("DSC309", effect="rejected", until="0.19.7", source="runtime/config.py:get_amp_params")
def amp_without_enabled(ctx: Context) -> Iterator[Finding]:
    """The `amp` section has no `enabled`.

    DeepSpeed removes that key before it passes the section to Apex, and raises if the key is absent.

    Bad:

        {"train_batch_size": 8, "amp": {"opt_level": "O1"}}

    Good:

        {"train_batch_size": 8, "amp": {"enabled": true, "opt_level": "O1"}}
    """
    if isinstance(ctx.raw("amp"), dict) and not ctx.has("amp.enabled"):
        yield ctx.at(
            "amp",
            "`amp` has no `enabled`, which DeepSpeed requires",
            help='add `"enabled": true` or `false`, or remove the section',
            part="key",
        )


@rule("DSC360", effect="crashes", since="0.3.0", until="0.19.7", source=_SANITY)
def amp_with_partner(ctx: Context) -> Iterator[Finding]:
    """`amp` is enabled together with ZeRO, `fp16`, `bf16`, or another accumulation dtype.

    Apex casts the model and its optimizer itself. Engine initialization fails with "Amp and ZeRO are not
    currently compatible" or "Cannot enable both amp".

    Bad, release 0.19.5:

        {"train_batch_size": 8, "amp": {"enabled": true}, "zero_optimization": {"stage": 1}}

    Good, release 0.19.5:

        {"train_batch_size": 8, "amp": {"enabled": true}}
    """
    if not isinstance(ctx.data.get("amp"), dict) or not ctx.is_on("amp.enabled"):
        return
    dtype = training_dtype(ctx)
    partner = "ZeRO" if effective_stage(ctx) > 0 else f"`{dtype}`" if dtype != "fp32" else None
    related = related_stage(ctx) if effective_stage(ctx) > 0 else related_dtype(ctx)
    if partner is None and ctx.has(_ACCUMULATION):
        accumulation = normalize_dtype(ctx.value(_ACCUMULATION))
        if accumulation not in (None, "fp32") and ctx.since("0.7.6"):
            partner = f'`grad_accum_dtype` "{accumulation}"'
            related = [("the accumulation dtype is set here", _ACCUMULATION)]
    if partner is None:
        return
    yield ctx.at(
        "amp.enabled",
        f"`amp` does not work with {partner}, but both are enabled",
        help="remove `amp`: `fp16` and `bf16` have none of these limits, and DeepSpeed 0.19.8 removed `amp`",
        related=related,
        fix=remove_key(("amp",)),
    )


# Requirements of 16-bit master weights and optimizer states.

_CHECK = "runtime/config.py:DeepSpeedConfig._do_error_check"
_CONFIGURE = "runtime/base_optimizer.py:ZeROOptimizer._configure_master_weights"
_FP16 = "fp16.fp16_master_weights_and_grads"
_BF16 = "bf16_master_weights_and_grads"


class _HalfPrecisionKey(NamedTuple):
    """A key that keeps master weights or optimizer states in 16 bits."""

    section: str
    key: str
    since: str


_HALF_PRECISION_KEYS = (
    _HalfPrecisionKey("fp16", "fp16_master_weights_and_grads", "0.5.0"),
    _HalfPrecisionKey("bf16", "bf16_master_weights_and_grads", "0.18.3"),
    _HalfPrecisionKey("bf16", "bf16_optimizer_states", "0.18.3"),
)


@rule("DSC307", effect="rejected", since="0.5.0", source=_CHECK)
def half_precision_master_weights_without_zero(ctx: Context) -> Iterator[Finding]:
    """16-bit master weights or optimizer states are enabled at a ZeRO stage that does not support them.

    Up to 0.18.2, only stage 2 supports them; since then, stages 1 to 3 do. Since 0.17.1, DeepSpeed checks
    this even if the section is not enabled.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "fp16_master_weights_and_grads": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "fp16_master_weights_and_grads": true},
        "zero_optimization": {"stage": 2}}
    """
    stages = (1, 2, 3) if ctx.since("0.18.3") else (2,)
    for row in _HALF_PRECISION_KEYS:
        if ctx.before(row.since) or effective_stage(ctx) in stages:
            continue
        path = f"fp16.{row.key}" if row.section == "fp16" and ctx.is_on(f"fp16.{row.key}") else None
        if row.section == "bf16":
            path = enabled_bf16_path(ctx, row.key)
        if path and (ctx.since("0.17.1") or ctx.is_on("fp16.enabled")):
            needed = "stage 2" if len(stages) == 1 else "stage 1, 2 or 3"
            yield ctx.at(
                path,
                f"`{path}` needs ZeRO {needed}, but {describe_stage(ctx)}",
                help=f"use ZeRO {needed}, or remove `{row.key}`",
                related=[("the stage is set here", stage_path(ctx))] if ctx.has("zero_optimization") else [],
                fix=remove_key(ctx.written_path(path)),
            )


@rule("DSC308", effect="rejected", since="0.18.3", source=_CHECK)
def bf16_optimizer_states_without_master_weights(ctx: Context) -> Iterator[Finding]:
    """`bf16_optimizer_states` is true without `bf16_master_weights_and_grads`.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true,
        "bf16_optimizer_states": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true,
        "bf16_optimizer_states": true, "bf16_master_weights_and_grads": true}}
    """
    path = enabled_bf16_path(ctx, "bf16_optimizer_states")
    if path and not enabled_bf16_path(ctx, "bf16_master_weights_and_grads"):
        yield ctx.at(
            path,
            f"`{path}` is `true`, but `bf16_master_weights_and_grads` is not",
            help="set `bf16_master_weights_and_grads` to `true`, or remove `bf16_optimizer_states`",
            fix=Fix(
                "set `bf16_master_weights_and_grads` to `true`",
                (SetValue((*ctx.written_path(path)[:-1], "bf16_master_weights_and_grads"), True),),
            ),
        )


@rule("DSC331", effect="crashes", since="0.18.3", source=_CONFIGURE)
def master_weights_in_two_formats(ctx: Context) -> Iterator[Finding]:
    """Master weights are enabled in both fp16 and bf16.

    DeepSpeed checks both keys even if their sections are not enabled, and raises because they are "mutually
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
    bf16_key = enabled_bf16_path(ctx, _BF16)
    if bf16_key and ctx.has("fp16") and ctx.is_on(_FP16) and effective_stage(ctx) in (1, 2, 3):
        unused = bf16_key if ctx.is_on("fp16.enabled") else _FP16
        yield ctx.at(
            unused,
            f"`{_FP16}` and `{bf16_key}` are mutually exclusive, but both are `true`",
            help=f"remove `{unused}`",
            related=[("the other key is set here", _FP16 if unused == bf16_key else bf16_key)],
            fix=Fix(f"remove `{unused}`", (RemoveKey(ctx.written_path(unused)),)),
        )


# 16-bit master weights and DeepSpeedCPUAdam.

_STATES = "bf16_optimizer_states"
_CPU_ADAM = ("adam", "adamw")


class _CpuAdamObstacle(NamedTuple):
    """The reason why DeepSpeed does not use its CPU Adam, the key responsible for it, and the remedy."""

    description: str
    path: str | None
    remedy: str


def _master_weights_key(ctx: Context) -> str | None:
    """Return the key that enables 16-bit master weights if they require DeepSpeedCPUAdam, else None."""
    if ctx.has("fp16") and ctx.is_on(_FP16) and (ctx.since("0.17.1") or ctx.is_on("fp16.enabled")):
        return _FP16
    bf16_key = enabled_bf16_path(ctx, _BF16) if ctx.since("0.18.3") else None
    if bf16_key is None or not enabled_bf16_path(ctx, _STATES):
        return bf16_key
    # With bf16 states, everything may stay on the GPU. Since 0.19.1 the engine checks them if offloaded.
    return None if _may_stay_on_gpu(ctx) else bf16_key


def _may_stay_on_gpu(ctx: Context) -> bool:
    """Return whether bf16 optimizer states make DeepSpeedCPUAdam unnecessary."""
    return ctx.before("0.19.1") or offload_device(ctx, OPTIMIZER) == "none"


def _cpu_adam_obstacles(ctx: Context) -> Iterator[_CpuAdamObstacle]:
    if offload_device(ctx, OPTIMIZER) == "none":
        yield _CpuAdamObstacle(
            "the optimizer is not offloaded",
            offload_device_path(ctx, OPTIMIZER),
            f'set `{OPTIMIZER}.device` to `"cpu"`',
        )
    name = ctx.raw("optimizer.type")
    if not isinstance(name, str):  # the script may pass a DeepSpeedCPUAdam to `deepspeed.initialize`
        return
    if name.lower() not in _CPU_ADAM:
        remedy = 'set `optimizer.type` to `"AdamW"`'
        yield _CpuAdamObstacle(f"the optimizer is {quote_value(name)}", "optimizer.type", remedy)
    torch_adam = ctx.raw("optimizer.params.torch_adam")
    if torch_adam is not MISSING and torch_adam:
        path = "optimizer.params.torch_adam"
        yield _CpuAdamObstacle(f"`torch_adam` is {quote_value(torch_adam)}", path, f"remove `{path}`")


@rule("DSC330", effect="crashes", since="0.5.0", source=_CONFIGURE)
def half_precision_master_weights_without_cpu_adam(ctx: Context) -> Iterator[Finding]:
    """Master weights are kept in 16 bits, but the optimizer is not DeepSpeedCPUAdam.

    Only `DeepSpeedCPUAdam` keeps master weights in 16 bits. It is built for `Adam` or `AdamW` if the
    optimizer is offloaded. For bf16 there is an alternative: with `bf16_optimizer_states`, the optimizer
    states are in bf16 too, and everything may stay on the GPU. Engine initialization fails with "Master
    weights feature requires", even if the section is not enabled.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 2},
        "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 2},
        "bf16": {"enabled": true, "bf16_master_weights_and_grads": true, "bf16_optimizer_states": true}}
    """
    path = _master_weights_key(ctx)
    if path is None or effective_stage(ctx) not in (1, 2, 3):
        return
    obstacles = list(_cpu_adam_obstacles(ctx))
    if obstacles:
        first = obstacles[0]
        is_bf16 = path.rpartition(".")[2] == _BF16
        states_help = is_bf16 and not enabled_bf16_path(ctx, _STATES) and _may_stay_on_gpu(ctx)
        yield ctx.at(
            path,
            f"`{path}` needs DeepSpeed's CPU Adam, but {first.description}",
            help=", and ".join(each.remedy for each in obstacles)
            + (f", or set `{_STATES}` to `true`" if states_help else ""),
            related=[("this is set here", first.path)] if first.path and ctx.has(first.path) else [],
            fix=remove_key(ctx.written_path(path)),
        )


@rule(
    "DSC332",
    effect="altered",
    since="0.19.1",
    source="runtime/engine.py:DeepSpeedEngine.get_optimizer_configuration",
)
def fp32_optimizer_states_overridden(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params.fp32_optimizer_states` is overridden by `bf16_optimizer_states`.

    DeepSpeedCPUAdam then keeps its states in bf16. DeepSpeed only logs a warning.

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
    states = enabled_bf16_path(ctx, _STATES)
    if states and ctx.raw(path) is True and offload_device(ctx, OPTIMIZER) != "none":
        yield ctx.at(
            path,
            f"`fp32_optimizer_states` is `true`, but `{states}` overrides it: the optimizer states are in"
            " bf16",
            help=f"remove it, or set `{states}` to `false`",
            related=[("overridden here", states)],
            fix=remove_key(ctx.written_path(path)),
        )
