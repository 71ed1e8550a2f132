"""What the rules of number formats ask of a config: the format of the model, the names of formats."""

from __future__ import annotations

from typing import Any

from dsconfig.evaluation.context import Context

_WORDS = {
    "fp16": ("fp16", "float16", "half", "torch.float16"),
    "bf16": ("bf16", "bfloat16", "torch.bfloat16"),
    "fp32": ("fp32", "float32", "float", "torch.float32"),
    "int8": ("int8", "torch.int8"),
}
_FORMATS = {word: short for short, group in _WORDS.items() for word in group}
"""The words of `DtypeEnum` (runtime/config.py), which are looked up as they are spelt."""


def format_of(word: Any) -> str | None:
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
