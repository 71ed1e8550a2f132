"""Arguments of a job that contradict its config, or that the program rejects beside DeepSpeed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.launch.find_jobs import job_of
from dsconfig.launch.launched_job import Job as LaunchedJob
from dsconfig.launch.program_behavior import Refused, refused
from dsconfig.rules._consumer import consumer_label
from dsconfig.rules._suggest_section import named

if TYPE_CHECKING:
    from dsconfig.consumers.autofill import Mismatch
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.evaluation.context import Job


# Values that contradict the arguments of the job that reads them.


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
            f"{quoted(each.value)}: {consumer_label(ctx)} refuses what differs from its arguments",
            help=", or ".join(['use "auto", which stands for the argument', *_in_the_job(ctx.job, each)]),
            fix=Fix('replace by "auto"', (Set(path, "auto"),), safe=False),
        )
    for told in ctx.job.refused:
        yield ctx.at(str(told.key), told.text, help='write "auto", which stands for the argument')


def _in_the_job(job: Job, found: Mismatch) -> Iterator[str]:
    """How the launch file says what the config says; nothing where no argument alone says it."""
    values: list[Json] = found.written if isinstance(found.written, list) else [found.written]
    names = found.argument.strip("[]").split(", ")
    switch, either, _ = found.argument.partition(" or ")
    if either:  # `fp16`, beside the one of evaluation alone
        names = [switch]
    if len(names) != len(values) or not all(map(str.isidentifier, names)):
        return
    if not all(isinstance(value, bool if either else int | float) for value in values):
        return
    names = [job.spelled.get(name, name) for name in names]
    if not job.has_flags:
        said = (f"`{name}` to {quoted(value)}" for name, value in zip(names, values, strict=True))
        yield f"set {' and '.join(said)} in the launch file"
    elif either:
        others = "".join(f" in place of `--{name}`" for name in job.precisions - {switch})
        yield f"pass `--{switch}`{others}" if found.written else f"leave out `--{switch}`"
    else:
        said = (f"--{name} {quoted(value).strip('`')}" for name, value in zip(names, values, strict=True))
        yield f"pass `{' '.join(said)}`"


# What the program of a launch file refuses before it hands a config over.


@rule(
    "DSC810",
    effect="rejected",
    source="the program's own check: consumers/launchers/refusals.py cites each",
    reads="job",
)
def incompatible_with_deepspeed(ctx: Context) -> Iterator[Finding]:
    """A launch file asks for what its program refuses with this config, or with DeepSpeed at all.

    LLaMA-Factory refuses GaLore and APOLLO beside DeepSpeed, and with ZeRO-3 `pure_bf16`, Unsloth,
    KTransformers, PiSSA and `predict_with_generate`. Axolotl refuses the optimizers muon, polora, q_galore
    and flash_…, ReLoRA and FSDP. ms-swift refuses FSDP, and processes that see several GPUs. Whatever ends in
    Transformers' Trainer takes one of `bf16` and `fp16`, and numbers where it calculates.

    Bad:

        {"base_model": "m", "datasets": [], "optimizer": "muon", "micro_batch_size": 1,
        "deepspeed": {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}}

    Good:

        {"base_model": "m", "datasets": [], "optimizer": "adamw_torch", "micro_batch_size": 1,
        "deepspeed": {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}}
    """
    try:
        job = job_of(ctx.document)
    except OSError:  # its note says so
        raise SkipRule from None
    for each in refused(job, ctx.version) if job is not None else ():
        key = ".".join(each.place).removeprefix("ENV.")
        yield ctx.at(
            _path(job, each),
            f"`{key}` is {quoted(each.value)}, which {each.program} refuses {each.refusal.how}",
            help=each.refusal.help,
        )._replace(span=job.line_span if job else None)


def _path(job: LaunchedJob | None, each: Refused) -> KeyPath:
    """The key that is refused, or, of a flag, that of the commands it stands in."""
    if job is None or job.arguments is None or job.line is not None:
        return each.place
    return tuple(job.format.commands[0].split("."))
