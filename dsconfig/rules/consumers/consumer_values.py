"""Values that a consumer rejects, overwrites, ignores or does not resolve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dsconfig.core.batch_triplet import KEYS, MICRO, STEPS
from dsconfig.core.diagnostic import EffectName, Fix, SetValue, dotted_path
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import format_number, join_alternatives, quote_value
from dsconfig.evaluation.rule import EffectiveValueIs, KeyIsRequired, KeyMustBeAbsent, SchemaCondition, rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding
from dsconfig.job.consumers import HUGGING_FACE
from dsconfig.job.consumers.consumer_versions import version_includes_change
from dsconfig.rules._effective_values import effective_stage, related_stage, stage_path
from dsconfig.rules._fixes import remove_key
from dsconfig.rules._job_programs import (
    FILL,
    INIT,
    consumer_has_change,
    consumer_label,
    is_overwritten_by_accelerate,
)
from dsconfig.rules._suggest_section import format_key

TYPE_CHECKING = False  # importing typing for it would cost 2 ms
if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# Unresolved "auto".


def _paths_of_auto(section: Mapping[str, Json], path: KeyPath) -> Iterator[KeyPath]:
    """Yield the path of every "auto" in nested objects, but as in Accelerate, not in lists."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _paths_of_auto(value, (*path, key))
        elif value == "auto" and isinstance(value, str):
            yield (*path, key)


@rule("DSC801", effect="rejected", source=FILL, general=True)
def unsupported_auto(ctx: Context) -> Iterator[Finding]:
    """A value is "auto", but the consumer does not resolve it and rejects the config.

    Transformers' Trainer and Accelerate resolve about twenty keys. `Accelerator.prepare` then searches the whole config
    and raises for every remaining "auto", even for keys for which DeepSpeed itself accepts it. Only the Trainer
    resolves `betas` and `eps` of the optimizer.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_max_live_parameters": "auto"}}

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}
    """
    if not ctx.uses_plugin:
        return
    from dsconfig.job.consumers.consumer import BY_NAME, consumer_from_spec

    resolved = {fill.key for fill in consumer_from_spec(ctx.spec).fills}
    unknown = {event.path for event in ctx.walk.unknown}
    for path in _paths_of_auto(ctx.data, ()):
        in_unknown_section = any(path[:length] in unknown for length in range(1, len(path)))
        if in_unknown_section or dotted_path(path) in resolved or is_overwritten_by_accelerate(ctx, path):
            continue
        trainer_argument = ctx.consumer == "accelerate" and BY_NAME["transformers"].origin_of_value(
            dotted_path(path)
        )
        yield ctx.at(
            path,
            f'{format_key(path)} is `"auto"`, but {consumer_label(ctx)} does not resolve it and raises '
            f'"`{dotted_path(path)}` not found in kwargs"',
            help="set it to a value: only Transformers' Trainer resolves it, from "
            f"{_format_arguments(trainer_argument)}"
            if trainer_argument
            else "set it to a value, or remove it",
        )


def _format_arguments(origin: str) -> str:
    return join_alternatives((f"`{name}`" for name in origin.strip("[]").split(", ")), "and")


_CONSTANTS = (
    ("zero_optimization.stage", "`2`", "ZeRO stage 2"),
    ("zero_optimization.offload_optimizer.device", '`"none"`', "no optimizer offload"),
    ("zero_optimization.offload_param.device", '`"none"`', "no parameter offload"),
    ("zero_optimization.offload_optimizer.nvme_path", '`"none"`', "not a path"),
    ("zero_optimization.offload_param.nvme_path", '`"none"`', "not a path"),
    (
        "zero_optimization.stage3_gather_16bit_weights_on_model_save",
        "`false`",
        "no gathered 16-bit weights on save",
    ),
)


@rule("DSC805", effect="altered", source=INIT)
def auto_without_training_argument(ctx: Context) -> Iterator[Finding]:
    """A value is "auto", but no training argument sets it, so it resolves to a constant.

    The Trainer creates Accelerate's plugin, which resolves these keys from environment variables that only `accelerate
    launch` sets. With any other launcher, the defaults apply: stage 2, no offload, no gathering of 16-bit weights.

    Bad, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer != "transformers" or not ctx.uses_plugin:
        return
    for key, constant, meaning in _CONSTANTS:
        if ctx.raw(key) == "auto":
            yield ctx.at(
                key,
                f'{format_key(ctx.written_path(key))} is `"auto"`, but no training argument resolves it: it becomes '
                f"{constant} ({meaning}), unless `accelerate launch` sets it",
                help="set the value explicitly",
            )


# Values that the consumer sets itself.


@rule(
    "DSC803",
    effect="rejected",
    source="lightning strategies/deepspeed.py:DeepSpeedStrategy",
    conditions=(
        SchemaCondition(
            "Config",
            (),
            KeyMustBeAbsent(
                "gradient_accumulation_steps",
                "Lightning rejects the key: pass `accumulate_grad_batches` to the Trainer",
            ),
            consumers=("lightning",),
        ),
    ),
)
def accumulation_in_lightning_config(ctx: Context) -> Iterator[Finding]:
    """`gradient_accumulation_steps` is set, but Lightning's Trainer sets it itself.

    Lightning's strategy writes the Trainer's `accumulate_grad_batches` to this key, and raises if the config sets it.

    Bad, read by lightning:

        {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}

    Good, read by lightning:

        {"train_micro_batch_size_per_gpu": 4}

    Fixed, read by lightning:

        {"train_micro_batch_size_per_gpu": 4}
    """
    key = "gradient_accumulation_steps"
    if ctx.consumer == "lightning" and key in ctx.data and not (ctx.filled and key in ctx.filled.added_keys):
        steps = ctx.data[key]
        # Lightning accepts an integer, and does not resolve "auto".
        is_positive_integer = isinstance(steps, int) and not isinstance(steps, bool) and steps > 0
        yield ctx.at(
            (key,),
            f"`{key}` is {quote_value(ctx.data[key])}, but Lightning rejects a config that has this key",
            help="remove it, and pass "
            + (
                f"`accumulate_grad_batches={steps}`"
                if is_positive_integer
                else "an integer `accumulate_grad_batches`"
            )
            + " to the Trainer",
            part="key",
            fix=remove_key((key,)),
        )


@rule("DSC804", effect="wasteful", source=INIT)
def value_that_the_consumer_overwrites(ctx: Context) -> Iterator[Finding]:
    """Accelerate overwrites a value of the config.

    Accelerate and Transformers' Trainer set `steps_per_print` to infinity, so that DeepSpeed prints no progress. They
    report progress themselves, and training does not change, so this is informational. They set
    `zero_allow_untested_optimizer` to true if the config has no `optimizer`. A value of false requests a check that
    then does not happen, so this is a warning.

    Bad, read by transformers:

        {"train_batch_size": "auto", "steps_per_print": 100, "zero_optimization": {"stage": 2}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}

    Fixed, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if not ctx.uses_plugin:
        return
    for key, replacement, effect in _OVERWRITTEN:
        value = ctx.data.get(key, MISSING)
        if (
            value is MISSING
            or not is_overwritten_by_accelerate(ctx, (key,))
            or (value and key != "steps_per_print")
        ):
            continue
        yield ctx.at(
            (key,),
            f"`{key}` is {quote_value(value)}, but {consumer_label(ctx)} always sets it to {replacement}",
            help="remove it",
            effect=effect,
            fix=remove_key((key,), safe=True),
        )


_OVERWRITTEN: tuple[tuple[str, str, EffectName], ...] = (
    ("steps_per_print", "infinity", "wasteful"),
    ("zero_allow_untested_optimizer", "`true`", "altered"),
)
"""Keys that a consumer overwrites, each with the new value and the effect."""


# Values that DeepSpeed accepts, but Accelerate's plugin does not.


@rule(
    "DSC802",
    effect="rejected",
    source=INIT,
    conditions=(
        SchemaCondition(
            "Config",
            (EffectiveValueIs("autotuning.enabled", (False,)),),
            KeyIsRequired("zero_optimization"),
            consumers=HUGGING_FACE,
        ),
    ),
)
def missing_zero_optimization(ctx: Context) -> Iterator[Finding]:
    """The config has no `zero_optimization`, but Accelerate's plugin requires it.

    For DeepSpeed a missing section means stage 0. Transformers' Trainer creates the same plugin, so it rejects the
    config too. With `autotuning`, neither reads this file, because the launcher writes other configs, which have a
    stage (autotuning/autotuner.py:Autotuner.tune).

    Bad, read by transformers:

        {"train_batch_size": "auto", "bf16": {"enabled": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 0}}
    """
    if ctx.uses_plugin and "zero_optimization" not in ctx.data and not _is_zero_tuned(ctx):
        yield ctx.at(
            ("zero_optimization",),
            f"`zero_optimization` is missing, and {consumer_label(ctx)} rejects a config without it",
            help='add `"zero_optimization": {"stage": 0}` to train as DeepSpeed does without the section',
            part="key",
            fix=Fix(
                "add `zero_optimization` with stage 0",
                (SetValue(("zero_optimization",), {"stage": 0}),),
                True,
            ),
        ).about_missing(("zero_optimization",))


def _is_zero_tuned(ctx: Context) -> bool:
    block = ctx.data.get("autotuning")
    return isinstance(block, dict) and block.get("enabled") is True


@rule("DSC806", effect="rejected", source="accelerate accelerator.py:Accelerator._prepare_deepspeed")
def null_section_with_accelerate(ctx: Context) -> Iterator[Finding]:
    """A section is null, which DeepSpeed accepts but Accelerate rejects.

    `Accelerator.prepare` reads the device of `offload_optimizer` if the script creates the optimizer, and the size of
    `tensor_parallel`. If the section is null, it raises an AttributeError.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2, "offload_optimizer": null}}

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}

    Fixed, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if not ctx.uses_plugin:
        return
    zero = ctx.data.get("zero_optimization")
    reads_size = "tensor_parallel" in ctx.data and consumer_has_change(ctx, "tensor_parallel")
    sections: list[tuple[str, ...]] = [("tensor_parallel",)] if reads_size else []
    reads_device = "optimizer" not in ctx.data and consumer_has_change(ctx, "own_offload")
    if reads_device and isinstance(zero, dict) and "offload_optimizer" in zero:
        sections.append(("zero_optimization", "offload_optimizer"))
    rejected = {event.path for event in ctx.walk.rejected}
    for path in sections:
        if ctx.raw(dotted_path(path)) is None and path not in rejected:
            yield ctx.at(
                path,
                f"{format_key(path)} is `null`: DeepSpeed accepts that, but {consumer_label(ctx)} expects an object",
                help="remove it",
                fix=remove_key(path, safe=True),
            )


@rule("DSC807", effect="rejected", source=FILL)
def zero_optimization_as_boolean_with_accelerate(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` is a boolean, which DeepSpeed accepts but Accelerate rejects.

    DeepSpeed still accepts the boolean of its first releases; true means stage 1. Accelerate's plugin looks up
    keys in it and raises an AttributeError.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": true}

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 1}}

    Fixed, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 1}}
    """
    value = ctx.data.get("zero_optimization") if ctx.uses_plugin else None
    if isinstance(value, bool):
        section = {"stage": int(value)}
        yield ctx.at(
            "zero_optimization",
            f"`zero_optimization` is {quote_value(value)}: DeepSpeed accepts that, but "
            f"{consumer_label(ctx)} expects an "
            "object",
            help=f"set it to {quote_value(section)}",
            fix=Fix(
                f"replace with {quote_value(section)}",
                (SetValue(("zero_optimization",), section),),
                safe=True,
            ),
        )


@rule("DSC808", effect="rejected", source="accelerate accelerator.py:Accelerator._prepare_deepspeed")
def text_beside_filled_batch_key(ctx: Context) -> Iterator[Finding]:
    """A batch key is a string, from which the consumer computes an "auto" batch key.

    Accelerate multiplies the micro batch size, the accumulation steps and the number of processes, and fails on
    a quoted number. The Trainer also compares the string with its own number, and finds a mismatch.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "gradient_accumulation_steps": "8",
        "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}

    Good, read by accelerate:

        {"train_batch_size": "auto", "gradient_accumulation_steps": 8,
        "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}

    Fixed, read by accelerate:

        {"train_batch_size": "auto", "gradient_accumulation_steps": 8,
        "train_micro_batch_size_per_gpu": 1, "zero_optimization": {"stage": 2}}
    """
    if not ctx.uses_plugin or all(ctx.data.get(key) != "auto" for key in KEYS):
        return
    for key in KEYS:
        value = ctx.data.get(key)
        if isinstance(value, str) and value != "auto":
            digits = value.isascii() and value.isdigit() and len(value) < 20
            yield ctx.at(
                (key,),
                f"`{key}` is the string {quote_value(value)}, but {consumer_label(ctx)} computes the batch size from"
                " it",
                help=f"write {value}, without quotes" if digits else "set it to an integer",
                fix=Fix("remove the quotes", (SetValue((key,), int(value)),), safe=True) if digits else None,
            )


# Configs that only earlier versions of Transformers and Accelerate reject.


@rule("DSC811", effect="rejected", source="transformers 4.31 deepspeed.py:deepspeed_optim_sched")
def optimizer_without_scheduler(ctx: Context) -> Iterator[Finding]:
    """The config has an `optimizer` without a `scheduler`, which Transformers 4.30 to 4.33.2 rejects.

    DeepSpeed accepts this, as do other versions of the Trainer, which create the scheduler from the training arguments.
    In these versions, the Trainer raises "Found `optimizer` configured in the DeepSpeed config, but no `scheduler`".

    Bad, read by transformers==4.31:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}

    Good, read by transformers==4.31:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer != "transformers" or not ctx.uses_plugin or consumer_has_change(ctx, "own_schedule"):
        return
    if "optimizer" in ctx.data and "scheduler" not in ctx.data:
        yield ctx.at(
            ("scheduler",),
            "the config has an `optimizer` but no `scheduler`, which the Trainer in Transformers "
            f"{ctx.version} rejects",
            help="remove `optimizer`, add `scheduler`, or use Transformers 4.33.3 or later",
            part="key",
        )


@rule("DSC812", effect="rejected", source="accelerate 0.34 accelerator.py:Accelerator._prepare_deepspeed")
def micro_batch_absent_before_accelerate_1(ctx: Context) -> Iterator[Finding]:
    """`train_micro_batch_size_per_gpu` is missing, but Accelerate requires it before version 1.0.

    DeepSpeed derives it from the other two batch keys. Before 1.0 `Accelerator.prepare` computes with the key
    before DeepSpeed reads the config, and raises a KeyError or a TypeError.

    Bad, read by accelerate==0.34:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}

    Good, read by accelerate==0.34:

        {"train_batch_size": 8, "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}

    Fixed, read by accelerate==0.34:

        {"train_batch_size": 8, "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer == "accelerate" and MICRO not in ctx.data and not consumer_has_change(ctx, "no_micro"):
        yield ctx.at(
            (MICRO,),
            f"`{MICRO}` is missing, and Accelerate {ctx.version} rejects a config without it",
            help='write "auto", which resolves to the batch size of the data loader',
            part="key",
            fix=Fix(f'add `{MICRO}` as "auto"', (SetValue((MICRO,), "auto"),), safe=True),
        )


@rule("DSC813", effect="altered", since="0.16.0", source="runtime/engine.py:DeepSpeedEngine.no_sync")
def accumulation_under_no_sync(ctx: Context) -> Iterator[Finding]:
    """Gradient accumulation uses `no_sync`, which ZeRO stages 2 and 3 reject since 0.16.0.

    Transformers 4.30 to 4.47.0 enters Accelerate's `no_sync` for every micro batch but the last of a step, as does a
    script that calls `accelerator.accumulate`. Accelerate before 1.9 forwards it to the engine, which has a `no_sync`
    since 0.16.0 and raises "no_sync context manager is incompatible with gradient partitioning logic of ZeRO stage 2".
    For a Trainer started with an Accelerate launch file, the version of Transformers decides: since 4.47.1, the Trainer
    does not use `no_sync` with DeepSpeed (trainer.py, `_inner_training_loop`). This is a warning, because the version
    of the other library is unknown.

    Bad, read by transformers==4.46, release 0.16.0:

        {"train_batch_size": "auto", "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2}}

    Good, read by transformers==4.46, release 0.16.0:

        {"train_batch_size": "auto", "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 1}}
    """
    if not ctx.uses_plugin:
        return
    steps = ctx.raw(STEPS)
    accumulates = steps == "auto" or (isinstance(steps, int | float) and steps > 1)
    if consumer_has_change(ctx, "no_sync") or not accumulates or effective_stage(ctx) < 2:
        return
    version = ctx.version if ctx.consumer == "transformers" else _trainer_version(ctx)
    is_trainer = version is not None or ctx.facts.uses_trainer
    if is_trainer and version_includes_change("no_sync", "transformers", version):
        return
    caller = f"Transformers {version}" if is_trainer else "`accelerator.accumulate`"
    upgrade = "Transformers 4.47.1 or later, " if is_trainer else ""
    condition = (
        " if Accelerate is older than 1.9"
        if ctx.consumer == "transformers"
        else f" with Accelerate {ctx.version}"
    )
    count = "several" if steps == "auto" else format_number(steps)
    # Arguments may fill the steps of the Trainer. Accelerate's own "auto" for a launch file says nothing about
    # accumulation: a finding about a key that is not in the file is dropped.
    is_about_steps = ctx.consumer == "accelerate" and ctx.has(STEPS)
    yield ctx.at(
        STEPS if is_about_steps else stage_path(ctx),
        f"with {count} accumulation steps, {caller} enters `no_sync`{condition}, and DeepSpeed"
        f" {ctx.release_name} rejects that at stage {format_number(effective_stage(ctx))}",
        help=f"use {upgrade}Accelerate 1.9 or later, DeepSpeed before 0.16.0, or stage 1",
        related=related_stage(ctx) if is_about_steps else [("the accumulation steps are set here", STEPS)],
    )


def _trainer_version(ctx: Context) -> str | None:
    """Return the Transformers version pinned near an Accelerate launch file, whose script may use the Trainer."""
    from dsconfig.launch.requirements import pinned_consumer_version

    pinned = pinned_consumer_version("transformers", ctx.document.name)
    return pinned and pinned[0]


# Sections that a consumer does not use.

_ALL = (*HUGGING_FACE, "lightning")


class _UnusedKey(NamedTuple):
    """A key that has no effect with some consumers, the reason, and an alternative."""

    path: str
    consumers: tuple[str, ...]
    why: str
    help: str


_DATA = "DeepSpeed does not create the data loaders"
_UNUSED_KEYS = (
    _UnusedKey(
        "activation_checkpointing",
        HUGGING_FACE,
        "it does not call `deepspeed.checkpointing.configure`, which reads the section",
        "remove it: use the model's `gradient_checkpointing` instead",
    ),
    _UnusedKey("dataloader_drop_last", _ALL, _DATA, "remove it: use `drop_last` of the data loader instead"),
    _UnusedKey(
        "data_efficiency.data_sampling.curriculum_learning.enabled",
        _ALL,
        _DATA,
        "disable it: the curriculum sampler is part of DeepSpeed's own data loader",
    ),
    _UnusedKey(
        "pipeline", _ALL, "only a `PipelineModule` reads the section, and it builds none", "remove it"
    ),
    _UnusedKey(
        "checkpoint.parallel_write.pipeline_stage",
        _ALL,
        "only a `PipelineModule` reads the key, and it builds none",
        "remove it",
    ),
)


@rule(
    "DSC990",
    effect="ignored",
    source="accelerate accelerator.py:Accelerator._prepare_deepspeed, "
    "lightning strategies/deepspeed.py:DeepSpeedStrategy",
)
def section_unused_by_consumer(ctx: Context) -> Iterator[Finding]:
    """A section configures a feature that the consumer does not use.

    Transformers, Accelerate and Lightning create the data loaders themselves and build no pipelines. Transformers and
    Accelerate do not configure DeepSpeed's activation checkpointing either, without which the section has no effect.
    Your own script may still use these features.

    Bad, read by transformers:

        {"train_batch_size": "auto", "activation_checkpointing": {"partition_activations": true}}

    Good, read by transformers:

        {"train_batch_size": "auto"}

    Fixed, read by transformers:

        {"train_batch_size": "auto"}
    """
    if ctx.consumer == "deepspeed":
        return
    for row in _UNUSED_KEYS:
        parts = row.path.split(".")
        if (
            ctx.consumer not in row.consumers
            or parts[0] not in ctx.data
            or not _is_feature_requested(ctx, row.path)
        ):
            continue
        feature = tuple(parts if parts[-1] != "enabled" else parts[:-1])
        yield ctx.at(
            row.path,
            f"{format_key(feature)} has no effect with {consumer_label(ctx)}: {row.why}",
            help=row.help,
            part="key",
            fix=remove_key(tuple(parts)) if len(parts) == 1 else None,
        )


def _is_feature_requested(ctx: Context, path: str) -> bool:
    """Return whether the config requests a feature, by a switch or a nonempty section."""
    value = ctx.raw(path)
    if not ctx.has(path) or ctx.key(path) is None:
        return False
    return any(map(bool, value.values())) if isinstance(value, dict) else bool(value)
