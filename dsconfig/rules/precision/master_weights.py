"""Master weights and optimizer states that stay in 16 bits: what they require."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Remove, Set
from dsconfig.core.json_types import NamedTuple
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._dtypes import bf16_place
from dsconfig.rules._fixes import removal
from dsconfig.rules._stage import stage, stage_place, stage_words

_CHECK = "runtime/config.py:DeepSpeedConfig._do_error_check"
_CONFIGURE = "runtime/base_optimizer.py:ZeROOptimizer._configure_master_weights"
_FP16 = "fp16.fp16_master_weights_and_grads"
_BF16 = "bf16_master_weights_and_grads"


class _Narrow(NamedTuple):
    """A key that keeps more than the model in 16 bits."""

    section: str
    key: str
    since: str


_NARROW = (
    _Narrow("fp16", "fp16_master_weights_and_grads", "0.5.0"),
    _Narrow("bf16", "bf16_master_weights_and_grads", "0.18.3"),
    _Narrow("bf16", "bf16_optimizer_states", "0.18.3"),
)


@rule("DSC307", effect="rejected", since="0.5.0", source=_CHECK)
def half_precision_master_weights_without_zero(ctx: Context) -> Iterator[Finding]:
    """Master weights or optimizer states are to stay in 16 bits, and ZeRO is not at a stage that can do so.

    Up to 0.18.2 that is stage 2 alone, from then on any from 1 to 3. From 0.17.1 on it is checked even where
    the section is not enabled.

    Bad:

        {"train_batch_size": 8, "fp16": {"enabled": true, "fp16_master_weights_and_grads": true}}

    Good:

        {"train_batch_size": 8, "fp16": {"enabled": true, "fp16_master_weights_and_grads": true},
        "zero_optimization": {"stage": 2}}
    """
    stages = (1, 2, 3) if ctx.since("0.18.3") else (2,)
    for row in _NARROW:
        if ctx.before(row.since) or stage(ctx) in stages:
            continue
        there = f"fp16.{row.key}" if row.section == "fp16" and ctx.on(f"fp16.{row.key}") else None
        if row.section == "bf16":
            there = bf16_place(ctx, row.key)
        if there and (ctx.since("0.17.1") or ctx.on("fp16.enabled")):
            needed = "stage 2" if len(stages) == 1 else "stage 1, 2 or 3"
            yield ctx.at(
                there,
                f"`{there}` needs ZeRO {needed}, but {stage_words(ctx)}",
                help=f"use ZeRO {needed}, or remove `{row.key}`",
                related=[("the stage is set here", stage_place(ctx))] if ctx.has("zero_optimization") else [],
                fix=removal(ctx.place(there)),
            )


@rule("DSC308", effect="rejected", since="0.18.3", source=_CHECK)
def bf16_optimizer_states_without_master_weights(ctx: Context) -> Iterator[Finding]:
    """`bf16_optimizer_states` is on without `bf16_master_weights_and_grads`.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true,
        "bf16_optimizer_states": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}, "bf16": {"enabled": true,
        "bf16_optimizer_states": true, "bf16_master_weights_and_grads": true}}
    """
    there = bf16_place(ctx, "bf16_optimizer_states")
    if there and not bf16_place(ctx, "bf16_master_weights_and_grads"):
        yield ctx.at(
            there,
            f"`{there}` is on, but `bf16_master_weights_and_grads` beside it is not",
            help="set `bf16_master_weights_and_grads` to `true`, or remove `bf16_optimizer_states`",
            fix=Fix(
                "switch on `bf16_master_weights_and_grads`",
                (Set((*ctx.place(there)[:-1], "bf16_master_weights_and_grads"), True),),
            ),
        )


@rule("DSC331", effect="crashes", since="0.18.3", source=_CONFIGURE)
def master_weights_in_two_formats(ctx: Context) -> Iterator[Finding]:
    """Master weights are asked for in fp16 and in bfloat16.

    Both keys count whether or not their sections are enabled; the engine says that they are "mutually
    exclusive".

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "fp16": {"fp16_master_weights_and_grads": true, "enabled": false},
        "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"},
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
        "bf16": {"enabled": true, "bf16_master_weights_and_grads": true}}
    """
    there = bf16_place(ctx, _BF16)
    if there and ctx.has("fp16") and ctx.on(_FP16) and stage(ctx) in (1, 2, 3):
        idle = there if ctx.on("fp16.enabled") else _FP16
        yield ctx.at(
            idle,
            f"`{_FP16}` and `{there}` are both on, and exclude each other",
            help=f"remove `{idle}`",
            related=[("the other one is on here", _FP16 if idle == there else there)],
            fix=Fix(f"remove `{idle}`", (Remove(ctx.place(idle)),)),
        )
