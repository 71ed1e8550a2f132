"""NVMe offloading: its requirements, and keys that only NVMe uses."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.evaluation.rule import KeyEquals, KeyIsRequired, SchemaCondition, rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    PARAM,
    effective_stage,
    offload_device,
    offload_device_path,
    related_stage,
)
from dsconfig.rules._fixes import differs_from_default, report_keys_without_effect


@rule(
    "DSC462",
    effect="crashes",
    since="0.3.15",
    source="runtime/zero/partition_parameters.py:Init._validate_remote_device, "
    "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._configure_tensor_swapping",
    conditions=tuple(
        SchemaCondition(
            "ZeroOptimization",
            (KeyEquals("stage", (3,)), KeyEquals(f"{section}.device", ("nvme",))),
            KeyIsRequired(f"{section}.nvme_path"),
        )
        for section in ("offload_param", "offload_optimizer")
    ),
)
def nvme_without_path(ctx: Context) -> Iterator[Finding]:
    """An offload section uses NVMe at stage 3 without `nvme_path`.

    Engine initialization fails with `"nvme_path" in DeepSpeed Config cannot be None`, or, for the optimizer,
    with a bare TypeError.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_param": {"device": "nvme",
        "nvme_path": "/local_nvme"}}}
    """
    for section in (PARAM, OPTIMIZER):
        if not ctx.has(section) or offload_device(ctx, section) != "nvme" or effective_stage(ctx) != 3:
            continue
        if ctx.value(f"{section}.nvme_path") is None:
            name = section.rpartition(".")[2]
            yield ctx.at(
                f"{section}.device",
                f'`{name}.device` is `"nvme"`, but `nvme_path` is not set',
                help="add `nvme_path`, a directory on the NVMe drive",
            ).about_missing(ctx.written_path(f"{section}.nvme_path"))


_NVME_KEYS = {
    PARAM: ("nvme_path", "buffer_count", "buffer_size", "max_in_cpu"),
    OPTIMIZER: ("nvme_path", "buffer_count", "pipeline_read", "pipeline_write", "fast_init"),
}
"""Keys that only NVMe swapping reads."""


@rule(
    "DSC464",
    effect="ignored",
    since="0.3.15",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3._configure_tensor_swapping",
)
def nvme_key_without_nvme(ctx: Context) -> Iterator[Finding]:
    """An offload section sets a key for NVMe, but its device is "cpu".

    Buffers, pipelining and `nvme_path` configure swapping between host memory and the drive. Sections with
    device "none" are off and not reported. Keys set to their default are not reported either.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
        "nvme_path": "/local_nvme", "pipeline_read": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme",
        "nvme_path": "/local_nvme", "pipeline_read": true}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
    """
    for section, keys in _NVME_KEYS.items():
        if not ctx.has(section) or ctx.raw(f"{section}.device") != "cpu":
            continue
        if unread := [f"{section}.{key}" for key in keys if differs_from_default(ctx, f"{section}.{key}")]:
            them = "them" if len(unread) > 1 else "it"
            yield report_keys_without_effect(
                ctx,
                unread,
                f'the device is `"cpu"`, and only `"nvme"` uses {them}',
                help=f'remove {them}, or set `{section}.device` to `"nvme"`'
                + ("" if effective_stage(ctx) == 3 else ", and use stage 3"),
                related=[("the device is set here", f"{section}.device")],
            )


_BUFFERS = {"adam": 4, "adamw": 4, "adagrad": 3, "lion": 3}
"""Number of swap buffers that an optimizer step needs: the parameter, its gradient and its optimizer states."""


@rule(
    "DSC465",
    effect="crashes",
    since="0.3.15",
    source="runtime/swap_tensor/partitioned_optimizer_swapper.py:"
    "PartitionedOptimizerSwapper.swap_in_optimizer_state",
)
def too_few_swap_buffers(ctx: Context) -> Iterator[Finding]:
    """`offload_optimizer.buffer_count` is too small for one optimizer step from NVMe.

    A step needs the parameter, its gradient and all of its optimizer states in host memory at once: four
    buffers for Adam. With fewer, the swapper finds no buffers and the first step fails with an
    AssertionError.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_count": 2}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme", "buffer_count": 4}}}
    """
    path = f"{OPTIMIZER}.buffer_count"
    if not ctx.has(path) or offload_device(ctx, OPTIMIZER) != "nvme" or effective_stage(ctx) != 3:
        return
    kind, count = ctx.value("optimizer.type"), ctx.value(path)
    needed = _BUFFERS.get(kind.lower()) if isinstance(kind, str) else None
    if needed and isinstance(count, int) and count < needed:
        yield ctx.at(
            path,
            f"`offload_optimizer.buffer_count` is {count}, but a step of `{kind}` swaps in {needed} tensors:"
            f" the parameter, its gradient and {needed - 2} optimizer state{'s' * (needed > 3)}",
            help=f"set it to {needed} or more, or remove it: the default is {ctx.default(path)}",
            related=[("the optimizer is set here", "optimizer.type")],
            fix=Fix(f"replace with {needed}", (SetValue(ctx.written_path(path), needed),)),
        )


@rule(
    "DSC426",
    effect="altered",
    since="0.3.15",
    until="0.12.6",
    source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.state_dict",
)
def nvme_without_checkpoint(ctx: Context) -> Iterator[Finding]:
    """Stage 3 with NVMe offloading cannot save or load checkpoints before 0.13.0.

    Training runs until the first checkpoint and then stops with "ZeRO-3 does not yet support checkpointing
    with NVMe offloading".

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}
    """
    if effective_stage(ctx) != 3:
        return
    for section in (OPTIMIZER, PARAM):
        if offload_device(ctx, section) != "nvme" or (
            section == PARAM and not ctx.value(f"{PARAM}.max_in_cpu")
        ):
            continue
        yield ctx.at(
            offload_device_path(ctx, section),
            f"`{section.rpartition('.')[2]}` offloads to NVMe, but DeepSpeed {ctx.release_name} cannot save"
            " checkpoints with it",
            help='set `device` to `"cpu"`, or upgrade DeepSpeed to 0.13.0 or later',
            related=related_stage(ctx),
        )
        return
