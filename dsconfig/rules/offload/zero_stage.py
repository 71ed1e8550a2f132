"""Offloading that the stage at hand does not do, or does otherwise."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.schema_condition import Absent, Condition, Counts, Is, Less
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, PARAM, asked_for, device, device_place
from dsconfig.rules._stage import ZERO, stage, stage_place, stage_set_here, stage_words

_WRAP = "runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer"


@rule(
    "DSC422",
    effect="rejected",
    since="0.15.0",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.offload_ratio_check",
    conditions=(
        Condition(
            "ZeroOptimization",
            (Counts("stage", (0, 1, 2)), Less("offload_optimizer.ratio", 1)),
            Absent("offload_optimizer.ratio", "a `ratio` below 1 needs ZeRO stage 3"),
        ),
    ),
)
def partial_offload_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`offload_optimizer.ratio` is below 1, and the stage is not 3.

    Only stage 3 can leave part of the optimizer on the GPU. DeepSpeed refuses the file even where the device
    is "none". From 0.12.3 to 0.14.5 the ratio had no effect at the other stages.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu",
        "ratio": 0.5}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
        "ratio": 0.5}}}
    """
    path = "zero_optimization.offload_optimizer.ratio"
    if ctx.has(path) and ctx.value(path) < 1 and stage(ctx) != 3:
        yield ctx.at(
            path,
            f"`ratio` is {quoted(ctx.written(path))}, but partial offload needs ZeRO stage 3, and"
            f" {stage_words(ctx)}",
            help="use stage 3, or remove `ratio` to offload all of the optimizer",
            related=[("the stage is set here", stage_place(ctx))],
            fix=removal(ctx.place(path)),
        )


@rule("DSC423", effect="rejected", until="0.3.10", source="runtime/config.py:DeepSpeedConfig._do_error_check")
def cpu_offload_outside_stage_2(ctx: Context) -> Iterator[Finding]:
    """`cpu_offload` is true, and the stage is not 2.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 1, "cpu_offload": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 2, "cpu_offload": true}}
    """
    path = "zero_optimization.cpu_offload"
    if ctx.value(path) is True and stage(ctx) > 0 and stage(ctx) != 2:
        yield ctx.at(
            path,
            f"`cpu_offload` works at stage 2 alone, but {stage_words(ctx)}",
            help="use stage 2, or remove `cpu_offload`",
            related=[("the stage is set here", stage_place(ctx))],
        )


@rule(
    "DSC432",
    effect="ignored",
    source=_WRAP,
    conditions=(
        Condition(
            "ZeroOptimization",
            (Is("stage", (0, 1, 2)), Is("offload_param.device", ("cpu", "nvme"))),
            Absent("offload_param", "`offload_param` has no effect: only stage 3 offloads parameters"),
        ),
    ),
)
def parameter_offload_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`offload_param` moves parameters off the GPU, and the stage is below 3.

    Below stage 3 every rank holds all parameters, and nothing looks at the section: they stay on the GPU.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    if not isinstance(ctx.value(ZERO), dict) or not ctx.has(f"{ZERO}.stage"):
        return
    home = device(ctx, PARAM)
    if home != "none" and stage(ctx) < 3:
        place = PARAM if ctx.has(PARAM) else device_place(ctx, PARAM)
        yield ctx.at(
            place,
            f"`{ctx.place(place)[-1]}` has no effect: only stage 3 offloads parameters, and"
            f" {stage_words(ctx)}",
            # Before 0.6.6 stage 3 wants the optimizer offloaded too (DSC419).
            help="remove it"
            if ctx.before("0.6.6") and not asked_for(ctx, OPTIMIZER)
            else "use stage 3, or remove it",
            part="key",
            related=stage_set_here(ctx),
            fix=removal(ctx.place(place)),
        )


@rule(
    "DSC460",
    effect="ignored",
    source="ops/adam/cpu_adam.py:DeepSpeedCPUAdam.step",
    conditions=(
        Condition(
            "ZeroOptimization",
            (Is("stage", (0,)), Is("offload_optimizer.device", ("cpu", "nvme"))),
            Absent(
                "offload_optimizer", "nothing is offloaded at stage 0, and the CPU optimizer fails on a GPU"
            ),
        ),
    ),
)
def optimizer_offload_without_zero(ctx: Context) -> Iterator[Finding]:
    """`offload_optimizer` moves optimizer state off the GPU, and ZeRO is off.

    DeepSpeed picks its CPU optimizer all the same, and nothing moves parameters or gradients to it. On a GPU
    its first step then fails: "CPUAdam param is on cuda:0 and must be 'cpu'".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 0, "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1, "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 0}}
    """
    if not isinstance(ctx.value(ZERO), dict) or not ctx.has(f"{ZERO}.stage") or stage(ctx) > 0:
        return
    if (home := device(ctx, OPTIMIZER)) != "none":
        place = OPTIMIZER if ctx.has(OPTIMIZER) else device_place(ctx, OPTIMIZER)
        word = ctx.place(place)[-1]
        yield ctx.at(
            place,
            f"`{word}` asks for {home} and nothing is offloaded at stage 0; DeepSpeed still takes its CPU"
            " optimizer, which fails on tensors of a GPU",
            help="use stage 1, 2 or 3, or remove it",
            part="key",
            related=stage_set_here(ctx),
            fix=removal(ctx.place(place)),
        )


@rule(
    "DSC461",
    effect="altered",
    since="0.7.0",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__",
)
def nvme_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """`offload_optimizer` names NVMe at stage 1 or 2.

    These stages tell only "none" from the rest: the state goes to host memory, and the NVMe drive stays
    unused.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "nvme",
        "nvme_path": "/nvme"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme",
        "nvme_path": "/nvme"}}}
    """
    if ctx.has(OPTIMIZER) and device(ctx, OPTIMIZER) == "nvme" and stage(ctx) in (1, 2):
        path = f"{OPTIMIZER}.device"
        yield ctx.at(
            path,
            f'`{path}` is `"nvme"` and counts as `"cpu"`: only stage 3 offloads to NVMe, and'
            f" {stage_words(ctx)}",
            help='use stage 3, or write `"cpu"`',
            related=stage_set_here(ctx),
            fix=Fix('replace by `"cpu"`', (Set(ctx.place(path), "cpu"),)),
        )


@rule(
    "DSC419",
    effect="crashes",
    since="0.3.12",
    until="0.6.5",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__, _configure_offloading",
)
def parameter_offload_alone(ctx: Context) -> Iterator[Finding]:
    """Parameters are offloaded, and the optimizer is not, which stage 3 refuses before 0.6.6.

    The config is accepted, and the engine stops: "parameter offload is only available with optimizer state
    offload".

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true}, "zero_optimization": {"stage": 3,
        "offload_param": {"device": "cpu"}, "offload_optimizer": {"device": "cpu"}}}
    """
    if stage(ctx) != 3 or device(ctx, PARAM) == "none" or asked_for(ctx, OPTIMIZER):
        return
    if ctx.before("0.3.15"):
        added, fix = f"`{ZERO}.cpu_offload` to `true`", Set((ZERO, "cpu_offload"), True)
    else:
        added = f'`{OPTIMIZER}.device` to `"cpu"`'
        fix = Set((ZERO, "offload_optimizer"), {"device": "cpu"})
    yield ctx.at(
        device_place(ctx, PARAM),
        "parameters are offloaded and the optimizer is not, which stage 3 takes from 0.6.6 on, not in"
        f" {ctx.release_name}",
        help=f"set {added}, or upgrade DeepSpeed to 0.6.6 or later",
        related=stage_set_here(ctx),
        fix=Fix("offload the optimizer too", (fix,)),
    )
