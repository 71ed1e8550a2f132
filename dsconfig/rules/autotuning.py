"""`autotuning`: empty directories, a switch that ends training, and the steps to measure."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding


@rule(
    "DSC914",
    effect="rejected",
    since="0.7.5",
    source="autotuning/config.py:DeepSpeedAutotuningConfig._initialize",
)
def empty_autotuning_directory(ctx: Context) -> Iterator[Finding]:
    """`autotuning.results_dir` or `autotuning.exps_dir` is empty.

    DeepSpeed asserts that both directories are set whenever it loads a config, even with autotuning off.
    Null, false and an empty string all count as empty. An absent key has a default.

    Bad:

        {"train_batch_size": 8, "autotuning": {"enabled": false, "results_dir": null}}

    Good:

        {"train_batch_size": 8, "autotuning": {"enabled": false}}
    """
    for key in ("results_dir", "exps_dir"):
        value = ctx.value(f"autotuning.{key}")
        if not value:
            default = ctx.default(f"autotuning.{key}")
            yield ctx.at(
                f"autotuning.{key}",
                f"`{key}` is {quote_value(value)}, but DeepSpeed requires a directory, even with autotuning off",
                help=f"set it to a directory, or remove it: the default is {quote_value(default)}",
            )


_ENGINE = "runtime/engine.py:DeepSpeedEngine._autotuning_exit"
_START, _END = "autotuning.start_profile_step", "autotuning.end_profile_step"


def _measured_steps(ctx: Context) -> tuple[int, int] | None:
    """Return the first and last step that autotuning measures, or None if it is off."""
    section = ctx.data.get("autotuning")
    if not isinstance(section, dict) or not section.get("enabled") or not ctx.is_on("autotuning.enabled"):
        return None
    first, last = ctx.value(_START), ctx.value(_END)
    return (first, last) if isinstance(first, int) and isinstance(last, int) else None


@rule("DSC915", effect="wasteful", since="0.5.7", source=_ENGINE)
def autotuning_left_on(ctx: Context) -> Iterator[Finding]:
    """`autotuning.enabled` is true, so every run exits after a few steps.

    The key is meant for runs of `deepspeed --autotuning`. In any other run, the engine also profiles one step, writes
    `autotuning_metric.json`, and exits.

    Bad:

        {"train_batch_size": 8, "autotuning": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "autotuning": {"enabled": false}}

    Fixed:

        {"train_batch_size": 8, "autotuning": {"enabled": false}}
    """
    steps = _measured_steps(ctx)
    if steps and steps[0] <= steps[1]:
        from dsconfig.launch.find_jobs import is_config_autotuned  # few configs turn it on

        if is_config_autotuned(ctx.document.name):
            return
        yield ctx.at(
            "autotuning.enabled",
            f"`autotuning.enabled` is on: the engine exits after step {steps[1] + 1}, "
            "even without `--autotuning`",
            help="set it to `false` for training, and keep it `true` only for the autotuner",
            fix=Fix("set `enabled` to `false`", (SetValue(("autotuning", "enabled"), False),)),
        )


@rule("DSC916", effect="crashes", since="0.5.7", source=_ENGINE)
def autotuning_ends_before_start(ctx: Context) -> Iterator[Finding]:
    """`autotuning.end_profile_step` comes before `start_profile_step`.

    The engine counts FLOPs in the start step, and writes the count when it exits after the end step. If the end step
    comes first, there is no count to write, and the engine crashes.

    Bad:

        {"train_batch_size": 8, "autotuning": {
            "enabled": true, "start_profile_step": 5, "end_profile_step": 3}}

    Good:

        {"train_batch_size": 8, "autotuning": {
            "enabled": true, "start_profile_step": 3, "end_profile_step": 5}}
    """
    steps = _measured_steps(ctx)
    if steps and steps[1] + 1 >= 0 and steps[1] < steps[0]:
        wrong = _END if ctx.has(_END) else _START
        yield ctx.at(
            wrong,
            f"`end_profile_step` {steps[1]} comes before `start_profile_step` {steps[0]}: the engine exits "
            f"after step {steps[1] + 1}, before it has measured anything",
            help=f"set `end_profile_step` to {steps[0]} or more",
            related=[("profiling starts here", _START)] if wrong is _END and ctx.has(_START) else [],
        )


@rule("DSC926", effect="altered", since="0.5.7", source="autotuning/scheduler.py:ResourceManager.run_job")
def mapped_flag_without_dashes(ctx: Context) -> Iterator[Finding]:
    """A value in `autotuning.arg_mappings` is not a command-line flag.

    For each experiment, the tuner looks for the flag among the arguments of the script, and appends it if it is absent.
    Without its dashes, a flag is never found, and the script receives a positional argument that it rejects.

    Bad:

        {"train_batch_size": "auto", "autotuning": {"enabled": true,
        "arg_mappings": {"train_micro_batch_size_per_gpu": "per_device_train_batch_size"}}}

    Good:

        {"train_batch_size": "auto", "autotuning": {"enabled": true,
        "arg_mappings": {"train_micro_batch_size_per_gpu": "--per_device_train_batch_size"}}}
    """
    mappings = ctx.value("autotuning.arg_mappings")
    if not isinstance(mappings, dict) or not ctx.is_on("autotuning.enabled"):
        return
    for key, flag in mappings.items():
        if isinstance(flag, str) and flag.strip() and not flag.strip().startswith("-"):
            yield ctx.at(
                ("autotuning", "arg_mappings", key),
                f"{quote_value(flag)} is not a flag, so the tuner never finds it among the arguments of the script",
                help=f"write {quote_value('--' + flag.strip())}",
            )


_MICRO_BATCH = "train_micro_batch_size_per_gpu"


@rule("DSC929", effect="altered", since="0.5.7", source="autotuning/scheduler.py:ResourceManager.run_job")
def tuned_batch_not_mapped(ctx: Context) -> Iterator[Finding]:
    """The tuner changes the micro batch size in a Trainer's config, but not the matching training argument.

    Each experiment runs the same command with a config that has a number in place of `"auto"`. The Trainer compares it
    with `--per_device_train_batch_size` and raises "Please correct the following DeepSpeed config values that mismatch
    TrainingArguments values". `autotuning.arg_mappings` tells the tuner which flag to change with it.

    Good, read by transformers:

        {"train_micro_batch_size_per_gpu": "auto", "autotuning": {"enabled": true,
        "arg_mappings": {"train_micro_batch_size_per_gpu": "--per_device_train_batch_size",
        "gradient_accumulation_steps": "--gradient_accumulation_steps"}}}
    """
    if not ctx.is_on("autotuning.enabled") or ctx.consumer != "transformers":
        return
    from dsconfig.launch.find_jobs import is_config_autotuned  # few configs turn it on

    mappings = ctx.value("autotuning.arg_mappings")
    names = mappings if isinstance(mappings, dict) else {}
    written = ctx.document.value(ctx.parser)  # the arguments have replaced "auto" elsewhere
    if (
        isinstance(written, dict)
        and written.get(_MICRO_BATCH, "auto") == "auto"
        and _MICRO_BATCH not in names
        and is_config_autotuned(ctx.document.name)
    ):
        yield ctx.at(
            "autotuning.enabled",
            f"each experiment uses a different `{_MICRO_BATCH}`, but the Trainer rejects one that differs from "
            "`--per_device_train_batch_size`",
            help='add `"arg_mappings": {"train_micro_batch_size_per_gpu": "--per_device_train_batch_size", '
            '"gradient_accumulation_steps": "--gradient_accumulation_steps"}`',
        )
