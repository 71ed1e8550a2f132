"""Scheduler section: its `type`, the params of that type, and schedulers of PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.releases import name
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model import torch_classes
from dsconfig.model.keyinfo import section_keys, type_named, types_of
from dsconfig.rules._built_class import (
    Chosen,
    known_names,
    known_type,
    missing_type,
    params,
    required_params,
    scheduler,
    written_type,
)
from dsconfig.rules._effective_values import (
    format_place,
    model_format,
    related_stage_key,
    stage_words,
    zero_stage,
)
from dsconfig.rules._fixes import removal_with_value, renamed

# A section without `type` or `params`.

_BUILD = "runtime/engine.py:DeepSpeedEngine._scheduler_from_config"
_PARAMS = "scheduler.params"


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
    needed = required_params(chosen) if chosen else []
    yield ctx.at(
        _PARAMS,
        (
            f"`scheduler.params` is {quoted(found)}"
            if "params" in ctx.data["scheduler"]
            else "`scheduler.params` is absent"
        )
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
    yield from missing_type(ctx, "scheduler", names=("name", "scheduler", "Type"), example="WarmupLR")


# A `type` that names no scheduler.

_TYPE = "scheduler.type"
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
    from dsconfig.rules._did_you_mean import alike, nearest_of

    own = known_names(ctx, "Scheduler")
    meant = nearest_of(word, [*own, *torch_classes.SCHEDULERS])
    other = _OTHER_WORDS.get(word.lower())
    yield ctx.at(
        _TYPE,
        f"`scheduler.type` is {quoted(word)}: {_reason(ctx, word)}",
        help=_help(quoted(meant) if meant else None, other if other in own else None, own),
        fix=Fix(f"write {quoted(meant)}", (Set(("scheduler", "type"), meant),), safe=alike(word, meant))
        if meant
        else None,
    )


def _reason(ctx: Context, word: str) -> str:
    if word == "auto":
        return "nobody fills it, and the engine takes the text for a name"
    kind = type_named("Scheduler", word)
    if kind is not None:
        return f"DeepSpeed has it from {name(kind.releases.first)} on, and {ctx.release_name} does not"
    return (
        f"DeepSpeed {ctx.release_name} knows no such scheduler, nor is it a class of"
        " `torch.optim.lr_scheduler`"
    )


def _help(meant: str | None, other: str | None, own: Iterable[str]) -> str:
    known = [f"`{name}`" for name in own]
    likely = f"write {meant}" if meant else f"perhaps {quoted(other)}" if other else None
    if likely is None:
        return f"use {one_of(known)}, or a class of `torch.optim.lr_scheduler`"
    others = f"{one_of(known, 'and')}, and the classes of `torch.optim.lr_scheduler`"
    return f"{likely}; DeepSpeed knows {others}, all as they are spelt"


# Params that the scheduler's class does not take, and those that it misses.

_PARAMS_PATH = ("scheduler", "params")


@rule("DSC556", effect="crashes", source=_BUILD)
def unknown_scheduler_param(ctx: Context) -> Iterator[Finding]:
    """A key of `scheduler.params` is not an argument of the scheduler.

    DeepSpeed hands all of `params` over as keyword arguments, so that one unknown name ends in a TypeError as
    the engine starts. `total_num_steps` belongs to `WarmupDecayLR` and `WarmupCosineLR`, not to `WarmupLR`;
    `WarmupCosineLR` works in shares of the optimizer's learning rate and has no `warmup_max_lr`.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 1000}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 1000}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}
    """
    written = params(ctx, "scheduler")
    chosen = scheduler(ctx) if written else None
    if chosen is None or written.keys() <= chosen.accepts:
        return
    for word in written:
        if word not in chosen.accepts:
            yield _unknown(ctx, chosen, word)


def _unknown(ctx: Context, chosen: Chosen, word: str) -> Finding:
    from dsconfig.rules._did_you_mean import alike, nearest_of

    others = _takers(ctx, word)
    near = None if others else nearest_of(word, chosen.accepts - params(ctx, "scheduler").keys())
    path = (*_PARAMS_PATH, word)
    known = one_of((f"`{key}`" for key in sorted(chosen.accepts)), "and")
    value = params(ctx, "scheduler")[word]
    fix = renamed(ctx, path, near, value, safe=alike(word, near)) if near else removal_with_value(path, value)
    return ctx.at(
        path,
        f"`{word}` is not an argument of {chosen.built}{_why(ctx, chosen, word)}",
        help=f"did you mean `{near}`?"
        if near
        else f"remove it, or set `scheduler.type` to {one_of(others)}, which takes it"
        if others
        else f"remove it; taken are {known}",
        part="key",
        fix=fix,
    ).meaning((*_PARAMS_PATH, near or word))


def _why(ctx: Context, chosen: Chosen, word: str) -> str:
    info = section_keys(chosen.kind.params).get(word) if chosen.kind and chosen.kind.params else None
    return f" before {name(info.spans[0][0])}" if info is not None and not info.read_in(ctx.release) else ""


def _takers(ctx: Context, word: str) -> list[str]:
    """The types that take a param which this one does not, and with it all that is written."""
    written = params(ctx, "scheduler").keys()
    found = []
    for kind in types_of("Scheduler").values():
        known = section_keys(kind.params) if kind.params and kind.releases.first <= ctx.release else {}
        taken = {name for name, key in known.items() if key.read_in(ctx.release)}
        if word in taken and {name for name in taken if known[name].required} <= written <= taken:
            found.append(f"`{kind.name}`")
    return found


@rule("DSC557", effect="crashes", source=_BUILD)
def missing_scheduler_param(ctx: Context) -> Iterator[Finding]:
    """A param that the scheduler cannot do without is absent.

    What a program of the repository puts into the config before `deepspeed.initialize` is not missed.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100,
        "total_num_steps": 1000}}}
    """
    if "scheduler" not in ctx.data or not isinstance(ctx.written("scheduler.params"), dict):
        return
    chosen = scheduler(ctx)
    missing = (
        [key for key in required_params(chosen) if key not in params(ctx, "scheduler")] if chosen else []
    )
    if missing:
        missing = [key for key in missing if ctx.overwrite(f"scheduler.params.{key}") is None]
    if chosen and missing:
        yield ctx.at(
            "scheduler.params",
            f"{one_of((f'`{key}`' for key in missing), 'and')} {'is' if len(missing) == 1 else 'are'} absent,"
            f" and {chosen.built} needs {'it' if len(missing) == 1 else 'them'}",
            help=f"add {one_of((f'`{key}`' for key in missing), 'and')}",
            part="key",
        ).lacking((*_PARAMS_PATH, missing[0]) if len(missing) == 1 else _PARAMS_PATH)


# Schedulers of PyTorch's that the engine cannot drive.


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
        return stage_words(ctx).replace("the stage", "the ZeRO stage"), related_stage_key(ctx)
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
