"""The type of the scheduler: is there one, does the release know it, and can the engine drive it?"""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.diagnostic import Fix, Rename, Set
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model import torch_classes
from dsconfig.model.keyinfo import type_named
from dsconfig.releases import name
from dsconfig.rules import _names
from dsconfig.rules._precision import format_place, model_format
from dsconfig.rules._types import (
    known_names,
    known_type,
    required,
    scheduler,
    stage_place_if_written,
    written_type,
    zero_stage,
)
from dsconfig.rules._zero import stage_words
from dsconfig.words import one_of, quoted

_BUILD = "runtime/engine.py:DeepSpeedEngine._scheduler_from_config"
_TYPE = "scheduler.type"
_PARAMS = "scheduler.params"
_OTHER_WORDS = {
    "constant_with_warmup": "WarmupLR",
    "warmup": "WarmupLR",
    "linear": "WarmupDecayLR",
    "cosine": "WarmupCosineLR",
    "onecyclelr": "OneCycle",
}
"""Names that Transformers and PyTorch give to schedules, and DeepSpeed's nearest."""


@rule("DSC550", effect="crashes", source=_BUILD)
def unknown_scheduler(ctx: Context) -> Iterator[Finding]:
    """`scheduler.type` names no scheduler that the release can build.

    Unlike optimizers, schedulers are looked up letter by letter: first among DeepSpeed's own, then in
    `torch.optim.lr_scheduler`. The look-up asks for any attribute of the module, so that `WARMUP_LR`, the
    constant, is found, and called; either way the engine stops as it starts.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "warmuplr", "params": {}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}
    """
    word = written_type(ctx, "scheduler")
    if word is None or word in torch_classes.SCHEDULERS or known_type(ctx, "Scheduler", word):
        return
    if word == "get_torch_optimizer":  # a function of the module, which returns the optimizer: no error
        return
    own = known_names(ctx, "Scheduler")
    meant = _names.nearest_of(word, [*own, *torch_classes.SCHEDULERS])
    other = _OTHER_WORDS.get(word.lower())
    yield ctx.at(
        _TYPE,
        f"`type` is {quoted(word)}: {_reason(ctx, word)}",
        help=(f"write {quoted(meant)}; " if meant else f"perhaps {quoted(other)}; " if other in own else "")
        + f"DeepSpeed knows {one_of((f'`{known}`' for known in own), 'and')}, and the classes of"
        " `torch.optim.lr_scheduler`, all as they are spelt",
        fix=Fix(
            f"write {quoted(meant)}", (Set(("scheduler", "type"), meant),), safe=_names.alike(word, meant)
        )
        if meant
        else None,
    )


def _reason(ctx: Context, word: str) -> str:
    if word == "auto":
        return "nobody fills it, and the engine takes the text for a name"
    kind = type_named("Scheduler", word)
    if kind is not None:
        return f"DeepSpeed has it from {name(kind.first)} on, and {ctx.release_name} does not"
    return (
        f"DeepSpeed {ctx.release_name} knows no such scheduler, nor is it a class of"
        " `torch.optim.lr_scheduler`"
    )


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


@rule("DSC554", effect="crashes", source=_BUILD)
def scheduler_without_params(ctx: Context) -> Iterator[Finding]:
    """The scheduler has a `type` and no `params`, not even empty ones.

    The engine unpacks them into keyword arguments, and what is absent counts as null, which cannot be
    unpacked: a TypeError as it starts. Optimizers do without.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR"}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}
    """
    if not written_type(ctx, "scheduler"):
        return
    found = ctx.data["scheduler"].get("params")
    if isinstance(found, dict):
        return
    chosen = scheduler(ctx)
    needed = required(chosen) if chosen else []
    yield ctx.at(
        _PARAMS,
        (f"`params` is {quoted(found)}" if "params" in ctx.data["scheduler"] else "`params` is absent")
        + ", and the engine unpacks it into arguments",
        help=f"write an object with {one_of((f'`{key}`' for key in needed), 'and')}"
        if needed
        else "write an object, if only `{}`",
        fix=Fix("write `{}`", (Set(("scheduler", "params"), {}),), safe=found is None)
        if not needed
        else None,
    )


@rule("DSC555", effect="ignored", source="runtime/config.py:get_scheduler_name")
def scheduler_without_type(ctx: Context) -> Iterator[Finding]:
    """The scheduler section has no `type`, and so no effect at all.

    The learning rate stays what the optimizer was given.

    Bad:

        {"train_batch_size": 8, "scheduler": {"name": "WarmupLR", "params": {"warmup_num_steps": 100}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}
    """
    section = ctx.data.get("scheduler")
    if not isinstance(section, dict) or not section or section.get("type") is not None:
        return
    other = None
    if "type" not in section:
        other = next((key for key in ("name", "scheduler", "Type") if _is_type(section.get(key))), None)
    yield ctx.at(
        _TYPE if "type" in section else "scheduler",
        "the section has no effect: "
        + ("`type` is `null`" if "type" in section else "it has no `type`")
        + ", so DeepSpeed builds no scheduler",
        help=f"rename `{other}` to `type`" if other else 'add `"type": "WarmupLR"`, or remove the section',
        part="value" if "type" in section else "key",
        fix=Fix(f"rename `{other}` to `type`", (Rename(("scheduler", other), "type"),)) if other else None,
    )


def _is_type(word: object) -> bool:
    return isinstance(word, str) and (
        type_named("Scheduler", word) is not None or word in torch_classes.SCHEDULERS
    )
