"""Schedulers of PyTorch's that the engine cannot drive."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.wording import one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model import torch_classes
from dsconfig.rules._built_class import known_names, known_type, written_type
from dsconfig.rules._dtypes import format_place, model_format
from dsconfig.rules._stage import stage_place_if_written, stage_words, zero_stage

_BUILD = "runtime/engine.py:DeepSpeedEngine._scheduler_from_config"
_TYPE = "scheduler.type"


@rule("DSC551", effect="crashes", source=_BUILD)
def scheduler_of_torch_around_wrapper(ctx: Context) -> Iterator[Finding]:
    """A scheduler of PyTorch's, with ZeRO or in 16 bits.

    It is handed the optimizer that the engine has wrapped by then, and insists on one of PyTorch's own: a
    TypeError as the engine starts. It works in fp32 without ZeRO. From a script it works always, as a
    function: `deepspeed.initialize(…, lr_scheduler=lambda optimizer: StepLR(optimizer, 10))`.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1},
        "scheduler": {"type": "StepLR", "params": {"step_size": 10}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "StepLR", "params": {"step_size": 10}}}
    """
    word = written_type(ctx, "scheduler")
    if word not in torch_classes.SCHEDULERS or known_type(ctx, "Scheduler", word):
        return
    why, related = _wrapped(ctx)
    if why:
        yield ctx.at(
            _TYPE,
            f"`{word}` is PyTorch's, which takes only PyTorch's optimizers, and {why}: the engine has wrapped"
            " the optimizer",
            help=f"use {one_of(f'`{own}`' for own in known_names(ctx, 'Scheduler'))}, or hand a function"
            " that makes the scheduler to `deepspeed.initialize`",
            related=related,
        )


def _wrapped(ctx: Context) -> tuple[str | None, list[tuple[str, str]]]:
    """Why the engine wraps the optimizer; None where it does not."""
    if zero_stage(ctx) > 0:
        return stage_words(ctx).replace("the stage", "the ZeRO stage"), stage_place_if_written(ctx)
    form = model_format(ctx)
    return (None, []) if form == "fp32" else (f"the model trains in {form}", format_place(ctx))


@rule("DSC552", effect="altered", source="runtime/engine.py:DeepSpeedEngine._take_model_step")
def plateau_without_metric(ctx: Context) -> Iterator[Finding]:
    """`ReduceLROnPlateau` waits for a metric, and the engine gives it the batch size.

    The engine steps a scheduler without arguments, and where that fails with `train_batch_size`, as Megatron
    wants it. That number never improves, so that the learning rate falls each time `patience` has run out.
    Before 0.10.1 the second attempt fails too.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "ReduceLROnPlateau", "params": {"patience": 5}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}
    """
    if written_type(ctx, "scheduler") != "ReduceLROnPlateau" or _wrapped(ctx)[0]:
        return
    stops = ctx.before("0.10.1")
    yield ctx.at(
        _TYPE,
        "`ReduceLROnPlateau` needs a metric, and the engine has none for it: "
        + ("its first step fails" if stops else "it watches the batch size instead, which never improves"),
        help="step it in the script, with the metric",
        effect="crashes" if stops else "altered",
    )


@rule("DSC553", effect="crashes", source=_BUILD)
def scheduler_of_objects(ctx: Context) -> Iterator[Finding]:
    """A scheduler of PyTorch's that is made of Python objects, which no config can hold.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "LambdaLR", "params": {"lr_lambda": "lambda e: 0.9"}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "ExponentialLR", "params": {"gamma": 0.9}}}
    """
    word = written_type(ctx, "scheduler")
    needs = torch_classes.OF_OBJECTS.get(word) if word else None
    if needs:
        yield ctx.at(
            _TYPE,
            f"`{word}` is made of {needs}, and a config cannot hold any",
            help="hand the scheduler, or a function that makes it, to `deepspeed.initialize`",
        )
