"""Keys that are there for inference, or for Python."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Remove
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal


@rule(
    "DSC701", effect="rejected", since="0.16.4", source="runtime/tensor_parallel/config.py:TPTrainingConfig"
)
def tensor_parallel_dtype_in_json(ctx: Context) -> Iterator[Finding]:
    """`tensor_parallel.dtype` is given in JSON.

    DeepSpeed expects an object of the class `torch.dtype` there, which no text can be. Only the value "auto"
    passes, because strict sections drop it unseen.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "dtype": "bf16"}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}, "bf16": {"enabled": true}}

    Fixed:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}
    """
    path = "tensor_parallel.dtype"
    value = ctx.written(path)
    if ctx.has(path) and value != "auto":
        yield ctx.at(
            path,
            f"`dtype` is {quoted(value)}, but DeepSpeed takes only a `torch.dtype`, which JSON cannot hold",
            help="remove it, and choose the precision with `bf16` or `fp16`",
            fix=removal(("tensor_parallel", "dtype")),
        )


_INFERENCE = {
    "kernel_inject": ("inference kernels are never put in while training", False),
    "tp.mpu": ("it is a Python object, and nothing reads it in training", None),
    "tp.tp_group": ("it is a Python object, which JSON cannot hold", None),
}


@rule("DSC710", effect="ignored", since="0.16.4", source="runtime/tensor_parallel/config.py:TPTrainingConfig")
def inference_key_in_tensor_parallel(ctx: Context) -> Iterator[Finding]:
    """A key of `tensor_parallel` is there only for inference, or for Python.

    The section shares its parser with the inference engine. `kernel_inject`, `tp.mpu` and `tp.tp_group` are
    taken, and mean nothing in a training config.

    Bad:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2, "kernel_inject": true}}

    Good:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}

    Fixed:

        {"train_batch_size": 8, "tensor_parallel": {"autotp_size": 2}}
    """
    if not isinstance(ctx.data.get("tensor_parallel"), dict):
        return
    for key, (why, off) in _INFERENCE.items():
        path = f"tensor_parallel.{key}"
        if ctx.has(path) and ctx.value(path) != off:
            name = key.rsplit(".", 1)[-1]
            yield ctx.at(
                path,
                f"`{name}` has no effect: {why}",
                help="remove it",
                part="key",
                fix=Fix(f"remove `{name}`", (Remove(ctx.place(path)),)),
            )
