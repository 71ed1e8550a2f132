"""Calls in the Python program that conflict with settings of its config."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import EffectName
from dsconfig.core.json_types import value_at_dotted_path
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.job.consumers.accelerate_launch_file import BLOCK, LINK, deepspeed_block
from dsconfig.launch.calls_of_program import ConfigSensitiveCall, Kind
from dsconfig.launch.config_sensitive_calls import find_config_sensitive_calls
from dsconfig.rules._effective_values import effective_stage, related_stage_key, stage_path

# The location is that of the setting in the config, and the message names the line of the program. All are
# warnings or informational, because a condition at run time may still skip the call.


def first_uses(ctx: Context, *kinds: Kind) -> Iterator[ConfigSensitiveCall]:
    """Yield the first call of each kind in the programs that pass the config to its consumer."""
    uses = [
        use
        for program in ctx.facts.program_files
        for use in find_config_sensitive_calls(program, ctx.document.name)
    ]
    for kind in kinds:
        yield from [use for use in uses if use.kind == kind][:1]


def is_named(ctx: Context) -> bool:
    """Return whether any Python program is known that passes the config to its consumer."""
    return bool(ctx.facts.program_files)


def at_stage(
    ctx: Context, use: ConfigSensitiveCall, consequence: str, help: str, effect: EffectName | None = None
) -> Finding:
    """Build a finding about a call of the program, located at the ZeRO stage in the config."""
    return ctx.at(
        stage_path(ctx), f"{use.location} calls `{use.text}`: {consequence}", help=help, effect=effect
    )


@rule(
    "DSC833",
    effect="altered",
    source="transformers integrations/accelerate.py:check_and_set_device_map",
)
def device_map_with_deepspeed(ctx: Context) -> Iterator[Finding]:
    """The program loads the model with `device_map` or `low_cpu_mem_usage`, which ZeRO stage 3 does not support.

    Stage 3 partitions the model while it is loaded. If the training arguments exist by then, `from_pretrained` raises
    "DeepSpeed Zero-3 is not compatible with passing a `device_map`"; `low_cpu_mem_usage=True` is rejected before
    Transformers 4.49. At every stage, a map such as "auto" spreads the model over all GPUs in each process, and the
    Trainer raises "You can't train a model that has been loaded with `device_map='auto'` in any distributed mode".
    dsconfig reports this only for calls that the source of the program shows.

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or not ctx.uses_plugin or not ctx.has("zero_optimization"):
        return
    is_stage_3 = effective_stage(ctx) == 3
    # Before the training arguments exist, `from_pretrained` does not know about stage 3 and accepts both.
    early = {use.location for use in first_uses(ctx, "model before arguments", "model before plugin")}
    for use in first_uses(ctx, "device map", "spread device map", "low memory load"):
        is_partitioned = is_stage_3 and use.location not in early and not ctx.facts.loads_whole
        if use.kind == "low memory load":
            if is_partitioned and _rejects_low_memory_load(ctx):
                yield at_stage(
                    ctx, use, "stage 3 rejects `low_cpu_mem_usage=True`", "remove `low_cpu_mem_usage`"
                )
        elif is_partitioned:
            yield at_stage(ctx, use, "stage 3 rejects `device_map`", "remove `device_map`")
        elif use.kind == "spread device map" and ctx.world_size != 1:
            yield at_stage(
                ctx,
                use,
                "each process spreads the model over all GPUs, and cannot train it with others",
                "remove `device_map`",
            )


def _rejects_low_memory_load(ctx: Context) -> bool:
    """Return whether Transformers is known to reject `low_cpu_mem_usage`."""
    if ctx.consumer != "transformers" or ctx.version is None:
        return False
    parts = ctx.version.split(".")
    return [int(part) for part in parts[:2] if part.isdigit()] < [4, 49]


@rule("DSC834", effect="altered", source="peft docs/source/accelerate/deepspeed.md")
def quantized_weights_at_stage_3(ctx: Context) -> Iterator[Finding]:
    """The program quantizes the model with bitsandbytes in a form that ZeRO stage 3 does not shard.

    Stage 3 partitions floating-point parameters. PEFT supports QLoRA at stage 3 only if the 4-bit weights are
    stored in a floating-point type, `bnb_4bit_quant_storage`, that equals the dtype of the model; the default is
    `uint8`. Weights in 8 bits are not supported at stage 3.

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or not ctx.uses_plugin or effective_stage(ctx) != 3:
        return
    for use in first_uses(ctx, "8-bit weights", "4-bit weights"):
        if use.kind == "8-bit weights":
            yield at_stage(ctx, use, "stage 3 cannot shard 8-bit weights", "use stage 2, or 4 bits")
        else:
            yield at_stage(
                ctx,
                use,
                "stage 3 shards 4-bit weights only if they are stored in a floating-point type",
                "pass `bnb_4bit_quant_storage=torch.bfloat16`, the dtype of the model, or use stage 2",
            )


@rule("DSC835", effect="altered", source="runtime/engine.py:DeepSpeedEngine.save_checkpoint")
def checkpoint_saved_by_one_rank(ctx: Context) -> Iterator[Finding]:
    """The program saves under a condition that holds only on one rank, but all ranks must save.

    `save_checkpoint`, `save_16bit_model` and Accelerate's `save_state` wait for every rank, and at stage 3 so do
    `Trainer.save_model` and `get_state_dict`, which gather the weights. If only rank 0 calls them, it waits until
    NCCL times out. Call them on every rank; they write each file once.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or not ctx.has("zero_optimization") or ctx.world_size == 1:
        return
    kinds: list[Kind] = ["collective save on one rank"] if effective_stage(ctx) > 0 else []
    kinds += ["collective save of stage 3 on one rank"] if effective_stage(ctx) == 3 else []
    for use in first_uses(ctx, *kinds):
        yield at_stage(
            ctx, use, "only on one rank, but the call waits for all of them", "call it on every rank"
        )


@rule("DSC836", effect="altered", source="runtime/zero/partition_parameters.py:Init")
def partitions_saved(ctx: Context) -> Iterator[Finding]:
    """The program saves the model at stage 3 without gathering its parameters.

    Each rank holds a partition, and the parameters of the module are empty between the steps: `state_dict()` and
    `save_pretrained` without `state_dict` write tensors of size 0, also after `Trainer.train`, which partitions the
    model that it was given.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or effective_stage(ctx) != 3:
        return
    if ctx.consumer == "transformers":
        remedy = "use `save_model` of the Trainer, with `stage3_gather_16bit_weights_on_model_save`"
    elif ctx.uses_plugin:
        remedy = "pass `state_dict=accelerator.get_state_dict(model)`, called on every rank"
    else:
        remedy = "use `save_16bit_model` of the engine, or `zero_to_fp32.py`"
    for use in first_uses(ctx, "save without gathering"):
        yield at_stage(ctx, use, "at stage 3 the parameters of the module are empty", remedy)


@rule("DSC837", effect="wasteful", source="runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3")
def model_on_gpu_before_partitioning(ctx: Context) -> Iterator[Finding]:
    """The program copies the whole model to the GPU before `deepspeed.initialize` partitions it.

    Each GPU must then hold the complete model once, which stage 3 is meant to avoid. `deepspeed.initialize` moves the
    partitions to the GPU itself.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or ctx.consumer != "deepspeed" or effective_stage(ctx) != 3:
        return
    for use in first_uses(ctx, "move to device"):
        yield at_stage(
            ctx,
            use,
            "each GPU has to hold the complete model before stage 3 partitions it",
            "remove the call, or create the model in `deepspeed.zero.Init`",
        )


@rule("DSC838", effect="wasteful", source="transformers integrations/deepspeed.py:HfTrainerDeepSpeedConfig")
def model_loaded_before_arguments(ctx: Context) -> Iterator[Finding]:
    """The program loads the model before it creates the training arguments, so stage 3 does not partition it.

    `from_pretrained` partitions the model while it is loaded only if `TrainingArguments` with the config exist already.
    Otherwise each process loads the complete model, so a node needs host memory for as many copies as it has GPUs.

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or ctx.consumer != "transformers" or effective_stage(ctx) != 3:
        return
    for use in first_uses(ctx, "model before arguments"):
        yield at_stage(
            ctx,
            use,
            "before the training arguments exist, so every process loads the complete model",
            "create `TrainingArguments` first",
        )


_PREPARE = "accelerate accelerator.py:Accelerator._prepare_deepspeed"
_MICRO = "train_micro_batch_size_per_gpu"


@rule("DSC839", effect="altered", source=_PREPARE)
def prepared_without_loader(ctx: Context) -> Iterator[Finding]:
    """The program calls `prepare` without a data loader, but the micro batch size is "auto".

    Accelerate takes the micro batch size from the data loader among the arguments of the same call, and raises "When
    using DeepSpeed, `accelerate.prepare()` requires you to pass at least one of training or evaluation dataloaders" if
    there is none. Without a config file, an Accelerate launch file implies "auto".

    Good, read by accelerate:

        {"train_batch_size": "auto", "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}
    """
    if not is_named(ctx) or ctx.consumer != "accelerate" or ctx.raw(_MICRO) != "auto":
        return
    for use in first_uses(ctx, "prepare without loader"):
        yield ctx.at(
            _MICRO,
            f'`{_MICRO}` is "auto", but {use.location} calls `{use.text}` without a data loader to take it from',
            help="set it to a number, or pass the data loader to the same call",
        )


@rule("DSC840", effect="altered", source=_PREPARE)
def optimizer_in_code_and_config(ctx: Context) -> Iterator[Finding]:
    """The program and the config disagree on which of them creates the optimizer or the scheduler.

    Accelerate requires `DummyOptim` if and only if the config has an `optimizer`, and `DummyScheduler` if it has a
    `scheduler`. It raises "You cannot specify an optimizer in the config file and in the code at the same time" or "You
    cannot create a `DummyOptim` without specifying an optimizer in the config file".

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if not is_named(ctx) or ctx.consumer != "accelerate" or not ctx.uses_plugin:
        return
    for section, dummy, written, placeholder in _CREATED:
        is_set = ctx.has(section)
        for use in first_uses(ctx, written if is_set else placeholder):
            # A launch file of Accelerate has no key for an absent section.
            yield ctx.at(
                section if is_set else stage_path(ctx),
                f"the config has a section `{section}`, but {use.location} passes its own to `{use.text}`"
                if is_set
                else f"the config has no `{section}`, but {use.location} calls `{use.text}`",
                help=f"remove `{section}`, or create `{dummy}` in the program"
                if is_set
                else f"add `{section}`, or create a real {section} in the program",
                part="key",
            )


_CREATED: tuple[tuple[str, str, Kind, Kind], ...] = (
    ("optimizer", "DummyOptim", "own optimizer", "dummy optimizer"),
    ("scheduler", "DummyScheduler", "own scheduler", "dummy scheduler"),
)
"""Sections, Accelerate's placeholders for them, and the calls that create the object or the placeholder."""


@rule(
    "DSC841",
    effect="crashes",
    since="0.5.7",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer",
)
def zero_without_optimizer(ctx: Context) -> Iterator[Finding]:
    """The program starts an engine without an optimizer at stage 1 or 2, for example for a reference model.

    Neither the config nor the program provides an optimizer, and DeepSpeed raises "zero stage 2 requires an optimizer".
    Only stage 3 partitions a model without an optimizer, and stage 0 needs none.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or ctx.consumer != "deepspeed" or not 0 < effective_stage(ctx) < 3:
        return
    if ctx.has("optimizer") or ctx.overwrite("optimizer") or ctx.overwrite("zero_optimization.stage"):
        return
    for use in first_uses(ctx, "initialize without optimizer"):
        yield ctx.at(
            stage_path(ctx),
            f"{use.location} calls `{use.text}` without an optimizer, and the config has none: stage"
            f" {effective_stage(ctx):g} requires one",
            help="use stage 3 or stage 0 for a model that is not trained, or add `optimizer`",
            related=related_stage_key(ctx),
        )


@rule(
    "DSC872",
    effect="crashes",
    since="0.7.0",
    source="runtime/engine.py:DeepSpeedEngine.load_checkpoint",
)
def checkpoint_loaded_without_optimizer(ctx: Context) -> Iterator[Finding]:
    """The program loads a checkpoint at stage 3 into an engine that has no optimizer.

    Without an optimizer, stage 3 uses `DeepSpeedZeRoOffload`, which gathers parameters but cannot load a checkpoint:
    "'DeepSpeedZeRoOffload' object has no attribute 'load_state_dict'", or `_restore_from_bit16_weights` with
    `load_module_only`.

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or ctx.consumer != "deepspeed" or effective_stage(ctx) != 3:
        return
    if ctx.has("optimizer") or ctx.overwrite("optimizer") or ctx.overwrite("zero_optimization.stage"):
        return
    for use in first_uses(ctx, "load without optimizer"):
        yield ctx.at(
            stage_path(ctx),
            f"{use.location} calls `{use.text}` on an engine without an optimizer, which stage 3 cannot load into",
            help="add `optimizer`, or convert the checkpoint with `zero_to_fp32.py` and load the weights into the"
            " model before `initialize`",
        )


@rule("DSC848", effect="altered", source="runtime/zero/partition_parameters.py:Init")
def partitioned_below_stage_3(ctx: Context) -> Iterator[Finding]:
    """The program builds the model under `deepspeed.zero.Init`, but the stage is below 3.

    `zero.Init` partitions parameters, which only stage 3 gathers again. At other stages, modules compute with
    parameters of size 0 and fail, for example with "'weight' must be 2-D". The argument `enabled` of `zero.Init`
    disables partitioning at these stages.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or effective_stage(ctx) == 3 or ctx.overwrite("zero_optimization.stage"):
        return
    for use in first_uses(ctx, "partitioned construction"):
        yield ctx.at(
            stage_path(ctx),
            f"{use.location} calls `{use.text}`, which partitions the parameters, but only stage 3 gathers them again",
            help="use stage 3, or pass `enabled=False`",
            related=related_stage_key(ctx),
        )


@rule("DSC849", effect="altered", source=_PREPARE, reads="launch file")
def model_partitioned_without_engine(ctx: Context) -> Iterator[Finding]:
    """`zero3_init_flag` partitions every model of the program, but one of them is never prepared.

    With the flag, each `from_pretrained` after `Accelerator()` loads a partitioned model, including frozen text
    encoders, teachers and reference models. Only an engine gathers the parameters again: a model that is not passed to
    `prepare` fails in its first forward pass, with "'weight' must be 2-D" or a tensor of size 0.

    Good:

        {"distributed_type": "DEEPSPEED",
        "deepspeed_config": {"zero_stage": 3, "zero3_init_flag": false, "zero3_save_16bit_model": true}}
    """
    settings = deepspeed_block(ctx.data)
    if not is_named(ctx) or LINK in settings or settings.get("zero3_init_flag") is not True:
        return
    if ctx.data.get("distributed_type") != "DEEPSPEED" or str(settings.get("zero_stage", 2)) != "3":
        return
    for use in first_uses(ctx, "unprepared model"):
        yield ctx.at(
            (BLOCK, "zero3_init_flag"),
            f"`zero3_init_flag` is `true`, so {use.location} loads a partitioned model with `{use.text}`, but the"
            " program never prepares it",
            help="set it to `false`, or load the model inside `zero3_init_context_manager(enable=False)`",
            related=[("the stage is set here", (BLOCK, "zero_stage"))],
        )


# Models that a program loads, prepares, counts or hands to a trainer in a way that the config does not allow.


@rule("DSC863", effect="altered", source="runtime/zero/partition_parameters.py:Init")
def model_loaded_on_one_rank_first(ctx: Context) -> Iterator[Finding]:
    """The program loads the model on one rank before the others, but stage 3 partitions it while it is loaded.

    Under `main_process_first()` the other ranks wait for the main process, which waits for them in the first
    collective operation of `zero.Init`. The job hangs, without a message, until NCCL's timeout.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or effective_stage(ctx) != 3 or ctx.facts.loads_whole:
        return
    if ctx.consumer not in ("transformers", "accelerate"):
        return
    for use in first_uses(ctx, "load on one rank first"):
        yield at_stage(
            ctx,
            use,
            "all ranks have to load the model together at stage 3, so the job hangs",
            "load the model outside of `main_process_first`, or use stage 2",
        )


@rule("DSC864", effect="altered", source="accelerate accelerator.py:Accelerator.prepare")
def several_models_prepared(ctx: Context) -> Iterator[Finding]:
    """The program trains several models with a single `Accelerator`.

    Accelerate creates one engine per call of `prepare`. It raises "You can't use same `Accelerator()` instance with
    multiple models when using DeepSpeed" for two models in one call, and before 1.0 also for a second call. Since
    1.0, `accelerator.backward` calls the engine of the first model, whichever model the loss comes from.

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if not is_named(ctx) or ctx.consumer != "accelerate" or not ctx.uses_plugin:
        return
    for use in first_uses(ctx, "several models"):
        yield at_stage(
            ctx,
            use,
            f"with DeepSpeed, Accelerate rejects several models in one call: {use.value}",
            "combine them in one module, or train one of them",
        )
    for use in first_uses(ctx, "second model"):
        yield at_stage(
            ctx,
            use,
            f"`accelerator.backward` runs the engine of `{use.value}` only, which was prepared first",
            "create an `Accelerator` for each model",
        )


@rule("DSC868", effect="altered", source="accelerate accelerator.py:Accelerator._prepare_deepspeed")
def optimizer_prepared_alone(ctx: Context) -> Iterator[Finding]:
    """The program passes the model and its optimizer to two calls of `accelerator.prepare`.

    With DeepSpeed, the call with the model creates the engine, which needs the optimizer: stage 1 or 2 raises "zero
    stage 2 requires an optimizer". Old versions of Accelerate raise "You need to pass the model along the optimizer
    when using Deepspeed".

    Good, read by accelerate:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if not is_named(ctx) or ctx.consumer != "accelerate" or not ctx.uses_plugin or ctx.has("optimizer"):
        return
    for use in first_uses(ctx, "optimizer prepared alone"):
        yield at_stage(
            ctx,
            use,
            "the engine starts in the call that prepares the model, without this optimizer",
            "pass the model, the optimizer and a data loader to the same call",
        )


@rule("DSC865", effect="wasteful", source="runtime/zero/partition_parameters.py:free_param")
def sizes_of_partitions_counted(ctx: Context) -> Iterator[Finding]:
    """The program counts elements with `numel()`, which returns 0 for a partitioned parameter.

    Once stage 3 has partitioned a parameter, its tensor is empty on each rank. The attribute `ds_numel` has its full
    size.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or effective_stage(ctx) != 3 or ctx.facts.loads_whole:
        return
    # A model that is loaded before stage 3 is known is whole at first.
    if any(True for _ in first_uses(ctx, "model before arguments", "whole model")):
        return
    for use in first_uses(ctx, "size of partition"):
        yield at_stage(
            ctx,
            use,
            "it is 0 for each parameter that stage 3 has partitioned",
            "count `ds_numel` where the parameter has it",
        )


@rule("DSC866", effect="crashes", source="trl models/utils.py:prepare_deepspeed")
def schedule_unresolved_for_reference_model(ctx: Context) -> Iterator[Finding]:
    """A TRL trainer starts the engine of its reference model before the Trainer resolves "auto" in the schedule.

    TRL passes a copy of the config to `deepspeed.initialize`. The Trainer resolves `warmup_num_steps` and
    `total_num_steps` only when training starts, so that DeepSpeed compares "auto" with a number: "TypeError: '>' not
    supported between instances of 'str' and 'int'". Without an `optimizer` section the engine creates no schedule.

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or ctx.consumer != "transformers" or not ctx.has("optimizer"):
        return
    data = ctx.document.value(ctx.parser)
    for key in ("warmup_num_steps", "total_num_steps"):
        path = f"scheduler.params.{key}"
        if not isinstance(data, dict) or value_at_dotted_path(data, path) != "auto":
            continue
        for use in first_uses(ctx, "reference model"):
            yield ctx.at(
                path,
                f'`{key}` is "auto" when {use.location} starts the engine of the reference model: `{use.text}`',
                help="write the number of steps, or remove `scheduler`",
            )
        return


_SIZES_FROM_HIDDEN_SIZE = (
    "reduce_bucket_size",
    "stage3_prefetch_bucket_size",
    "stage3_param_persistence_threshold",
)


@rule(
    "DSC867",
    effect="altered",
    source="transformers integrations/deepspeed.py:HfTrainerDeepSpeedConfig.trainer_config_finalize",
)
def auto_size_of_model_without_config(ctx: Context) -> Iterator[Finding]:
    """A bucket size is "auto", but the trained model has no `config` with a `hidden_size`.

    The Trainer computes bucket sizes from `model.config.hidden_size`. For a plain `torch.nn.Module` without an
    attribute `config` it raises "The model's config file has neither `hidden_size` nor `hidden_sizes` entry", or an
    AttributeError in old versions.

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2, "reduce_bucket_size": 200000000}}
    """
    if not is_named(ctx) or ctx.consumer != "transformers":
        return
    data = ctx.document.value(ctx.parser)
    for key in _SIZES_FROM_HIDDEN_SIZE:
        path = f"zero_optimization.{key}"
        if isinstance(data, dict) and value_at_dotted_path(data, path) == "auto":
            for use in first_uses(ctx, "model without config"):
                yield ctx.at(
                    path,
                    f'`{key}` is "auto", but the model in {use.location} has no `config` with a `hidden_size`:'
                    f" `{use.text}`",
                    help="write a number, or give the model an attribute `config`",
                )
            return
