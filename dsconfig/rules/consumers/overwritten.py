"""Values that the consumer sets itself."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import EffectName
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.schema_condition import Absent, Condition
from dsconfig.rules._fixes import removal
from dsconfig.rules.consumers._reader import INIT, overwritten, reader


@rule(
    "DSC803",
    effect="rejected",
    source="lightning strategies/deepspeed.py:DeepSpeedStrategy",
    conditions=(
        Condition(
            "Config",
            (),
            Absent(
                "gradient_accumulation_steps",
                "Lightning refuses the key: give the Trainer `accumulate_grad_batches`",
            ),
            consumers=("lightning",),
        ),
    ),
)
def accumulation_in_lightning_config(ctx: Context) -> Iterator[Finding]:
    """`gradient_accumulation_steps` is written, which Lightning's Trainer sets itself.

    The strategy writes its own `accumulate_grad_batches` there, and raises where the key is taken.

    Bad, read by lightning:

        {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}

    Good, read by lightning:

        {"train_micro_batch_size_per_gpu": 4}

    Fixed, read by lightning:

        {"train_micro_batch_size_per_gpu": 4}
    """
    key = "gradient_accumulation_steps"
    if ctx.consumer == "lightning" and key in ctx.data and not (ctx.job and key in ctx.job.added):
        steps = ctx.data[key]
        # Lightning takes an integer, and has nobody who would replace "auto".
        whole = isinstance(steps, int) and not isinstance(steps, bool) and steps > 0
        yield ctx.at(
            (key,),
            f"`{key}` is {quoted(ctx.data[key])} here, and Lightning refuses a config that has the key",
            help="remove it, and give the Trainer "
            + (f"`accumulate_grad_batches={steps}`" if whole else "`accumulate_grad_batches`, an integer"),
            part="key",
            fix=removal((key,)),
        )


@rule("DSC804", effect="wasteful", source=INIT)
def value_that_the_consumer_overwrites(ctx: Context) -> Iterator[Finding]:
    """A value is written, and Accelerate writes its own over it.

    `steps_per_print` becomes infinity in every config that Accelerate or Transformers' Trainer reads, so that
    DeepSpeed prints no progress. The loop that reads the config prints its own, and nothing that is trained
    differs: the line costs only who reads it, so this is an info. `zero_allow_untested_optimizer` becomes
    true where the config has no `optimizer`, and the script's own is used: written as false, it asks for a
    check that is not made, and that is a warning.

    Bad, read by transformers:

        {"train_batch_size": "auto", "steps_per_print": 100, "zero_optimization": {"stage": 2}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}

    Fixed, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if not ctx.plugged:
        return
    for key, becomes, effect in _OVERWRITTEN:
        value = ctx.data.get(key, MISSING)
        if value is MISSING or not overwritten(ctx, (key,)) or (value and key != "steps_per_print"):
            continue
        yield ctx.at(
            (key,),
            f"`{key}` is {quoted(value)} here, but {reader(ctx)} makes it {becomes}, whatever is written",
            help="remove it",
            effect=effect,
            fix=removal((key,), safe=True),
        )


_OVERWRITTEN: tuple[tuple[str, str, EffectName], ...] = (
    ("steps_per_print", "infinity", "wasteful"),
    ("zero_allow_untested_optimizer", "`true`", "altered"),
)
"""Keys, what becomes of them, and what that does to the user."""
