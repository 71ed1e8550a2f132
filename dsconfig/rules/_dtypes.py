"""Number formats: that of the model, and the optimizer that a choice of formats brings."""

from __future__ import annotations

from dsconfig.core.json_types import Json
from dsconfig.evaluation.context import Context
from dsconfig.rules._offload import OPTIMIZER, device
from dsconfig.rules._parallel_sizes import device_mesh
from dsconfig.rules._stage import stage

_WORDS = {
    "fp16": ("fp16", "float16", "half", "torch.float16"),
    "bf16": ("bf16", "bfloat16", "torch.bfloat16"),
    "fp32": ("fp32", "float32", "float", "torch.float32"),
    "int8": ("int8", "torch.int8"),
}
_FORMATS = {word: short for short, group in _WORDS.items() for word in group}
"""The words of `DtypeEnum` (runtime/config.py), which are looked up as they are spelt."""
_SECTION = "data_types"
_ACCUMULATION = f"{_SECTION}.grad_accum_dtype"


def format_of(word: Json) -> str | None:
    """`"torch.float16"` as `fp16`; None where DeepSpeed knows no such format."""
    return _FORMATS.get(word) if isinstance(word, str) else None


def bf16_place(ctx: Context, key: str = "enabled") -> str | None:
    """Where the key is switched on, in `bf16` or in `bfloat16`, which is read where the other is absent."""
    for section in ("bf16", "bfloat16"):
        if ctx.on(f"{section}.{key}"):
            return f"{section}.{key}"
    return None


def model_format(ctx: Context) -> str:
    """The format that the model trains in: `fp16`, `bf16` or `fp32`."""
    if ctx.on("fp16.enabled"):
        return "fp16"
    return "bf16" if bf16_place(ctx) else "fp32"


def format_place(ctx: Context) -> list[tuple[str, str]]:
    """Where the model's format is said, as a related place."""
    there = "fp16.enabled" if ctx.on("fp16.enabled") else bf16_place(ctx)
    return [("the model's format is set here", there)] if there else []


def bf16_optimizer(ctx: Context) -> bool:
    """Whether DeepSpeed trains ZeRO stage 1 with its BF16_Optimizer instead of the one of stages 1 and 2.

    Source: runtime/engine.py, `DeepSpeedEngine._do_optimizer_sanity_check`: stage 1 hands over from 0.8.1 on,
    and keeps an optimizer that is offloaded to the CPU from 0.10.1 on.
    """
    return (
        ctx.has(_ACCUMULATION)
        and format_of(ctx.value(_ACCUMULATION)) == "fp32"
        and bf16_place(ctx) is not None
        and stage(ctx) == 1
        and ctx.since("0.8.1")
        and (ctx.before("0.10.1") or device(ctx, OPTIMIZER) != "cpu")
    )


def sent_format(ctx: Context) -> tuple[str, str | None]:
    """The format that gradients are sent in, and the key that says so; None where it is the model's.

    Source: runtime/engine.py, `DeepSpeedEngine.communication_data_type`; `_configure_distributed_model` puts
    the key of sequence parallelism in its place.
    """
    key, words = "communication_data_type", ("fp32", "bf16", "fp16")
    ranks = ctx.value("sequence_parallel_size") if device_mesh(ctx) else 1
    if isinstance(ranks, int) and ranks > 1:
        key = "seq_parallel_communication_data_type"
    elif not ctx.has(key):
        return model_format(ctx), None
    word = ctx.value(key)
    word = word.lower() if isinstance(word, str) else word
    return (word, key) if word in words else (model_format(ctx), None)
