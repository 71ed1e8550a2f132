"""Mistakes in `zero_optimization`."""

from __future__ import annotations

from tests.editors.mistakes.mistake import Mistake, root, zero

SECTION = "zero_optimization"
ZERO = (
    Mistake(root(zero_optimization=2), SECTION, "value", "Incorrect type. Expected one of object, boolean."),
    Mistake(
        zero(stage=4),
        f"{SECTION}.stage",
        "value",
        'Value is not accepted. Valid values: 0, 1, 2, 3, "auto".',
    ),
    Mistake(
        zero(stage="3"),
        f"{SECTION}.stage",
        "value",
        'Value is not accepted. Valid values: 0, 1, 2, 3, "auto".',
    ),
    Mistake(zero(stge=3), f"{SECTION}.stge", "key", "Property stge is not allowed."),
    Mistake(
        zero(reduce_bucket_size="5e8"),
        f"{SECTION}.reduce_bucket_size",
        "value",
        'expected a positive integer or "auto"',
        yaml="",
    ),
    Mistake(
        zero(reduce_bucket_size=0),
        f"{SECTION}.reduce_bucket_size",
        "value",
        "Value is below the minimum of 1.",
    ),
    Mistake(
        zero(stage3_max_live_parameters=-1),
        f"{SECTION}.stage3_max_live_parameters",
        "value",
        "Value is below the minimum of 0.",
    ),
    Mistake(zero(overlap_comm="true"), f"{SECTION}.overlap_comm", "value", "expected true or false or null"),
    Mistake(
        zero(reduce_scatter=None),
        f"{SECTION}.reduce_scatter",
        "value",
        "expected true or false",
        yaml='Incorrect type. Expected "boolean | string".',
    ),
    Mistake(
        zero(cpu_offload=True),
        f"{SECTION}.cpu_offload",
        "entry",
        "deprecated since DeepSpeed 0.3.15: use `zero_optimization.offload_optimizer` instead",
    ),
    Mistake(
        zero(mics_shard_size=8),
        f"{SECTION}.mics_shard_size",
        "key",
        "`mics_shard_size` was removed from DeepSpeed after 0.19.6",
    ),
    Mistake(zero(offload_param="cpu"), f"{SECTION}.offload_param", "value", "expected an object"),
    Mistake(
        zero(offload_param={"device": "gpu"}),
        f"{SECTION}.offload_param.device",
        "value",
        'Value is not accepted. Valid values: "none", "cpu", "nvme", "auto".',
    ),
    Mistake(
        zero(offload_param={"device": "cpu", "pin_memori": True}),
        f"{SECTION}.offload_param.pin_memori",
        "key",
        "Property pin_memori is not allowed.",
    ),
    Mistake(
        zero(offload_param={"pin_memory": True}),
        f"{SECTION}.offload_param",
        "key",
        'Missing property "device".',
    ),
    Mistake(
        zero(offload_param={"device": "nvme"}),
        f"{SECTION}.offload_param",
        "key",
        'Missing property "nvme_path".',
    ),
    Mistake(
        zero(stage=2, offload_param={"device": "cpu"}),
        f"{SECTION}.offload_param",
        "key",
        "`offload_param` has no effect: only stage 3 offloads parameters",
    ),
    Mistake(
        zero(stage=2, offload_optimizer={"device": "cpu", "ratio": 0.5}),
        f"{SECTION}.offload_optimizer.ratio",
        "key",
        "a `ratio` below 1 needs ZeRO stage 3",
    ),
    Mistake(
        zero(stage=0, offload_optimizer={"device": "cpu"}),
        f"{SECTION}.offload_optimizer",
        "key",
        "nothing is offloaded at stage 0, and the CPU optimizer fails on a GPU",
    ),
    Mistake(
        zero(offload_optimizer={"device": "cpu", "ratio": 1.5}),
        f"{SECTION}.offload_optimizer.ratio",
        "value",
        "Value is above the maximum of 1.",
    ),
    Mistake(
        zero(compute_grad_norm=False),
        f"{SECTION}.compute_grad_norm",
        "key",
        "`compute_grad_norm` may be false only at ZeRO stage 1 or 2",
    ),
    Mistake(
        zero(stage=2, pipeline_loading_checkpoint=True),
        f"{SECTION}.pipeline_loading_checkpoint",
        "key",
        "`pipeline_loading_checkpoint` works only at stage 3",
    ),
)
