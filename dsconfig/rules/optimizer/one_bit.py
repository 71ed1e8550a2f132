"""1-bit and 0/1 optimizers, which are gone since 0.19.7."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import compact, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import bf16_place, model_format
from dsconfig.rules._stage import stage, stage_set_here

_BASIC = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_TYPE = "optimizer.type"
_ONE_BIT = {"onebitadam": "0.4.1", "onebitlamb": "0.4.1", "zerooneadam": "0.6.1"}
"""The compressed optimizers, and since when the engine refuses them beside ZeRO."""


def _one_bit(ctx: Context) -> str | None:
    name = ctx.written(_TYPE)
    return name.lower() if isinstance(name, str) and name.lower() in _ONE_BIT else None


@rule("DSC598", effect="crashes", since="0.4.1", until="0.19.6", source=_BASIC)
def one_bit_optimizer_with_zero(ctx: Context) -> Iterator[Finding]:
    """A 1-bit or 0/1 optimizer is used with ZeRO.

    They compress and exchange gradients themselves, which ZeRO does not allow at any stage. The engine says
    "is not compatible with ZeRO" and stops.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true},
        "zero_optimization": {"stage": 1}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true}}
    """
    name = _one_bit(ctx)
    if name is not None and ctx.since(_ONE_BIT[name]) and stage(ctx) > 0:
        yield ctx.at(
            _TYPE,
            f"{quoted(ctx.written(_TYPE))} does not work with ZeRO, and the stage is {compact(stage(ctx))}",
            help='use stage 0, or write `"AdamW"`; 0.19.7 has no 1-bit optimizers any more',
            related=stage_set_here(ctx),
        )


@rule("DSC599", effect="wasteful", since="0.3.14", until="0.19.6", source=_BASIC)
def one_bit_optimizer_without_fp16(ctx: Context) -> Iterator[Finding]:
    """A 1-bit or 0/1 optimizer is used without `fp16`.

    DeepSpeed warns that they are known to converge in fp16 only.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "OneBitAdam"}, "fp16": {"enabled": true}}
    """
    if _one_bit(ctx) and model_format(ctx) != "fp16":
        yield ctx.at(
            _TYPE,
            f"{quoted(ctx.written(_TYPE))} is known to converge in fp16 only, and the model trains in "
            f"{model_format(ctx)}",
            help=f"set `fp16.enabled` to `true`{_without_bf16(ctx)}, or use another optimizer",
        )


def _without_bf16(ctx: Context) -> str:
    there = bf16_place(ctx)
    return f", and set `{there}` to `false`" if there else ""
