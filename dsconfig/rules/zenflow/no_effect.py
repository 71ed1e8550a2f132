"""Keys of ZenFlow without effect."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules.zenflow._section import ZENFLOW, zenflow


@rule("DSC489", effect="ignored", since="0.17.5", source="runtime/zenflow/zenflow_config.py:ZenFlowConfig")
def zenflow_key_without_effect(ctx: Context) -> Iterator[Finding]:
    """`steps_per_epoch` is written, or `full_warm_up_rounds` is negative.

    The first is the engine's own note of how long its data loader is; it counts only where selections are
    counted in epochs, and there the engine overwrites it as soon as it has a data loader. The second is a
    number of first rounds, and fewer than none are none.

    Bad:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"full_warm_up_rounds": -1, "update_interval": 4}}}

    Good:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}

    Fixed:

        {"train_batch_size": 8, "gradient_accumulation_steps": 4, "optimizer": {"type": "AdamW", "params":
        {"lr": 0.001}}, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}, "zenflow":
        {"update_interval": 4}}}
    """
    if not zenflow(ctx):
        return
    steps, rounds = f"{ZENFLOW}.steps_per_epoch", f"{ZENFLOW}.full_warm_up_rounds"
    if ctx.has(steps) and ctx.value(steps) is not None:
        by_steps = ctx.value(f"{ZENFLOW}.select_strategy") == "step"
        yield ctx.at(
            steps,
            "`steps_per_epoch` has no effect: selections are counted in steps"
            if by_steps
            else "`steps_per_epoch` is the engine's to fill in: it puts the length of its data loader there",
            help="remove it",
            effect="ignored" if by_steps else "altered",
            fix=removal(ctx.place(steps)),
        )
    if ctx.has(rounds) and isinstance(ctx.value(rounds), int) and ctx.value(rounds) < 0:
        yield ctx.at(
            rounds,
            f"`full_warm_up_rounds` is {ctx.value(rounds)}, which is as good as 0",
            help="write the number of first rounds in which every gradient is applied at once, or remove it",
            fix=removal(ctx.place(rounds)),
        )
