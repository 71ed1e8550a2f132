"""Tensor, expert and pipeline parallelism: what is refused while a config is loaded."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Remove
from dsconfig.rules._context import Context, Finding
from dsconfig.rules._rule import rule
from dsconfig.words import quoted


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
            fix=Fix("remove `dtype`", (Remove(("tensor_parallel", "dtype")),)),
        )


@rule(
    "DSC702", effect="rejected", since="0.19.2", source="module_inject/auto_ep_config.py:parse_autoep_config"
)
def load_balance_coeff_given(ctx: Context) -> Iterator[Finding]:
    """`expert_parallel.load_balance_coeff` holds a value.

    The key is reserved: DeepSpeed refuses anything but null there, even while expert parallelism is off.

    Bad:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true, "load_balance_coeff": 0.001}}

    Good:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}}

    Fixed:

        {"train_batch_size": 8, "expert_parallel": {"enabled": true}}
    """
    path = "expert_parallel.load_balance_coeff"
    value = ctx.value(path)
    if value is not None:
        yield ctx.at(
            path,
            f"`load_balance_coeff` is {quoted(value)}, but DeepSpeed reserves the key and takes only `null`",
            help="remove it",
            fix=Fix("remove `load_balance_coeff`", (Remove(("expert_parallel", "load_balance_coeff")),)),
        )
