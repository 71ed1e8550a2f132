"""Models that a program loads, prepares, counts or passes on in a way that conflicts with the config."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import value_at_dotted_path
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._effective_values import effective_stage
from dsconfig.rules.consumers.program_calls import at_stage, first_uses, is_named


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

    Accelerate makes one engine of each call of `prepare`. It raises "You can't use same `Accelerator()` instance with
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

    With DeepSpeed the call with the model starts the engine, and it needs the optimizer: stage 1 or 2 raises "zero
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

    From the moment stage 3 has partitioned a parameter, its tensor on each rank is empty. The whole size is its
    attribute `ds_numel`.

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
    """A trainer of TRL starts the engine of its reference model before the Trainer resolves "auto" in the schedule.

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
    """A bucket is "auto", but the trained model has no `config` from which the Trainer takes `hidden_size`.

    The Trainer computes the sizes from `model.config.hidden_size`. For a plain `torch.nn.Module` without an attribute
    `config` it raises "The model's config file has neither `hidden_size` nor `hidden_sizes` entry", or an
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
