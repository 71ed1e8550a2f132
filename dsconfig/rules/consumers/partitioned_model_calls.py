"""Calls that conflict with partitioned parameters, or with the configured accumulation steps."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.job.consumers.accelerate_launch_file import BLOCK, LINK, deepspeed_block
from dsconfig.rules._effective_values import PARAM, effective_stage, offload_device
from dsconfig.rules._job_programs import program_versions
from dsconfig.rules.consumers.program_calls import at_stage, first_uses, is_named

_STEPS = "gradient_accumulation_steps"
_ACCELERATOR = "accelerate accelerator.py:Accelerator.__init__"


@rule("DSC851", effect="altered", source=_ACCELERATOR, reads="launch file")
def accumulation_set_twice(ctx: Context) -> Iterator[Finding]:
    """The launch file and the program set different numbers of accumulation steps.

    `accelerate launch` exports the number of the launch file, and `Accelerator(gradient_accumulation_steps=...)` uses
    the exported number instead of its argument. Transformers' Trainer compares both, and raises "Please correct the
    following DeepSpeed config values that mismatch TrainingArguments values".

    Good:

        {"distributed_type": "DEEPSPEED",
        "deepspeed_config": {"zero_stage": 2, "gradient_accumulation_steps": 4}}
    """
    settings = deepspeed_block(ctx.data)
    steps = _integer(settings.get(_STEPS))
    if steps is None or LINK in settings or ctx.data.get("distributed_type") != "DEEPSPEED":
        return
    if ctx.facts.uses_trainer:
        argument = None if ctx.arguments is None else ctx.arguments.arguments.get(_STEPS)
        if isinstance(argument, int) and argument != steps:
            yield ctx.at(
                (BLOCK, _STEPS),
                f"`{_STEPS}` is {steps} here, but {argument} in the training arguments: the Trainer rejects the"
                " difference",
                help=f"set it to {argument}, or remove it",
                effect="crashes",
            )
        return
    for use in first_uses(ctx, "accumulation"):
        if use.value != steps and _STEPS in use.text:
            yield ctx.at(
                (BLOCK, _STEPS),
                f"`{_STEPS}` is {steps}, which `accelerate launch` exports and `Accelerator` prefers to the"
                f" {use.value} of {use.location}",
                help=f"set it to {use.value}, or remove it",
            )


def _integer(value: Json) -> int | None:
    text = str(value)
    return int(text) if text.isdecimal() and len(text) < _LONGEST_NUMBER else None


_LONGEST_NUMBER = 10


@rule("DSC852", effect="altered", source="accelerate accelerator.py:Accelerator._prepare_deepspeed")
def accumulation_of_accelerator(ctx: Context) -> Iterator[Finding]:
    """The config and `Accelerator()` disagree on the number of accumulation steps.

    Accelerate 0.13 to 0.22 overwrites the number in the config with its own. Later versions keep it for the engine, but
    up to 1.7 they use their own for `accelerator.accumulate`, `sync_gradients` and the schedule, which then advance at
    other steps than the engine.

    Good, read by accelerate:

        {"train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": "auto", "zero_optimization": {"stage": 2}}
    """
    if not is_named(ctx) or ctx.consumer != "accelerate" or ctx.facts.uses_trainer:
        return
    steps = ctx.raw(_STEPS)
    if type(steps) is not int:
        return
    version = program_versions(ctx, "accelerate")
    if ctx.document.is_data or (version is not None and not _is_before(ctx, "1.8")):  # the block has DSC851
        return
    for use in first_uses(ctx, "accumulation"):
        if use.value == steps:
            continue
        until = "before Accelerate 1.8" if version is None else f"with Accelerate {version.text}"
        is_replaced = version is not None and _is_before(ctx, "0.23")
        consequence = (
            "the program's number replaces it" if is_replaced else "the schedule follows the program"
        )
        yield ctx.at(
            _STEPS,
            f"`{_STEPS}` is {steps}, but {use.location} creates `{use.text}` with {use.value}: {until} {consequence}",
            help='write "auto", and pass the number to `Accelerator`',
            effect="wasteful" if version is None else "altered",
        )


def _is_before(ctx: Context, release: str, program: str = "accelerate") -> bool:
    """Return whether every version of `program` that the job may use is earlier than `release`."""
    from dsconfig.core.version_ranges import parse_version_range

    known = program_versions(ctx, program)
    return known is not None and known.versions.is_within(parse_version_range(f"<{release}"))


@rule(
    "DSC853",
    effect="crashes",
    since="0.6.5",
    until="0.9.0",
    source="runtime/zero/partition_parameters.py:Init",
)
def construction_inside_construction(ctx: Context) -> Iterator[Finding]:
    """`deepspeed.initialize`, or another `zero.Init` context, runs inside a `deepspeed.zero.Init` context.

    The engine is then partitioned like a model, and `initialize` fails with a RecursionError. Since 0.7.0, `initialize`
    leaves the context first, and since 0.9.1, contexts may be nested.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or effective_stage(ctx) != 3:
        return
    for use in first_uses(ctx, "nested construction"):
        if "initialize" in use.text.partition("(")[0] and ctx.since("0.7.0"):
            continue
        yield at_stage(
            ctx,
            use,
            f"inside `zero.Init`, which ends in a RecursionError with DeepSpeed {ctx.release_name}",
            "move it out of the context, or use DeepSpeed 0.9.1 or later",
        )


@rule("DSC854", effect="altered", source="transformers generation/utils.py:GenerationMixin.generate")
def generation_without_synchronization(ctx: Context) -> Iterator[Finding]:
    """The program generates at stage 3 without `synced_gpus`, so ranks hang that wait for faster ranks.

    Each forward pass gathers parameters from all ranks. Ranks whose sequences end earlier stop calling the model, and
    the others wait until NCCL times out. Since 4.28, Transformers synchronizes the ranks itself if it knows about stage
    3: under the Trainer, Accelerate, or with `HfDeepSpeedConfig`, but not after a plain `deepspeed.initialize`.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or effective_stage(ctx) != 3 or ctx.world_size == 1:
        return
    if ctx.consumer != "deepspeed" and not _is_before(ctx, "4.28", "transformers"):
        return
    for use in first_uses(ctx, "unsynchronized generation"):
        yield at_stage(
            ctx,
            use,
            "ranks that finish earlier stop taking part in stage 3's gathering, and the others wait for them",
            "pass `synced_gpus=True`",
        )


@rule("DSC855", effect="wasteful", source="trl models/utils.py:unwrap_model_for_generation")
def model_gathered_for_generation(ctx: Context) -> Iterator[Finding]:
    """A TRL trainer gathers the complete model on every GPU to generate, although stage 3 partitions it.

    With `ds3_gather_for_generation=True`, the default, each GPU needs memory for all weights while it generates. With
    `False`, generation is slower, but the model may be larger than the memory of a GPU. With `use_vllm=True` TRL does
    not generate with the partitioned model.

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if not is_named(ctx) or not ctx.uses_plugin or effective_stage(ctx) != 3:
        return
    for use in first_uses(ctx, "gathered generation"):
        yield at_stage(
            ctx,
            use,
            "to generate, every GPU gathers the complete model",
            "if it does not fit, pass `ds3_gather_for_generation=False`, or use vLLM",
        )


@rule("DSC856", effect="altered", source="runtime/zero/linear.py:zero3_linear_wrap")
def parameters_gathered_for_inference(ctx: Context) -> Iterator[Finding]:
    """The program runs the engine under `torch.inference_mode()`, and trains it at stage 3.

    Parameters that are gathered there become inference tensors. The next training step that uses them while they are
    still gathered raises "Inference tensors cannot be saved for backward". `torch.no_grad()` saves the same memory.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or effective_stage(ctx) != 3:
        return
    for use in first_uses(ctx, "inference mode"):
        yield at_stage(
            ctx,
            use,
            "under `torch.inference_mode`, after which gathered parameters cannot be trained",
            "use `torch.no_grad` instead",
        )


@rule(
    "DSC857",
    effect="altered",
    until="0.19.2",
    source="runtime/zero/parameter_offload.py:DeepSpeedZeRoOffload",
)
def frozen_parameters_recomputed(ctx: Context) -> Iterator[Finding]:
    """Non-reentrant gradient checkpointing with frozen parameters at stage 3 fails in the backward pass.

    When a layer is recomputed, its frozen parameters are already partitioned, so their shapes differ from those in the
    forward pass, and PyTorch raises "Recomputed values for the following tensors have different metadata". DeepSpeed
    0.19.3 gathers them again. PEFT freezes the base model when it adds adapters.

    Good, read by transformers:

        {"train_batch_size": "auto", "zero_optimization": {"stage": 2}}
    """
    if not is_named(ctx) or effective_stage(ctx) != 3:
        return
    for use in first_uses(ctx, "non-reentrant checkpointing"):
        yield at_stage(
            ctx,
            use,
            "stage 3 has partitioned the frozen parameters again when a layer is recomputed",
            'pass `{"use_reentrant": True}`, or use stage 2, or use DeepSpeed 0.19.3 or later',
        )


@rule("DSC858", effect="wasteful", source="runtime/engine.py:DeepSpeedEngine._configure_distributed_model")
def model_loaded_whole(ctx: Context) -> Iterator[Finding]:
    """The program loads the complete model on every rank before `deepspeed.initialize` partitions it.

    `from_pretrained` partitions while it loads only if an `HfDeepSpeedConfig` object exists. Otherwise each rank needs
    host memory for the complete model, and `initialize` copies the model to the GPU before partitioning it, even if
    `offload_param` is on. For a small model, this does not matter.

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    if not is_named(ctx) or ctx.consumer != "deepspeed" or effective_stage(ctx) != 3:
        return
    for use in first_uses(ctx, "whole model"):
        offloaded = " and offloads" if offload_device(ctx, PARAM) in ("cpu", "nvme") else ""
        yield at_stage(
            ctx,
            use,
            f"each GPU has to hold the complete model before stage 3 partitions{offloaded} it",
            "create `HfDeepSpeedConfig` first and keep it alive, so that the model is partitioned while it is loaded",
        )


@rule("DSC860", effect="altered", source="runtime/zero/partition_parameters.py:Init.__init__")
def batch_checked_before_rendezvous(ctx: Context) -> Iterator[Finding]:
    """The program loads a partitioned model before the process group exists, and the config has all batch sizes.

    With `HfDeepSpeedConfig`, `from_pretrained` reads the config before communication is set up, so DeepSpeed counts one
    rank, and rejects a `train_batch_size` for several ranks: "16 != 1 * 8 * 1".

    Good, read by transformers:

        {"train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 3}}
    """
    if not is_named(ctx) or effective_stage(ctx) != 3:
        return
    values = [ctx.value(key) for key in ("train_batch_size", "train_micro_batch_size_per_gpu", _STEPS)]
    total, micro, steps = values
    if not all(type(value) is int for value in values) or total == micro * steps:
        return
    for use in first_uses(ctx, "load before rendezvous"):
        yield ctx.at(
            "train_batch_size",
            f"`train_batch_size` is {total}, but {use.location} loads the model before the process group exists:"
            f" DeepSpeed counts one rank, and rejects {total} != {micro} * {steps} * 1",
            help="remove it, or call `deepspeed.init_distributed()` before the model is loaded",
        )
