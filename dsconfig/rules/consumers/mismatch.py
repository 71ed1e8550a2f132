"""Values that contradict the arguments of the job that reads them."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._suggest_section import named
from dsconfig.rules.consumers._reader import reader


@rule(
    "DSC809",
    effect="rejected",
    source="transformers integrations/deepspeed.py:HfTrainerDeepSpeedConfig.trainer_config_finalize",
)
def value_against_training_argument(ctx: Context) -> Iterator[Finding]:
    """A value is written, and the launch file of the job gives another to the Trainer.

    The Trainer holds every value that it could fill against its own arguments, and raises "Please correct the
    following DeepSpeed config values that mismatch TrainingArguments values". It is found where the arguments
    are known: in the config that a launch file names.

    Good, read by transformers:

        {"train_batch_size": "auto", "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.job is None:
        return
    for each in ctx.job.mismatches:
        path = ctx.place(each.key)
        yield ctx.at(
            path,
            f"{named(path)} is {quoted(each.written)}, and `{each.argument}` of the job is "
            f"{quoted(each.value)}: {reader(ctx)} refuses what differs from its arguments",
            help='write "auto", which stands for the argument',
            fix=Fix('replace by "auto"', (Set(path, "auto"),), safe=False),
        )
    for told in ctx.job.refused:
        yield ctx.at(str(told.key), told.text, help='write "auto", which stands for the argument')
