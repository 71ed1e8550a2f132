"""Offloading and SuperOffload: the ZeRO stage, device and optimizer that they require."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.json_types import NamedTuple
from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.evaluation.rule import (
    EffectiveValueIs,
    KeyEquals,
    KeyIsBelow,
    KeyIsRequired,
    KeyMustBeAbsent,
    SchemaCondition,
    rule,
)
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._built_class import is_known_class_name, supported_types
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    PARAM,
    ZERO,
    describe_device,
    describe_stage,
    effective_stage,
    offload_device,
    offload_device_path,
    offload_keys,
    related_stage,
    stage_path,
)
from dsconfig.rules._fixes import differs_from_default, remove_key

# Offloading that the ZeRO stage does not support, or handles differently.

_WRAP = "runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer"


@rule(
    "DSC422",
    effect="rejected",
    since="0.15.0",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.offload_ratio_check",
    conditions=(
        SchemaCondition(
            "ZeroOptimization",
            (EffectiveValueIs("stage", (0, 1, 2)), KeyIsBelow("offload_optimizer.ratio", 1)),
            KeyMustBeAbsent("offload_optimizer.ratio", "a `ratio` below 1 needs ZeRO stage 3"),
        ),
    ),
)
def partial_offload_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`offload_optimizer.ratio` is below 1, but the stage is not 3.

    Only stage 3 can keep part of the optimizer on the GPU. DeepSpeed rejects the config even if the device is
    "none". From 0.12.3 to 0.14.5 the ratio had no effect at other stages.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu",
        "ratio": 0.5}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
        "ratio": 0.5}}}
    """
    path = "zero_optimization.offload_optimizer.ratio"
    if ctx.has(path) and ctx.value(path) < 1 and effective_stage(ctx) != 3:
        yield ctx.at(
            path,
            f"`ratio` is {quote_value(ctx.raw(path))}, but partial offload needs ZeRO stage 3, and"
            f" {describe_stage(ctx)}",
            help="use stage 3, or remove `ratio` to offload the whole optimizer",
            related=[("the stage is set here", stage_path(ctx))],
            fix=remove_key(ctx.written_path(path)),
        )


@rule("DSC423", effect="rejected", until="0.3.10", source="runtime/config.py:DeepSpeedConfig._do_error_check")
def cpu_offload_outside_stage_2(ctx: Context) -> Iterator[Finding]:
    """`cpu_offload` is true, but the stage is not 2.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 1, "cpu_offload": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 2, "cpu_offload": true}}
    """
    path = "zero_optimization.cpu_offload"
    if ctx.value(path) is True and effective_stage(ctx) > 0 and effective_stage(ctx) != 2:
        yield ctx.at(
            path,
            f"`cpu_offload` works only at stage 2, but {describe_stage(ctx)}",
            help="use stage 2, or remove `cpu_offload`",
            related=[("the stage is set here", stage_path(ctx))],
        )


@rule(
    "DSC432",
    effect="ignored",
    source=_WRAP,
    conditions=(
        SchemaCondition(
            "ZeroOptimization",
            (KeyEquals("stage", (0, 1, 2)), KeyEquals("offload_param.device", ("cpu", "nvme"))),
            KeyMustBeAbsent(
                "offload_param", "`offload_param` has no effect: only stage 3 offloads parameters"
            ),
        ),
    ),
)
def parameter_offload_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`offload_param` is set, but the stage is below 3.

    Below stage 3, every rank keeps all parameters on the GPU, and DeepSpeed ignores the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    if not isinstance(ctx.value(ZERO), dict) or not ctx.has(f"{ZERO}.stage") or effective_stage(ctx) >= 3:
        return
    target = offload_device(ctx, PARAM)
    if target != "none":
        place = PARAM if ctx.has(PARAM) else offload_device_path(ctx, PARAM)
        yield ctx.at(
            place,
            f"`{ctx.written_path(place)[-1]}` has no effect: only stage 3 offloads parameters, and"
            f" {describe_stage(ctx)}",
            # Before 0.6.6, stage 3 also requires the optimizer to be offloaded (DSC419).
            help="remove it"
            if ctx.before("0.6.6") and not offload_keys(ctx, OPTIMIZER)
            else "use stage 3, or remove it",
            part="key",
            related=related_stage(ctx),
            fix=remove_key(ctx.written_path(place)),
        )


@rule(
    "DSC460",
    effect="ignored",
    source="ops/adam/cpu_adam.py:DeepSpeedCPUAdam.step",
    conditions=(
        SchemaCondition(
            "ZeroOptimization",
            (KeyEquals("stage", (0,)), KeyEquals("offload_optimizer.device", ("cpu", "nvme"))),
            KeyMustBeAbsent(
                "offload_optimizer", "nothing is offloaded at stage 0, and the CPU optimizer fails on a GPU"
            ),
        ),
    ),
)
def optimizer_offload_without_zero(ctx: Context) -> Iterator[Finding]:
    """`offload_optimizer` is set, but ZeRO is off.

    DeepSpeed still selects its CPU optimizer, but nothing moves parameters or gradients to the CPU. On a GPU,
    the first step fails with "CPUAdam param is on cuda:0 and must be 'cpu'".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 0}}
    """
    if not isinstance(ctx.value(ZERO), dict) or not ctx.has(f"{ZERO}.stage") or effective_stage(ctx) > 0:
        return
    if (target := offload_device(ctx, OPTIMIZER)) != "none":
        place = OPTIMIZER if ctx.has(OPTIMIZER) else offload_device_path(ctx, OPTIMIZER)
        key = ctx.written_path(place)[-1]
        yield ctx.at(
            place,
            f"`{key}` offloads the optimizer to {describe_device(target)}, but stage 0 offloads nothing: DeepSpeed"
            " still uses its CPU optimizer, which fails on GPU tensors",
            help="use stage 1, 2 or 3, or remove it",
            part="key",
            related=related_stage(ctx),
            fix=remove_key(ctx.written_path(place)),
        )


@rule(
    "DSC461",
    effect="altered",
    since="0.7.0",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__",
)
def nvme_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`offload_optimizer` uses NVMe at stage 1 or 2.

    These stages only check whether the device is "none". Optimizer states go to host memory, and the NVMe
    drive stays unused.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme",
        "nvme_path": "/nvme"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme",
        "nvme_path": "/nvme"}}}
    """
    if ctx.has(OPTIMIZER) and offload_device(ctx, OPTIMIZER) == "nvme" and effective_stage(ctx) in (1, 2):
        path = f"{OPTIMIZER}.device"
        yield ctx.at(
            path,
            f'`{path}` is `"nvme"`, but is treated as `"cpu"`: only stage 3 offloads to NVMe, and'
            f" {describe_stage(ctx)}",
            help='use stage 3, or set it to `"cpu"`',
            related=related_stage(ctx),
            fix=Fix('replace with `"cpu"`', (SetValue(ctx.written_path(path), "cpu"),)),
        )


@rule(
    "DSC419",
    effect="crashes",
    since="0.3.12",
    until="0.6.5",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__, _configure_offloading",
)
def parameter_offload_alone(ctx: Context) -> Iterator[Finding]:
    """Parameters are offloaded without the optimizer, which stage 3 rejects before 0.6.6.

    DeepSpeed accepts the config, but engine initialization fails with "parameter offload is only available
    with optimizer state offload".

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}}}
    """
    if effective_stage(ctx) != 3 or offload_device(ctx, PARAM) == "none" or offload_keys(ctx, OPTIMIZER):
        return
    if ctx.before("0.3.15"):
        setting, operation = f"`{ZERO}.cpu_offload` to `true`", SetValue((ZERO, "cpu_offload"), True)
    else:
        setting = f'`{OPTIMIZER}.device` to `"cpu"`'
        operation = SetValue((ZERO, "offload_optimizer"), {"device": "cpu"})
    yield ctx.at(
        offload_device_path(ctx, PARAM),
        "parameters are offloaded but the optimizer is not, which stage 3 does not support in DeepSpeed"
        f" {ctx.release_name}",
        help=f"set {setting}, or upgrade DeepSpeed to 0.6.6 or later",
        related=related_stage(ctx),
        fix=Fix("offload the optimizer too", (operation,)),
    )


# Offload sections without `device`.

_CONFIG = "runtime/zero/offload_config.py"


@rule(
    "DSC421",
    effect="rejected",
    since="0.5.7",
    until="0.6.7",
    source=f"{_CONFIG}:get_offload_param_config",
)
def offload_without_device(ctx: Context) -> Iterator[Finding]:
    """An offload section has no `device`.

    Earlier releases default to "cpu" and later ones to "none". These releases reject the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"pin_memory": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu",
        "pin_memory": true}}}
    """
    for path in (PARAM, OPTIMIZER):
        section = ctx.value(path)
        if isinstance(section, dict) and "device" not in section:
            yield _report_missing_device(ctx, path, f"which DeepSpeed {ctx.release_name} requires")


def _report_missing_device(ctx: Context, section: str, consequence: str) -> Finding:
    return ctx.at(
        section,
        f"`{section.rpartition('.')[2]}` has no `device`, {consequence}",
        help='add `"device": "cpu"`, add `"device": "nvme"` and `nvme_path`, or remove the section',
        part="key",
        fix=Fix('add `"device": "cpu"`', (SetValue((*ctx.written_path(section), "device"), "cpu"),)),
    ).about_missing(ctx.written_path(f"{section}.device"))


@rule(
    "DSC463",
    effect="ignored",
    since="0.7.0",
    source=_CONFIG,
    conditions=tuple(
        SchemaCondition(section, (), KeyIsRequired("device"))
        for section in ("OffloadParam", "OffloadOptimizer")
    ),
)
def device_left_out(ctx: Context) -> Iterator[Finding]:
    """An offload section has no `device`, and the default is "none".

    Nothing is offloaded, whatever else the section contains. The first releases defaulted to "cpu".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"pin_memory": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu",
        "pin_memory": true}}}
    """
    for section in (PARAM, OPTIMIZER):
        if isinstance(ctx.value(section), dict) and not ctx.has(f"{section}.device"):
            yield _report_missing_device(ctx, section, 'and the default is `"none"`: nothing is offloaded')


# Optimizers for offloading and partial offloading.


def _optimizer_type(ctx: Context) -> str:
    """Return the optimizer type in lower case, or an empty string if the config names none."""
    name = ctx.value("optimizer.type")
    return name.lower() if isinstance(name, str) else ""


def _uses_torch_adam(ctx: Context) -> bool:
    """Return whether `torch_adam` selects PyTorch's Adam."""
    params = ctx.raw("optimizer.params")
    return isinstance(params, dict) and bool(params.get("torch_adam"))


@rule(
    "DSC466",
    effect="crashes",
    since="0.12.3",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__",
)
def partial_offload_without_cpu_adam(ctx: Context) -> Iterator[Finding]:
    """`offload_optimizer.ratio` is below 1, but the optimizer is not DeepSpeedCPUAdam.

    Only DeepSpeedCPUAdam has a counterpart for the part that stays on the GPU. Other optimizers fail with
    "Hybrid Optimizer Only Supports DeepSpeedCPUAdam". DeepSpeed uses it for `Adam` and `AdamW` without
    `torch_adam`, unless ZenFlow is enabled.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "Adagrad"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu"}}}
    """
    path = f"{OPTIMIZER}.ratio"
    if not ctx.has(path) or ctx.value(path) == 1 or not _optimizer_type(ctx):
        return
    if (
        effective_stage(ctx) == 3
        and offload_device(ctx, OPTIMIZER) != "none"
        and (other := _optimizer_other_than_cpu_adam(ctx))
    ):
        yield ctx.at(
            path,
            f"`ratio` is {quote_value(ctx.raw(path))}, but partial offload needs DeepSpeed's CPU Adam,"
            f" and {other.description}",
            help=f"{other.remedy}remove `ratio` to offload the whole optimizer",
            related=[("the optimizer is set here", "optimizer.type")],
            fix=remove_key(ctx.written_path(path)),
        )


class _OptimizerInsteadOfCpuAdam(NamedTuple):
    """The optimizer that is used instead of DeepSpeed's CPU Adam, and how to change that."""

    description: str
    remedy: str = ""


def _optimizer_other_than_cpu_adam(ctx: Context) -> _OptimizerInsteadOfCpuAdam | None:
    if _optimizer_type(ctx) not in ("adam", "adamw"):
        name = ctx.value("optimizer.type")
        return _OptimizerInsteadOfCpuAdam(
            f"the optimizer is `{name}`", 'set `optimizer.type` to `"AdamW"`, or '
        )
    if _uses_torch_adam(ctx):
        return _OptimizerInsteadOfCpuAdam(
            "`torch_adam` selects PyTorch's", "remove `optimizer.params.torch_adam`, or "
        )
    return (
        _OptimizerInsteadOfCpuAdam("ZenFlow uses its own")
        if ctx.value(f"{ZERO}.zenflow") is not None
        else None
    )


def _cpu_optimizers(ctx: Context) -> list[str]:
    """Return the optimizers that DeepSpeed implements for the CPU."""
    return [name for name in supported_types(ctx, "Optimizer") if name in ("AdamW", "Adagrad", "Lion")]


_DEEPSPEED_OPTIMIZERS = frozenset(
    {
        "adam",
        "adamw",
        "adagrad",
        "lion",
        "lamb",
        "onebitadam",
        "onebitlamb",
        "zerooneadam",
        "muadam",
        "muadamw",
        "musgd",
        "muon",
    }
)


@rule(
    "DSC469",
    effect="wasteful",
    since="0.3.15",
    source="runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer",
)
def offload_to_torch_optimizer(ctx: Context) -> Iterator[Finding]:
    """The optimizer is offloaded, but PyTorch's implementation runs on the CPU.

    DeepSpeed has fast CPU implementations of `Adam` and `AdamW` (without `torch_adam`), `Adagrad` and `Lion`.
    Other optimizers update the offloaded state with PyTorch's generic code, which takes many times as long.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"torch_adam": true}},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    kind = _optimizer_type(ctx)
    if not kind or offload_device(ctx, OPTIMIZER) == "none" or effective_stage(ctx) < 1:
        return
    if not is_known_class_name(
        "Optimizer", ctx.value("optimizer.type")
    ):  # DeepSpeed builds no optimizer: DSC504
        return
    torch_adam = kind in ("adam", "adamw") and _uses_torch_adam(ctx)
    if torch_adam or kind not in _DEEPSPEED_OPTIMIZERS:
        name = ctx.value("optimizer.type")
        reason = (
            f"`torch_adam` selects PyTorch's `{name}`"
            if torch_adam
            else f"DeepSpeed has no `{name}` for the CPU, so PyTorch's is used"
        )
        yield ctx.at(
            ("optimizer", "params", "torch_adam") if torch_adam else "optimizer.type",
            f"the optimizer is offloaded, and {reason}: it is far slower there than DeepSpeed's CPU"
            " optimizers",
            help="remove `torch_adam`" if torch_adam else f"use {join_alternatives(_cpu_optimizers(ctx))}",
            related=[("the optimizer is offloaded here", offload_device_path(ctx, OPTIMIZER))],
            fix=remove_key(("optimizer", "params", "torch_adam")) if torch_adam else None,
        )


# SuperOffload: required stage and optimizer.

_SUPER = f"{OPTIMIZER}.super_offload"


@rule(
    "DSC467",
    effect="ignored",
    since="0.18.0",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer",
)
def super_offload_out_of_use(ctx: Context) -> Iterator[Finding]:
    """`super_offload` is set below stage 3, or `cpuadam_cores_perc` is set without `super_offload`.

    SuperOffload is an optimizer of stage 3, and the only one that uses `cpuadam_cores_perc`.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu",
        "super_offload": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
        "super_offload": true, "cpuadam_cores_perc": 0.9}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    cores_path = f"{OPTIMIZER}.cpuadam_cores_perc"
    is_requested = ctx.has(_SUPER) and ctx.is_on(_SUPER)
    if is_requested and effective_stage(ctx) < 3:
        yield ctx.at(
            _SUPER,
            f"`super_offload` has no effect: it works only at stage 3, and {describe_stage(ctx)}",
            help="use stage 3, or remove it",
            related=related_stage(ctx),
            fix=remove_key(ctx.written_path(_SUPER)),
        )
    elif not is_requested and differs_from_default(ctx, cores_path):
        yield ctx.at(
            cores_path,
            "`cpuadam_cores_perc` has no effect: only `super_offload` uses it",
            help='remove it, or add `"super_offload": true`',
            fix=remove_key(ctx.written_path(cores_path)),
        )


_MISSING_GROUP_KEY = {
    "adagrad": "betas",
    "lamb": "amsgrad",
    "lion": "eps",
    "rmsprop": "betas",
    "sgd": "betas",
}
"""Optimizers whose parameter groups lack a key that Adam has, and that key."""


@rule(
    "DSC468",
    effect="crashes",
    since="0.18.0",
    source="runtime/superoffload/superoffload_stage3.py:SuperOffloadOptimizer_Stage3.__init__",
)
def super_offload_without_adam(ctx: Context) -> Iterator[Finding]:
    """`super_offload` is enabled at stage 3, but the optimizer is not Adam.

    SuperOffload runs its own Adam and reads `betas`, `eps` and `amsgrad` from the configured optimizer,
    whatever its type. If one is missing, engine initialization fails with a KeyError.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Lion"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "super_offload": true}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "super_offload": true}}}
    """
    if not ctx.has(_SUPER) or not ctx.is_on(_SUPER):
        return
    missing = _MISSING_GROUP_KEY.get(_optimizer_type(ctx))
    if missing and effective_stage(ctx) == 3:
        yield ctx.at(
            _SUPER,
            f"`super_offload` reads `{missing}` from the optimizer, but `{ctx.value('optimizer.type')}` has"
            " none",
            help='set `optimizer.type` to `"AdamW"`, or remove `super_offload`',
            related=[("the optimizer is set here", "optimizer.type")],
            fix=remove_key(ctx.written_path(_SUPER)),
        )
