"""Where offload sections put things, what the place needs, and keys it does not read."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._zero import (
    OPTIMIZER,
    PARAM,
    ZERO,
    departs,
    device,
    device_place,
    said_here,
    stage,
    stage_words,
    without_effect,
)

_CONFIG = "runtime/zero/offload_config.py"


@rule("DSC460", effect="ignored", source="ops/adam/cpu_adam.py:DeepSpeedCPUAdam.step")
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
            related=said_here(ctx),
            fix=Fix(f"remove `{word}`", (Remove(ctx.place(place)),)),
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
            f'`device` is `"nvme"` and counts as `"cpu"`: only stage 3 offloads to NVMe, and'
            f" {stage_words(ctx)}",
            help='use stage 3, or write `"cpu"`',
            related=said_here(ctx),
            fix=Fix('replace by `"cpu"`', (Set(ctx.place(path), "cpu"),)),
        )


@rule(
    "DSC462",
    effect="crashes",
    since="0.3.15",
    source="runtime/zero/partition_parameters.py:Init._validate_remote_device, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._configure_tensor_swapping",
)
def nvme_without_path(ctx: Context) -> Iterator[Finding]:
    """A section offloads to NVMe at stage 3, and does not say where.

    The engine stops as it starts: `"nvme_path" in DeepSpeed Config cannot be None`, or, for the optimizer, a
    bare TypeError.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme",
        "nvme_path": "/local_nvme"}}}
    """
    for section in (PARAM, OPTIMIZER):
        if not ctx.has(section) or device(ctx, section) != "nvme" or stage(ctx) != 3:
            continue
        if ctx.value(f"{section}.nvme_path") is None:
            word = section.rpartition(".")[2]
            yield ctx.at(
                f"{section}.device",
                f'`{word}` goes to `"nvme"`, but `nvme_path` is not given',
                help="add `nvme_path`, a directory on the drive",
            )


@rule("DSC463", effect="ignored", since="0.7.0", source=_CONFIG)
def device_left_out(ctx: Context) -> Iterator[Finding]:
    """An offload section has no `device`, and the default is "none".

    Nothing is offloaded, whatever else the section says. The first releases took "cpu" instead.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"pin_memory": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu",
        "pin_memory": true}}}
    """
    for section in (PARAM, OPTIMIZER):
        if isinstance(ctx.value(section), dict) and not ctx.has(f"{section}.device"):
            word = section.rpartition(".")[2]
            yield ctx.at(
                section,
                f'`{word}` has no `device`, and the default is `"none"`: nothing is offloaded',
                help='add `"device": "cpu"` or `"nvme"`, or remove the section',
                part="key",
                fix=Fix('add `"device": "cpu"`', (Set((*ctx.place(section), "device"), "cpu"),)),
            )


_OF_NVME = {
    PARAM: ("nvme_path", "buffer_count", "buffer_size", "max_in_cpu"),
    OPTIMIZER: ("nvme_path", "buffer_count", "pipeline_read", "pipeline_write", "fast_init"),
}
"""Keys that only the swapping to NVMe reads."""


@rule(
    "DSC464",
    effect="ignored",
    since="0.3.15",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._configure_tensor_swapping",
)
def nvme_key_without_nvme(ctx: Context) -> Iterator[Finding]:
    """A key of an offload section is about NVMe, and the device is "cpu".

    Buffers, pipelining and `nvme_path` belong to the swapping between host memory and drive. A section whose
    device is "none" is off and not reported, nor is a key written with its default.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
        "nvme_path": "/local_nvme", "pipeline_read": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme",
        "nvme_path": "/local_nvme", "pipeline_read": true}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
    """
    for section, keys in _OF_NVME.items():
        if not ctx.has(section) or ctx.written(f"{section}.device") != "cpu":
            continue
        if unread := [f"{section}.{key}" for key in keys if departs(ctx, f"{section}.{key}")]:
            them = "them" if len(unread) > 1 else "it"
            yield without_effect(
                ctx,
                unread,
                f'the device is `"cpu"`, and only `"nvme"` uses {them}',
                help=f'remove {them}, or use the device `"nvme"` at stage 3',
                related=[("the device is chosen here", f"{section}.device")],
            )


_BUFFERS = {"adam": 4, "adamw": 4, "adagrad": 3, "lion": 3}
"""Buffers that a step fills at once: the parameter, its gradient and what the optimizer keeps for it."""


@rule(
    "DSC465",
    effect="crashes",
    since="0.3.15",
    source="runtime/swap_tensor/partitioned_optimizer_swapper.py:"
    "PartitionedOptimizerSwapper.swap_in_optimizer_state",
)
def too_few_swap_buffers(ctx: Context) -> Iterator[Finding]:
    """`offload_optimizer.buffer_count` is too small for what one step swaps in from NVMe.

    A step needs the parameter, its gradient and every state of it in host memory at once: four buffers for
    Adam. With fewer the swapper gets none, and the first step ends in an AssertionError.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_count": 2}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_count": 4}}}
    """
    path = f"{OPTIMIZER}.buffer_count"
    if not ctx.has(path) or device(ctx, OPTIMIZER) != "nvme" or stage(ctx) != 3:
        return
    kind, count = ctx.value("optimizer.type"), ctx.value(path)
    needed = _BUFFERS.get(kind.lower()) if isinstance(kind, str) else None
    if needed and isinstance(count, int) and count < needed:
        yield ctx.at(
            path,
            f"`buffer_count` is {count}, but a step of `{kind}` swaps in {needed} tensors: the parameter, its"
            f" gradient and {needed - 2} of its state",
            help=f"write {needed} or more, or remove it: the default is {ctx.default(path)}",
            related=[("the optimizer is chosen here", "optimizer.type")],
            fix=Fix(f"replace by {needed}", (Set(ctx.place(path), needed),)),
        )
