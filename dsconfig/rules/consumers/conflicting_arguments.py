"""Job arguments that contradict the config, or that the program rejects together with DeepSpeed."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding, SkipRule
from dsconfig.job.consumers.consumer_versions import version_tuple
from dsconfig.launch.find_jobs import job_of_launch_file
from dsconfig.launch.framework_checks import FailedFrameworkCheck, failed_framework_checks
from dsconfig.launch.hostfile import span_of_line
from dsconfig.launch.launched_job import LaunchedJob
from dsconfig.launch.lightning_strategies import lightning_problems
from dsconfig.rules._effective_values import effective_stage, stage_path
from dsconfig.rules._job_programs import consumer_label
from dsconfig.rules._suggest_section import format_key
from dsconfig.rules.consumers.program_calls import first_uses

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import Json, KeyPath
    from dsconfig.evaluation.rule_context import FilledConfig
    from dsconfig.job.consumers.autofill import ArgumentMismatch


# Values that contradict the arguments of the job.


@rule(
    "DSC809",
    effect="rejected",
    source="transformers integrations/deepspeed.py:HfTrainerDeepSpeedConfig.trainer_config_finalize",
)
def value_against_training_argument(ctx: Context) -> Iterator[Finding]:
    """A value differs from the training argument that the launch file passes to the Trainer.

    The Trainer compares its own arguments with every value that it could resolve, and raises "Please correct the
    following DeepSpeed config values that mismatch TrainingArguments values". dsconfig reports this only if a launch
    file with the arguments names the config.

    Good, read by transformers:

        {"train_batch_size": "auto", "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.filled is None:
        return
    for mismatch in ctx.filled.mismatches:
        path = ctx.written_path(mismatch.key)
        yield ctx.at(
            path,
            f"{format_key(path)} is {quote_value(mismatch.written)}, but `{mismatch.argument}` of the job is "
            f"{quote_value(mismatch.value)}: {consumer_label(ctx)} rejects values that differ from its arguments",
            help=", or ".join(
                ['use "auto", which resolves to the argument', *_matching_arguments(ctx.filled, mismatch)]
            ),
            fix=Fix('replace with "auto"', (SetValue(path, "auto"),), safe=False),
        )
    for rejection in ctx.filled.rejected:
        yield ctx.at(str(rejection.key), rejection.text, help='write "auto", which resolves to the argument')


def _matching_arguments(job: FilledConfig, mismatch: ArgumentMismatch) -> Iterator[str]:
    """Yield advice on how to change the training arguments to match the config, if changing one is enough."""
    values: list[Json] = mismatch.written if isinstance(mismatch.written, list) else [mismatch.written]
    names = mismatch.argument.strip("[]").split(", ")
    switch, either, _ = mismatch.argument.partition(" or ")
    if either:  # `fp16 or fp16_full_eval`: the second is only for evaluation
        names = [switch]
    if len(names) != len(values) or not all(map(str.isidentifier, names)):
        return
    if not all(isinstance(value, bool if either else int | float) for value in values):
        return
    names = [job.argument_names.get(name, name) for name in names]
    if not job.has_flags or job.are_in_code:
        settings = (f"`{name}` to {quote_value(value)}" for name, value in zip(names, values, strict=True))
        yield f"set {' and '.join(settings)} in {'the code' if job.are_in_code else 'the launch file'}"
    elif either:
        others = "".join(f" instead of `--{name}`" for name in job.precisions - {switch})
        yield f"pass `--{switch}`{others}" if mismatch.written else f"leave out `--{switch}`"
    else:
        flags = (
            f"--{name} {quote_value(value).strip('`')}" for name, value in zip(names, values, strict=True)
        )
        yield f"pass `{' '.join(flags)}`"


@rule("DSC871", effect="altered", source="transformers integrations/deepspeed.py:deepspeed_load_checkpoint")
def checkpoints_without_optimizer_states(ctx: Context) -> Iterator[Finding]:
    """The job resumes from checkpoints, but saves them without optimizer states.

    With `save_only_model`, the Trainer does not save DeepSpeed's states (the folder `global_step…`). Resuming from such
    a checkpoint raises "Can't find a valid checkpoint at" the path. The job can only resume from a checkpoint that was
    saved without `save_only_model`.

    Bad, read by transformers:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "save_only_model": true,
        "resume_from_checkpoint": "out/checkpoint-100",
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}}

    Good, read by transformers:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "resume_from_checkpoint": "out/checkpoint-100",
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}}
    """
    if ctx.consumer != "transformers" or ctx.arguments is None or not ctx.uses_plugin:
        return
    given = ctx.arguments.explicit
    if given.get("save_only_model") is not True or given.get("resume_only_model") is True:
        return
    if resuming := _resuming_code(ctx):
        yield ctx.at(
            "zero_optimization",
            f"{resuming} resumes from a checkpoint, but `save_only_model` leaves out the states from which DeepSpeed"
            " resumes",
            help="remove `save_only_model`, or do not resume",
            part="key",
        )


def _resuming_code(ctx: Context) -> str:
    """Return what resumes from a checkpoint: the job's argument, or a line of its program; empty if nothing does."""
    resume = None if ctx.arguments is None else ctx.arguments.explicit.get("resume_from_checkpoint")
    if bool(resume) and resume not in ("False", "None", "no"):
        return "the job"
    return next((use.location for use in first_uses(ctx, "resume")), "")


@rule("DSC876", effect="altered", source="transformers 4.31 trainer.py:Trainer._load_optimizer_and_scheduler")
def schedule_lost_on_resume(ctx: Context) -> Iterator[Finding]:
    """The job resumes from a checkpoint in which the Trainer did not save the learning-rate schedule.

    Without a section `scheduler` the Trainer creates the schedule itself. Transformers 4.30 to 4.33.2 leaves saving it
    to DeepSpeed, which does not know this schedule: a resumed job begins with the warmup again, and the learning rate
    jumps. Later versions save and load `scheduler.pt`. Checkpoints of the affected versions lack the file.

    Bad, read by transformers==4.31.0:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "resume_from_checkpoint": "out/checkpoint-100",
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}}

    Good, read by transformers==4.33.3:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "resume_from_checkpoint": "out/checkpoint-100",
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}}
    """
    if ctx.consumer != "transformers" or ctx.version is None or not ctx.uses_plugin:
        return
    if not _SCHEDULE_UNSAVED <= version_tuple(ctx.version) < _SCHEDULE_SAVED:
        return
    # With an optimizer alone, these versions reject the config: DSC811.
    if "scheduler" in ctx.data or "optimizer" in ctx.data:
        return
    if resuming := _resuming_code(ctx):
        yield ctx.at(
            (),
            f"{resuming} resumes from a checkpoint, but Transformers {ctx.version} neither saves nor loads the schedule"
            " of the Trainer with DeepSpeed: the learning rate starts anew",
            help="use Transformers 4.33.3 or later, or add `scheduler` to the config",
        )


_SCHEDULE_UNSAVED, _SCHEDULE_SAVED = (4, 30, 0), (4, 33, 3)
"""First versions of Transformers without and with a saved schedule."""


@rule("DSC877", effect="crashes", source="transformers 4.18 trainer.py:Trainer.train")
def best_model_loaded_into_partitions(ctx: Context) -> Iterator[Finding]:
    """`load_best_model_at_end` fails at stage 3 before Transformers 4.20.

    Before 4.13 the Trainer loads whole weights into a partitioned model at the end of training, and stops with "size
    mismatch". Versions 4.13 to 4.19 create a second engine around the same model, whose parameters still have the
    hooks of the first one. The checkpoints are complete, so nothing is lost if the best one is loaded separately.

    Bad, read by transformers==4.18.0:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "load_best_model_at_end": true,
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 3}}}

    Good, read by transformers==4.20.0:

        {"base_model": "m", "datasets": [], "micro_batch_size": 1, "load_best_model_at_end": true,
        "deepspeed": {"train_batch_size": "auto", "zero_optimization": {"stage": 3}}}
    """
    if ctx.consumer != "transformers" or ctx.version is None or ctx.arguments is None:
        return
    if version_tuple(ctx.version) >= _BEST_MODEL_LOADED or effective_stage(ctx) != _PARTITIONED:
        return
    if ctx.arguments.explicit.get("load_best_model_at_end") in (True, "True", "true"):
        yield ctx.at(
            stage_path(ctx),
            f"the job sets `load_best_model_at_end`, but Transformers {ctx.version} cannot load the best model into one"
            " that stage 3 has partitioned",
            help="use Transformers 4.20 or later, or leave out the argument and load the best checkpoint afterwards",
        )


_BEST_MODEL_LOADED, _PARTITIONED = (4, 20, 0), 3


# Settings that the program of a launch file rejects before it passes the config to DeepSpeed.


@rule(
    "DSC810",
    effect="rejected",
    source="the program's own check: dsconfig/launch/framework_checks.py cites each",
    reads="job",
)
def incompatible_with_deepspeed(ctx: Context) -> Iterator[Finding]:
    """A launch file has a setting that its program rejects with this config, or with DeepSpeed at all.

    LLaMA-Factory rejects GaLore and APOLLO with DeepSpeed, and `pure_bf16`, Unsloth, KTransformers, PiSSA and
    `predict_with_generate` with ZeRO-3. Axolotl rejects the optimizers muon, polora, q_galore and flash_…,
    ReLoRA and FSDP. ms-swift rejects FSDP, and processes that see several GPUs. Every program that uses
    Transformers' Trainer accepts only one of `bf16` and `fp16`, and requires numbers where it computes.

    Bad:

        {"base_model": "m", "datasets": [], "optimizer": "muon", "micro_batch_size": 1,
        "deepspeed": {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}}

    Good:

        {"base_model": "m", "datasets": [], "optimizer": "adamw_torch", "micro_batch_size": 1,
        "deepspeed": {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}}
    """
    try:
        job = job_of_launch_file(ctx.document)
    except OSError:  # a note of the report says why
        raise SkipRule from None
    for setting in failed_framework_checks(job, ctx.version) if job is not None else ():
        key = ".".join(setting.path).removeprefix("ENV.")
        yield ctx.at(
            _path_of_argument(job, setting),
            f"`{key}` is {quote_value(setting.value)}, but {setting.program} rejects it {setting.check.condition}",
            help=setting.check.help,
        )._replace(span=job.command_span if job else None)


def _path_of_argument(job: LaunchedJob | None, setting: FailedFrameworkCheck) -> KeyPath:
    """Return the path of the rejected key, or for a flag, the path of the command that contains it."""
    if job is None or job.arguments is None or job.line is not None:
        return setting.path
    return tuple(job.format.commands[0].split("."))


@rule(
    "DSC870",
    effect="crashes",
    source="lightning pytorch/strategies/deepspeed.py:DeepSpeedStrategy",
    reads="program",
)
def lightning_strategy_rejected(ctx: Context) -> Iterator[Finding]:
    """Lightning rejects arguments of a `Trainer` or `Fabric` with a DeepSpeed strategy.

    Lightning knows a fixed list of strategy names, such as "deepspeed_stage_2_offload"; other combinations need a
    `DeepSpeedStrategy`. With DeepSpeed it requires CUDA GPUs, rejects double precision and clipping by value, and
    supports one optimizer only. An offloaded optimizer has to be `DeepSpeedCPUAdam`, not `FusedAdam` or, since
    DeepSpeed 0.8.3, one of PyTorch. dsconfig reports this only if the values are in the same Python file.

    Good:

        {"train_batch_size": 8}
    """
    for problem in lightning_problems(ctx.document):
        if problem.since and ctx.before(problem.since):
            continue
        yield ctx.at((), problem.message, help=problem.help)._replace(
            span=span_of_line(ctx.document.text, problem.line)
        )
