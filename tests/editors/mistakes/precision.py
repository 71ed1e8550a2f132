"""Mistakes in precision and data types."""

from __future__ import annotations

from tests.editors.mistakes.mistake import Mistake, root

_DTYPES = (
    '"torch.float16", "fp16", "float16", "half", "torch.float32", "fp32", "float32", "float", "torch.int8", '
    '"int8", "torch.bfloat16", "bf16", "bfloat16"'
)
PRECISION = (
    Mistake(
        root(communication_data_type="fp8"),
        "communication_data_type",
        "value",
        'Value is not accepted. Valid values: "fp16", "bf16", "fp32", null.',
        yaml='expected one of "fp16", "bf16", "fp32" or null',
    ),
    Mistake(
        root(amp={"enabled": True}),
        "amp",
        "key",
        "`amp` was removed from DeepSpeed after 0.19.7: use `torch_autocast` instead",
    ),
    Mistake(
        root(bfloat16={"enabled": True}),
        "bfloat16",
        "entry",
        "deprecated since DeepSpeed 0.6.0: use `bf16` instead",
    ),
    Mistake(
        root(fp16=True),
        "fp16",
        "value",
        'Incorrect type. Expected "object".',
        yaml='Incorrect type. Expected "Fp16".',
    ),
    Mistake(
        root(fp16={"enabled": "yes"}),
        "fp16.enabled",
        "value",
        'Value is not accepted. Valid values: true, false, "auto".',
    ),
    Mistake(
        root(fp16={"enabled": True, "loss_scale": "dynamic"}),
        "fp16.loss_scale",
        "value",
        "expected a non-negative number",
    ),
    Mistake(
        root(fp16={"enabled": True, "loss_scale_windows": 100}),
        "fp16.loss_scale_windows",
        "key",
        "Property loss_scale_windows is not allowed.",
    ),
    Mistake(
        root(fp16={"enabled": True}, bf16={"enabled": True}),
        "fp16.enabled",
        "key",
        "`fp16` and `bf16` are both enabled, but DeepSpeed accepts only one",
    ),
    Mistake(
        root(bf16={"enabled": 1}),
        "bf16.enabled",
        "value",
        'Value is not accepted. Valid values: true, false, "auto".',
    ),
    Mistake(
        root(data_types={"grad_accum_dtype": "fp64"}),
        "data_types.grad_accum_dtype",
        "value",
        f"Value is not accepted. Valid values: {_DTYPES}, null.",
    ),
    Mistake(
        root(torch_autocast={"enabled": True, "dtype": "half_float"}),
        "torch_autocast.dtype",
        "value",
        f"Value is not accepted. Valid values: {_DTYPES}.",
    ),
)
