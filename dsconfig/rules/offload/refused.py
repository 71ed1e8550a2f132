"""What DeepSpeed refuses of the offload keys as soon as it loads the config."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import stage, stage_place, stage_words
from dsconfig.words import quoted

_SECTIONS = ("zero_optimization.offload_param", "zero_optimization.offload_optimizer")


@rule(
    "DSC421",
    effect="rejected",
    since="0.5.7",
    until="0.6.7",
    source="runtime/zero/offload_config.py:get_offload_param_config",
)
def offload_without_device(ctx: Context) -> Iterator[Finding]:
    """An offload section does not say `device`.

    Earlier releases took "cpu" then, later ones take "none"; these refuse the section.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"pin_memory": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu",
        "pin_memory": true}}}
    """
    for path in _SECTIONS:
        section = ctx.value(path)
        if isinstance(section, dict) and "device" not in section:
            yield ctx.at(
                path,
                f"`{path.split('.')[-1]}` has no `device`, which DeepSpeed {ctx.release_name} demands",
                help='add `"device": "cpu"` or `"nvme"`, or remove the section',
                part="key",
                fix=Fix('add `"device": "cpu"`', (Set((*ctx.place(path), "device"), "cpu"),)),
            )


@rule(
    "DSC422",
    effect="rejected",
    since="0.15.0",
    source="runtime/zero/config.py:DeepSpeedZeroConfig.offload_ratio_check",
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
            fix=Fix("remove `ratio`", (Remove(ctx.place(path)),)),
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
