"""Mistakes that users make, and what both editors say of each, where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

Part: TypeAlias = Literal["key", "value", "entry"]


@dataclass(frozen=True, slots=True)
class Mistake:
    """`config` has one fault at the dotted `path`. `yaml` is the message where that service words it apart;
    empty where it takes the value: it reads 5e8 as a number, which PyYAML takes for text.
    """

    config: dict[str, Any]
    path: str
    part: Part
    message: str
    yaml: str | None = None


def _zero(**keys: Any) -> dict[str, Any]:
    return {"train_batch_size": 8, "zero_optimization": {"stage": 3, **keys}}


def _root(**keys: Any) -> dict[str, Any]:
    return {"train_batch_size": 8, **keys}


def _adamw(**params: Any) -> dict[str, Any]:
    return _root(optimizer={"type": "AdamW", "params": params})


def _schedule(kind: str, **params: Any) -> dict[str, Any]:
    return _root(scheduler={"type": kind, "params": params})


_DTYPES = (
    '"torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", '
    '"int8", "torch.bfloat16", "bf16", "bfloat16"'
)
_OPTIMIZERS = '"Adam", "AdamW", "Adagrad", "Lamb", "Lion", "Muon", "MuAdam", "MuAdamW", "MuSGD"'
ZERO, OPTIMIZER, SCHEDULER = "zero_optimization", "optimizer.params", "scheduler.params"
MISTAKES: tuple[Mistake, ...] = (
    Mistake(
        _root(train_batch_size="8"),
        "train_batch_size",
        "value",
        'expected an integer greater than 0 or null or "auto"',
    ),
    Mistake(_root(train_batch_size=0), "train_batch_size", "value", "Value is below the minimum of 1."),
    Mistake(
        _root(train_batch_size=1.5),
        "train_batch_size",
        "value",
        'expected an integer greater than 0 or null or "auto"',
    ),
    Mistake(
        _root(train_micro_batch_size_per_gpu="automatic"),
        "train_micro_batch_size_per_gpu",
        "value",
        'expected an integer greater than 0 or null or "auto"',
    ),
    Mistake(
        _root(gradient_accumulation_steps=-1),
        "gradient_accumulation_steps",
        "value",
        "Value is below the minimum of 1.",
    ),
    Mistake(
        _root(gradient_clipping="1.0"),
        "gradient_clipping",
        "value",
        'expected a number of at least 0 or "auto"',
    ),
    Mistake(_root(gradient_clipping=-1), "gradient_clipping", "value", "Value is below the minimum of 0."),
    Mistake(
        _root(gradient_clipp1ng=1.0), "gradient_clipp1ng", "key", "Property gradient_clipp1ng is not allowed."
    ),
    Mistake(
        _root(offload_optimizer={"device": "cpu"}),
        "offload_optimizer",
        "key",
        "Property offload_optimizer is not allowed.",
    ),
    Mistake(
        _root(steps_per_print="10"),
        "steps_per_print",
        "value",
        "Incorrect type. Expected one of integer, null.",
    ),
    Mistake(
        _root(prescale_gradients="false"),
        "prescale_gradients",
        "value",
        'Incorrect type. Expected "boolean".',
    ),
    Mistake(
        _root(communication_data_type="fp8"),
        "communication_data_type",
        "value",
        'Value is not accepted. Valid values: "fp16", "bf16", "fp32", null.',
        yaml='expected one of "fp16", "bf16" or "fp32" or null',
    ),
    Mistake(
        _root(log_level="verbose"),
        "log_level",
        "value",
        'Value is not accepted. Valid values: "debug", "info", "warning", "error", "critical", null.',
        yaml='expected one of "debug", "info", "warning", "error" or "critical" or null',
    ),
    Mistake(
        _root(amp={"enabled": True}),
        "amp",
        "key",
        "`amp` was removed from DeepSpeed after 0.19.7: use `torch_autocast` instead",
    ),
    Mistake(
        _root(elasticity={"enabled": True}),
        "elasticity",
        "key",
        "`elasticity` was removed from DeepSpeed after 0.19.7",
    ),
    Mistake(
        _root(sparse_attention={"mode": "fixed"}),
        "sparse_attention",
        "key",
        "`sparse_attention` was removed from DeepSpeed after 0.19.6",
    ),
    Mistake(
        _root(bfloat16={"enabled": True}),
        "bfloat16",
        "entry",
        "deprecated since DeepSpeed 0.6.0: use `bf16` instead",
    ),
    Mistake(
        _root(fp16=True),
        "fp16",
        "value",
        'Incorrect type. Expected "object".',
        yaml='Incorrect type. Expected "Fp16".',
    ),
    Mistake(
        _root(fp16={"enabled": "yes"}),
        "fp16.enabled",
        "value",
        'Value is not accepted. Valid values: true, false, "auto".',
    ),
    Mistake(
        _root(fp16={"enabled": True, "loss_scale": "dynamic"}),
        "fp16.loss_scale",
        "value",
        "expected a number of at least 0",
    ),
    Mistake(
        _root(fp16={"enabled": True, "loss_scale_windows": 100}),
        "fp16.loss_scale_windows",
        "key",
        "Property loss_scale_windows is not allowed.",
    ),
    Mistake(
        _root(fp16={"enabled": True}, bf16={"enabled": True}),
        "fp16.enabled",
        "key",
        "`fp16` and `bf16` are both enabled, and DeepSpeed takes only one",
    ),
    Mistake(
        _root(bf16={"enabled": 1}),
        "bf16.enabled",
        "value",
        'Value is not accepted. Valid values: true, false, "auto".',
    ),
    Mistake(_root(zero_optimization=2), ZERO, "value", "Incorrect type. Expected one of object, boolean."),
    Mistake(
        _zero(stage=4), f"{ZERO}.stage", "value", 'Value is not accepted. Valid values: 0, 1, 2, 3, "auto".'
    ),
    Mistake(
        _zero(stage="3"), f"{ZERO}.stage", "value", 'Value is not accepted. Valid values: 0, 1, 2, 3, "auto".'
    ),
    Mistake(_zero(stge=3), f"{ZERO}.stge", "key", "Property stge is not allowed."),
    Mistake(
        _zero(reduce_bucket_size="5e8"),
        f"{ZERO}.reduce_bucket_size",
        "value",
        'expected an integer greater than 0 or "auto"',
        yaml="",
    ),
    Mistake(
        _zero(reduce_bucket_size=0), f"{ZERO}.reduce_bucket_size", "value", "Value is below the minimum of 1."
    ),
    Mistake(
        _zero(stage3_max_live_parameters=-1),
        f"{ZERO}.stage3_max_live_parameters",
        "value",
        "Value is below the minimum of 0.",
    ),
    Mistake(_zero(overlap_comm="true"), f"{ZERO}.overlap_comm", "value", "expected true or false or null"),
    Mistake(
        _zero(reduce_scatter=None),
        f"{ZERO}.reduce_scatter",
        "value",
        "expected true or false",
        yaml='Incorrect type. Expected "boolean | string".',
    ),
    Mistake(
        _zero(cpu_offload=True),
        f"{ZERO}.cpu_offload",
        "entry",
        "deprecated since DeepSpeed 0.3.15: use `zero_optimization.offload_optimizer` instead",
    ),
    Mistake(
        _zero(mics_shard_size=8),
        f"{ZERO}.mics_shard_size",
        "key",
        "`mics_shard_size` was removed from DeepSpeed after 0.19.6",
    ),
    Mistake(_zero(offload_param="cpu"), f"{ZERO}.offload_param", "value", "expected an object"),
    Mistake(
        _zero(offload_param={"device": "gpu"}),
        f"{ZERO}.offload_param.device",
        "value",
        'Value is not accepted. Valid values: "none", "cpu", "nvme", "auto".',
    ),
    Mistake(
        _zero(offload_param={"device": "cpu", "pin_memori": True}),
        f"{ZERO}.offload_param.pin_memori",
        "key",
        "Property pin_memori is not allowed.",
    ),
    Mistake(
        _zero(offload_param={"pin_memory": True}),
        f"{ZERO}.offload_param",
        "key",
        'Missing property "device".',
    ),
    Mistake(
        _zero(offload_param={"device": "nvme"}),
        f"{ZERO}.offload_param",
        "key",
        'Missing property "nvme_path".',
    ),
    Mistake(
        _zero(stage=2, offload_param={"device": "cpu"}),
        f"{ZERO}.offload_param",
        "key",
        "`offload_param` has no effect: only stage 3 offloads parameters",
    ),
    Mistake(
        _zero(stage=2, offload_optimizer={"device": "cpu", "ratio": 0.5}),
        f"{ZERO}.offload_optimizer.ratio",
        "key",
        "a `ratio` below 1 needs ZeRO stage 3",
    ),
    Mistake(
        _zero(stage=0, offload_optimizer={"device": "cpu"}),
        f"{ZERO}.offload_optimizer",
        "key",
        "nothing is offloaded at stage 0, and the CPU optimizer fails on a GPU",
    ),
    Mistake(
        _zero(offload_optimizer={"device": "cpu", "ratio": 1.5}),
        f"{ZERO}.offload_optimizer.ratio",
        "value",
        "Value is above the maximum of 1.",
    ),
    Mistake(
        _zero(compute_grad_norm=False),
        f"{ZERO}.compute_grad_norm",
        "key",
        "`compute_grad_norm` may be false only at ZeRO stage 1 or 2",
    ),
    Mistake(
        _zero(stage=2, pipeline_loading_checkpoint=True),
        f"{ZERO}.pipeline_loading_checkpoint",
        "key",
        "`pipeline_loading_checkpoint` works at stage 3 alone",
    ),
    Mistake(_adamw(lr="1e-4"), f"{OPTIMIZER}.lr", "value", 'expected a number or "auto"', yaml=""),
    Mistake(_adamw(lr=[1e-4]), f"{OPTIMIZER}.lr", "value", 'expected a number or "auto"'),
    Mistake(_adamw(betas=0.9), f"{OPTIMIZER}.betas", "value", 'expected a list of numbers or "auto"'),
    Mistake(
        _adamw(bias_correction="yes"),
        f"{OPTIMIZER}.bias_correction",
        "value",
        'Incorrect type. Expected "boolean".',
    ),
    Mistake(
        _root(optimizer={"type": 3}),
        "optimizer.type",
        "value",
        f"Value is not accepted. Valid values: {_OPTIMIZERS}.",
        yaml="expected a string or null",
    ),
    Mistake(_root(optimizer={"params": {"lr": 0.1}}), "optimizer", "key", 'Missing property "type".'),
    Mistake(
        _root(optimizer={"type": "Muon", "params": {"ns_method": "exact"}}),
        f"{OPTIMIZER}.ns_method",
        "value",
        'Value is not accepted. Valid values: "gram", "standard".',
    ),
    Mistake(
        _schedule("WarmupLR", warmup_num_steps=0),
        f"{SCHEDULER}.warmup_num_steps",
        "value",
        "Value is below the minimum of 1.",
    ),
    Mistake(
        _schedule("WarmupDecayLR", warmup_num_steps=10),
        SCHEDULER,
        "key",
        'Missing property "total_num_steps".',
    ),
    Mistake(
        _schedule("OneCycle", cycle_min_lr="x", cycle_max_lr=1),
        f"{SCHEDULER}.cycle_min_lr",
        "value",
        "Incorrect type. Expected one of number, array.",
    ),
    Mistake(_root(scheduler={"type": "WarmupLR"}), "scheduler", "key", 'Missing property "params".'),
    Mistake(
        _root(tensorboard={"enabled": True, "job": "x"}),
        "tensorboard.job",
        "key",
        "Property job is not allowed.",
    ),
    Mistake(
        _root(wandb={"enabled": True, "project": 3}),
        "wandb.project",
        "value",
        'Incorrect type. Expected "string".',
    ),
    Mistake(
        _root(flops_profiler={"enabled": True, "profile_step": "5"}),
        "flops_profiler.profile_step",
        "value",
        'Incorrect type. Expected "integer".',
    ),
    Mistake(
        _root(checkpoint={"tag_validation": "maybe"}),
        "checkpoint.tag_validation",
        "value",
        'Value is not accepted. Valid values: "WARN", "IGNORE", "FAIL".',
        yaml='expected one of "WARN", "IGNORE" or "FAIL"',
    ),
    Mistake(
        _root(data_types={"grad_accum_dtype": "fp64"}),
        "data_types.grad_accum_dtype",
        "value",
        f"Value is not accepted. Valid values: {_DTYPES}, null.",
    ),
    Mistake(
        _root(comms_logger={"enabled": True, "prof_ops": "all"}),
        "comms_logger.prof_ops",
        "value",
        "expected a list",
    ),
    Mistake(
        _root(tensor_parallel={"autotp_size": -1.5}),
        "tensor_parallel.autotp_size",
        "value",
        "expected an integer",
        yaml='Incorrect type. Expected "integer | string".',
    ),
    Mistake(_root(compile={"deepcompile": "on"}), "compile.deepcompile", "value", "expected true or false"),
    Mistake(
        _root(torch_autocast={"enabled": True, "dtype": "half_float"}),
        "torch_autocast.dtype",
        "value",
        f"Value is not accepted. Valid values: {_DTYPES}.",
    ),
)
