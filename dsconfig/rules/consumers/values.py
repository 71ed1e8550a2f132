"""Values that a consumer rejects, overwrites, never uses, or leaves as an unresolved "auto"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dsconfig.consumers import HUGGING_FACE
from dsconfig.core.batch_triplet import KEYS, MICRO, STEPS
from dsconfig.core.diagnostic import EffectName, Fix, Set, dotted
from dsconfig.core.json_types import Json, NamedTuple
from dsconfig.core.wording import compact, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding
from dsconfig.evaluation.rule import Absent, Condition, Counts, Needed, rule
from dsconfig.rules._consumer import FILL, INIT, consumer_label, has_change, overwritten
from dsconfig.rules._effective_values import stage, stage_set_here
from dsconfig.rules._fixes import removal
from dsconfig.rules._suggest_section import named

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


# "auto" that no consumer fills.


def _autos(section: Mapping[str, Json], path: KeyPath) -> Iterator[KeyPath]:
    """Every "auto" in objects; lists are not looked into, as Accelerate does not."""
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _autos(value, (*path, key))
        elif value == "auto" and isinstance(value, str):
            yield (*path, key)


@rule("DSC801", effect="rejected", source=FILL, general=True)
def unsupported_auto(ctx: Context) -> Iterator[Finding]:
    """A value is "auto", and the program that reads the config neither fills it nor lets it pass.

    Transformers' Trainer and Accelerate fill some twenty keys. `Accelerator.prepare` then looks through the
    whole config and raises for every "auto" that is left, also for keys where DeepSpeed itself would take the
    word. `betas` and `eps` of the optimizer are filled by the Trainer alone.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "stage3_max_live_parameters": "auto"}}

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto"}}
    """
    if not ctx.plugged:
        return
    from dsconfig.consumers.consumer import BY_NAME, consumer_of

    fills = {fill.key for fill in consumer_of(ctx.spec).fills}
    unknown = {event.path for event in ctx.walk.unknown}
    for path in _autos(ctx.data, ()):
        inside = any(path[:length] in unknown for length in range(1, len(path)))
        if inside or dotted(path) in fills or overwritten(ctx, path):
            continue
        elsewhere = ctx.consumer == "accelerate" and BY_NAME["transformers"].origin(dotted(path))
        yield ctx.at(
            path,
            f'{named(path)} is `"auto"`, which {consumer_label(ctx)} does not fill: it raises that '
            f"`{dotted(path)}` is not found in kwargs",
            help=f"give a value; only Transformers' Trainer fills it, from {elsewhere}"
            if elsewhere
            else "give a value, or remove the key",
        )


_CONSTANTS = (
    ("zero_optimization.stage", "`2`", "ZeRO is at stage 2"),
    ("zero_optimization.offload_optimizer.device", '`"none"`', "the optimizer is not offloaded"),
    ("zero_optimization.offload_param.device", '`"none"`', "parameters are not offloaded"),
    ("zero_optimization.offload_optimizer.nvme_path", '`"none"`', "which is not a path"),
    ("zero_optimization.offload_param.nvme_path", '`"none"`', "which is not a path"),
    (
        "zero_optimization.stage3_gather_16bit_weights_on_model_save",
        "`false`",
        "no whole 16-bit model is saved under stage 3",
    ),
)


@rule("DSC805", effect="altered", source=INIT)
def auto_without_training_argument(ctx: Context) -> Iterator[Finding]:
    """A value is "auto", for which Transformers has no training argument, so that a constant takes its place.

    Accelerate's plugin, which the Trainer makes, fills these keys from environment variables that only
    `accelerate launch` sets; started in any other way, the constants apply: stage 2, no offload, no gathering
    of 16-bit weights.

    Bad, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer != "transformers" or not ctx.plugged:
        return
    for key, becomes, outcome in _CONSTANTS:
        if ctx.written(key) == "auto":
            yield ctx.at(
                key,
                f'{named(ctx.place(key))} is `"auto"`, which no training argument fills: it becomes '
                f"{becomes} ({outcome}), unless `accelerate launch` says otherwise",
                help="write the value that you want",
            )


# Values that the consumer sets itself.


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
            f"`{key}` is {quoted(value)} here, but {consumer_label(ctx)} makes it {becomes}, whatever is written",
            help="remove it",
            effect=effect,
            fix=removal((key,), safe=True),
        )


_OVERWRITTEN: tuple[tuple[str, str, EffectName], ...] = (
    ("steps_per_print", "infinity", "wasteful"),
    ("zero_allow_untested_optimizer", "`true`", "altered"),
)
"""Keys, what becomes of them, and what that does to the user."""


# Values that DeepSpeed takes, and Accelerate's plugin fails on.


@rule(
    "DSC802",
    effect="rejected",
    source=INIT,
    conditions=(
        Condition(
            "Config",
            (Counts("autotuning.enabled", (False,)),),
            Needed("zero_optimization"),
            consumers=HUGGING_FACE,
        ),
    ),
)
def missing_zero_optimization(ctx: Context) -> Iterator[Finding]:
    """The config has no `zero_optimization`, which Accelerate's plugin asks for.

    DeepSpeed takes its absence for stage 0. Transformers' Trainer makes the same plugin, and so refuses the
    config too. Where `autotuning` is on, neither gets to see the file: the launcher writes others with a
    stage in them (autotuning/autotuner.py:Autotuner.tune).

    Bad, read by transformers:

        {"train_batch_size": "auto", "bf16": {"enabled": "auto"}}

    Good, read by transformers:

        {"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 0}}
    """
    if ctx.plugged and "zero_optimization" not in ctx.data and not _is_tuned(ctx):
        yield ctx.at(
            ("zero_optimization",),
            f"`zero_optimization` is absent, and {consumer_label(ctx)} refuses a config without it",
            help='add `"zero_optimization": {"stage": 0}` to train as DeepSpeed does without the section',
            part="key",
            fix=Fix(
                "add `zero_optimization` with stage 0", (Set(("zero_optimization",), {"stage": 0}),), True
            ),
        )


def _is_tuned(ctx: Context) -> bool:
    block = ctx.data.get("autotuning")
    return isinstance(block, dict) and block.get("enabled") is True


@rule("DSC806", effect="rejected", source="accelerate accelerator.py:Accelerator._prepare_deepspeed")
def null_section_with_accelerate(ctx: Context) -> Iterator[Finding]:
    """A section is null, which DeepSpeed takes, and Accelerate opens.

    `Accelerator.prepare` asks `offload_optimizer` for its device wherever the script brings the optimizer,
    and `tensor_parallel` for its size; on null it ends in an AttributeError.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2, "offload_optimizer": null}}

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}

    Fixed, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if not ctx.plugged:
        return
    zero = ctx.data.get("zero_optimization")
    opened = "tensor_parallel" in ctx.data and has_change(ctx, "tensor_parallel")
    sections: list[tuple[str, ...]] = [("tensor_parallel",)] if opened else []
    own = "optimizer" not in ctx.data and has_change(ctx, "own_offload")
    if own and isinstance(zero, dict) and "offload_optimizer" in zero:
        sections.append(("zero_optimization", "offload_optimizer"))
    refused = {event.path for event in ctx.walk.refused}
    for path in sections:
        if ctx.written(dotted(path)) is None and path not in refused:
            yield ctx.at(
                path,
                f"{named(path)} is `null`: DeepSpeed takes that, but {consumer_label(ctx)} opens it and fails",
                help="remove it",
                fix=removal(path, safe=True),
            )


@rule("DSC807", effect="rejected", source=FILL)
def zero_optimization_as_boolean_with_accelerate(ctx: Context) -> Iterator[Finding]:
    """`zero_optimization` is true or false, which DeepSpeed takes, and Accelerate opens.

    DeepSpeed still reads the boolean of its first releases, true as stage 1. Accelerate's plugin looks for
    keys in it, and ends in an AttributeError.

    Bad, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": true}

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 1}}

    Fixed, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 1}}
    """
    value = ctx.data.get("zero_optimization")
    if ctx.plugged and isinstance(value, bool):
        section = {"stage": int(value)}
        yield ctx.at(
            "zero_optimization",
            f"`zero_optimization` is {quoted(value)}: DeepSpeed takes that, but {consumer_label(ctx)} opens it and "
            "fails",
            help=f"write {quoted(section)}",
            fix=Fix(f"replace by {quoted(section)}", (Set(("zero_optimization",), section),), safe=True),
        )


@rule("DSC808", effect="rejected", source="accelerate accelerator.py:Accelerator._prepare_deepspeed")
def text_beside_filled_batch_key(ctx: Context) -> Iterator[Finding]:
    """A batch key is a text, and another is "auto" and calculated from it.

    Accelerate multiplies micro batch, accumulation steps and processes, and fails on a number in quotes; the
    Trainer holds the text against its own number too, and finds that they differ.

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
    if not ctx.plugged or all(ctx.data.get(key) != "auto" for key in KEYS):
        return
    for key in KEYS:
        value = ctx.data.get(key)
        if isinstance(value, str) and value != "auto":
            digits = value.isascii() and value.isdigit() and len(value) < 20
            yield ctx.at(
                (key,),
                f"`{key}` is the string {quoted(value)}, which {consumer_label(ctx)} cannot calculate with",
                help=f"write {value}, without quotes" if digits else "give an integer",
                fix=Fix("remove the quotes", (Set((key,), int(value)),), safe=True) if digits else None,
            )


# What only earlier versions of Transformers and Accelerate refuse.


@rule("DSC811", effect="rejected", source="transformers 4.31 deepspeed.py:deepspeed_optim_sched")
def optimizer_without_scheduler(ctx: Context) -> Iterator[Finding]:
    """The config has an `optimizer` and no `scheduler`, which Transformers 4.30 to 4.33.2 refuses.

    DeepSpeed takes that, and so do earlier and later versions of the Trainer, which make the scheduler of
    their own arguments. Of those between, the Trainer raises "Found `optimizer` configured in the DeepSpeed
    config, but no `scheduler`".

    Bad, read by transformers==4.31:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2},
        "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}}

    Good, read by transformers==4.31:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer != "transformers" or not ctx.plugged or has_change(ctx, "own_schedule"):
        return
    if "optimizer" in ctx.data and "scheduler" not in ctx.data:
        yield ctx.at(
            ("scheduler",),
            "`scheduler` is absent beside `optimizer`, which the Trainer of Transformers "
            f"{ctx.version} refuses",
            help="remove `optimizer`; or add a `scheduler`; or use Transformers 4.33.3 or newer",
            part="key",
        )


@rule("DSC812", effect="rejected", source="accelerate 0.34 accelerator.py:Accelerator._prepare_deepspeed")
def micro_batch_absent_before_accelerate_1(ctx: Context) -> Iterator[Finding]:
    """`train_micro_batch_size_per_gpu` is absent, which Accelerate refuses before version 1.0.

    DeepSpeed works it out of the other two. Before 1.0 `Accelerator.prepare` calculates with the key before
    DeepSpeed gets to see the config, and ends in a KeyError or a TypeError.

    Bad, read by accelerate==0.34:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}

    Good, read by accelerate==0.34:

        {"train_batch_size": 8, "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}

    Fixed, read by accelerate==0.34:

        {"train_batch_size": 8, "train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2}}
    """
    if ctx.consumer == "accelerate" and MICRO not in ctx.data and not has_change(ctx, "no_micro"):
        yield ctx.at(
            (MICRO,),
            f"`{MICRO}` is absent, and Accelerate {ctx.version} refuses a config without it",
            help='write "auto", which stands for the batch size of the data loader',
            part="key",
            fix=Fix(f'add `{MICRO}` as "auto"', (Set((MICRO,), "auto"),), safe=True),
        )


@rule("DSC813", effect="altered", since="0.16.0", source="runtime/engine.py:DeepSpeedEngine.no_sync")
def accumulation_under_no_sync(ctx: Context) -> Iterator[Finding]:
    """Gradients are accumulated under `no_sync`, which ZeRO stages 2 and 3 refuse from 0.16.0 on.

    Transformers 4.30 to 4.47.0 enters Accelerate's `no_sync` for every micro batch but the last of a step, as
    does a script that calls `accelerator.accumulate`; before 1.9 Accelerate hands that to the engine, which
    has had a `no_sync` since 0.16.0: "no_sync context manager is incompatible with gradient partitioning
    logic of ZeRO stage 2". A warning, because the other library's version is not known.

    Bad, read by transformers==4.46, release 0.16.0:

        {"train_batch_size": "auto", "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 2}}

    Good, read by transformers==4.46, release 0.16.0:

        {"train_batch_size": "auto", "gradient_accumulation_steps": 4, "zero_optimization": {"stage": 1}}
    """
    steps = ctx.written(STEPS)
    accumulates = steps == "auto" or (isinstance(steps, int | float) and steps > 1)
    if not ctx.plugged or has_change(ctx, "no_sync") or not accumulates or stage(ctx) < 2:
        return
    trainer = ctx.consumer == "transformers"
    who = f"Transformers {ctx.version}" if trainer else "`accelerator.accumulate`"
    trainers = "use Transformers 4.47.1 or newer, or " if trainer else ""
    until = " where Accelerate is older than 1.9" if trainer else f" with Accelerate {ctx.version}"
    count = "more than one" if steps == "auto" else compact(steps)
    yield ctx.at(
        STEPS,
        f"with {count} accumulation steps {who} enters `no_sync`{until}, and DeepSpeed"
        f" {ctx.release_name} stops there at stage {compact(stage(ctx))}",
        help=f"{trainers}use Accelerate 1.9 or newer, or use stage 1, or use DeepSpeed before 0.16.0",
        related=stage_set_here(ctx),
    )


# Sections that a consumer never comes to use.

_ALL = (*HUGGING_FACE, "lightning")


class _Idle(NamedTuple):
    """A key without effect for some consumers; `why` they never look at it, and what to do there."""

    path: str
    consumers: tuple[str, ...]
    why: str
    help: str


_DATA = "data loaders are not made by DeepSpeed here"
_ROWS = (
    _Idle(
        "activation_checkpointing",
        HUGGING_FACE,
        "it calls no `deepspeed.checkpointing.configure`, for which the section is",
        "remove it; `gradient_checkpointing` of the model takes its place",
    ),
    _Idle("dataloader_drop_last", _ALL, _DATA, "remove it; `drop_last` of the data loader takes its place"),
    _Idle(
        "data_efficiency.data_sampling.curriculum_learning.enabled",
        _ALL,
        _DATA,
        "leave it off: the sampler of the curriculum is part of DeepSpeed's own loader",
    ),
    _Idle("pipeline", _ALL, "it builds no `PipelineModule`, which alone reads the section", "remove it"),
    _Idle(
        "checkpoint.parallel_write.pipeline_stage",
        _ALL,
        "it builds no `PipelineModule`, which alone reads the key",
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
    """The program that reads the config never comes to what a section is for.

    Transformers, Accelerate and Lightning make the data loaders themselves and build no pipelines; the first
    two do not configure DeepSpeed's activation checkpointing either, which has no effect of itself. A script
    of one's own may do so behind them.

    Bad, read by transformers:

        {"train_batch_size": "auto", "activation_checkpointing": {"partition_activations": true}}

    Good, read by transformers:

        {"train_batch_size": "auto"}

    Fixed, read by transformers:

        {"train_batch_size": "auto"}
    """
    if ctx.consumer == "deepspeed":
        return
    for row in _ROWS:
        parts = row.path.split(".")
        if ctx.consumer not in row.consumers or parts[0] not in ctx.data or not _asks(ctx, row.path):
            continue
        what = tuple(parts if parts[-1] != "enabled" else parts[:-1])
        yield ctx.at(
            row.path,
            f"{named(what)} has no effect under {consumer_label(ctx)}: {row.why}",
            help=row.help,
            part="key",
            fix=removal(tuple(parts)) if len(parts) == 1 else None,
        )


def _asks(ctx: Context, path: str) -> bool:
    """Whether something is asked for there: a switch that is on, a section in which something is."""
    value = ctx.written(path)
    if not ctx.has(path) or ctx.key(path) is None:
        return False
    return any(map(bool, value.values())) if isinstance(value, dict) else bool(value)
