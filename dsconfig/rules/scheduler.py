"""The scheduler section: its `type`, the params of that type, and PyTorch's schedulers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.releases import release_name
from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.model.key_table import find_type, keys_of_section_class, types_of_section
from dsconfig.model.torch_classes import OF_OBJECTS, SCHEDULERS
from dsconfig.rules._built_class import (
    BuiltClass,
    built_scheduler,
    configured_params,
    known_type,
    report_missing_type,
    required_params,
    supported_types,
    written_type,
)
from dsconfig.rules._effective_values import (
    describe_stage,
    related_dtype,
    related_stage_key,
    stage_if_configured,
    training_dtype,
)
from dsconfig.rules._fixes import remove_key_showing_value, rename_key

# A section without `type` or `params`.

_BUILD = "runtime/engine.py:DeepSpeedEngine._scheduler_from_config"
_PARAMS = "scheduler.params"


@rule("DSC554", effect="crashes", source=_BUILD)
def scheduler_without_params(ctx: Context) -> Iterator[Finding]:
    """The scheduler has a `type` but no `params`, not even an empty object.

    The engine unpacks `params` into keyword arguments. If they are absent, it unpacks None, and engine
    initialization fails with a TypeError. Optimizers work without `params`.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR"}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}
    """
    if not written_type(ctx, "scheduler"):
        return
    value = ctx.data["scheduler"].get("params")
    if isinstance(value, dict):
        return
    chosen = built_scheduler(ctx)
    needed = required_params(chosen) if chosen else []
    yield ctx.at(
        _PARAMS,
        (
            f"`scheduler.params` is {quote_value(value)}"
            if "params" in ctx.data["scheduler"]
            else "`scheduler.params` is absent"
        )
        + ", but the engine unpacks it into arguments",
        help=f"set it to an object with {join_alternatives((f'`{key}`' for key in needed), 'and')}"
        if needed
        else "set it to an empty object, `{}`",
        fix=Fix(
            "set `scheduler.params` to `{}`", (SetValue(("scheduler", "params"), {}),), safe=value is None
        )
        if not needed
        else None,
    )


@rule("DSC555", effect="ignored", source="runtime/config.py:get_scheduler_name")
def scheduler_without_type(ctx: Context) -> Iterator[Finding]:
    """The scheduler section has no `type`, so it has no effect.

    The learning rate stays at the optimizer's value.

    Bad:

        {"train_batch_size": 8, "scheduler": {"name": "WarmupLR", "params": {"warmup_num_steps": 100}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}
    """
    yield from report_missing_type(ctx, "scheduler", names=("name", "scheduler", "Type"), example="WarmupLR")


# A `type` that is not the name of a scheduler.

_TYPE = "scheduler.type"
_COMMON_NAMES = {
    "constant_with_warmup": "WarmupLR",
    "warmup": "WarmupLR",
    "linear": "WarmupDecayLR",
    "cosine": "WarmupCosineLR",
    "onecyclelr": "OneCycle",
}
"""Names of schedules in Transformers and PyTorch, each with DeepSpeed's closest scheduler."""


@rule("DSC550", effect="crashes", source=_BUILD)
def unknown_scheduler(ctx: Context) -> Iterator[Finding]:
    """`scheduler.type` is not a scheduler that the release can build.

    Unlike an optimizer, a scheduler must be spelled with exact case. DeepSpeed looks up the name in its own module and
    then in `torch.optim.lr_scheduler`, and engine initialization fails if it is in neither. It also fails for other
    names in its own module, such as `WARMUP_LR`, a constant that it tries to call.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "warmuplr", "params": {}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}
    """
    type_name = written_type(ctx, "scheduler")
    if type_name is None or type_name in SCHEDULERS or known_type(ctx, "Scheduler", type_name):
        return
    if type_name == "get_torch_optimizer":  # a function of the module that returns the optimizer: no error
        return
    from dsconfig.rules._suggest_key import closest_word, is_same_spelling

    names = supported_types(ctx, "Scheduler")
    suggestion = closest_word(type_name, [*names, *SCHEDULERS])
    counterpart = _COMMON_NAMES.get(type_name.lower())
    yield ctx.at(
        _TYPE,
        f"`scheduler.type` is {quote_value(type_name)}: {_why_type_is_unknown(ctx, type_name)}",
        help=_help_for_unknown_type(
            quote_value(suggestion) if suggestion else None,
            counterpart if counterpart in names else None,
            names,
        ),
        fix=Fix(
            f"replace with {quote_value(suggestion)}",
            (SetValue(("scheduler", "type"), suggestion),),
            safe=is_same_spelling(type_name, suggestion),
        )
        if suggestion
        else None,
    )


def _why_type_is_unknown(ctx: Context, type_name: str) -> str:
    if type_name == "auto":
        return "it is not resolved, so the engine looks for a scheduler with this name"
    kind = find_type("Scheduler", type_name)
    if kind is not None:
        return f"DeepSpeed has it since {release_name(kind.releases.first)}, but not in {ctx.release_name}"
    return (
        f"neither DeepSpeed {ctx.release_name} nor `torch.optim.lr_scheduler` has a scheduler with this name"
    )


def _help_for_unknown_type(suggestion: str | None, counterpart: str | None, names: Iterable[str]) -> str:
    types = [f"`{each}`" for each in names]
    likely = (
        f"use {suggestion}" if suggestion else f"consider {quote_value(counterpart)}" if counterpart else None
    )
    if likely is None:
        return f"use {join_alternatives(types)}, or a class of `torch.optim.lr_scheduler`"
    return (
        f"{likely}; DeepSpeed accepts {join_alternatives(types, 'and')}, and `torch.optim.lr_scheduler` classes"
        " (case-sensitive)"
    )


# Params that the scheduler class does not accept, and required ones that are absent.

_PARAMS_PATH = ("scheduler", "params")


@rule("DSC556", effect="crashes", source=_BUILD)
def unknown_scheduler_param(ctx: Context) -> Iterator[Finding]:
    """A key of `scheduler.params` is not an argument of the scheduler.

    DeepSpeed passes all of `params` as keyword arguments, so an unknown name fails with a TypeError during
    engine initialization. `total_num_steps` belongs to `WarmupDecayLR` and `WarmupCosineLR`, not to
    `WarmupLR`. `WarmupCosineLR` uses fractions of the optimizer's learning rate and has no `warmup_max_lr`.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 1000}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": 1000}}}

    Fixed:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {}}}
    """
    arguments = configured_params(ctx, "scheduler")
    chosen = built_scheduler(ctx) if arguments else None
    if chosen is None or arguments.keys() <= chosen.accepts:
        return
    for key in arguments:
        if key not in chosen.accepts:
            yield _report_unknown_param(ctx, chosen, key)


def _report_unknown_param(ctx: Context, chosen: BuiltClass, key: str) -> Finding:
    from dsconfig.rules._suggest_key import closest_word, is_same_spelling

    others = _types_accepting(ctx, key)
    suggestion = (
        None if others else closest_word(key, chosen.accepts - configured_params(ctx, "scheduler").keys())
    )
    path = (*_PARAMS_PATH, key)
    accepted = join_alternatives((f"`{each}`" for each in sorted(chosen.accepts)), "and")
    value = configured_params(ctx, "scheduler")[key]
    fix = (
        rename_key(ctx, path, suggestion, value, safe=is_same_spelling(key, suggestion))
        if suggestion
        else remove_key_showing_value(path, value)
    )
    return ctx.at(
        path,
        f"`{key}` is not an argument of {chosen.built}{_describe_first_release(ctx, chosen, key)}",
        help=f"did you mean `{suggestion}`?"
        if suggestion
        else f"remove it, or set `scheduler.type` to {join_alternatives(others)}, which accepts it"
        if others
        else f"remove it; the accepted arguments are {accepted}",
        part="key",
        fix=fix,
    ).as_typo_of((*_PARAMS_PATH, suggestion or key))


def _describe_first_release(ctx: Context, chosen: BuiltClass, key: str) -> str:
    info = keys_of_section_class(chosen.kind.params).get(key) if chosen.kind and chosen.kind.params else None
    return (
        f" before {release_name(info.spans[0][0])}"
        if info is not None and not info.is_read_in(ctx.release)
        else ""
    )


def _types_accepting(ctx: Context, key: str) -> list[str]:
    """Return the scheduler types that accept the param `key` and all other configured params."""
    arguments = configured_params(ctx, "scheduler").keys()
    types = []
    for kind in types_of_section("Scheduler").values():
        infos = (
            keys_of_section_class(kind.params) if kind.params and kind.releases.first <= ctx.release else {}
        )
        accepted = {name for name, info in infos.items() if info.is_read_in(ctx.release)}
        if key in accepted and {name for name in accepted if infos[name].required} <= arguments <= accepted:
            types.append(f"`{kind.name}`")
    return types


@rule("DSC557", effect="crashes", source=_BUILD)
def missing_scheduler_param(ctx: Context) -> Iterator[Finding]:
    """A required param of the scheduler is absent.

    Params that a program in the repository adds to the config before `deepspeed.initialize` are not reported.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupDecayLR", "params": {"warmup_num_steps": 100,
        "total_num_steps": 1000}}}
    """
    if "scheduler" not in ctx.data or not isinstance(ctx.raw("scheduler.params"), dict):
        return
    chosen = built_scheduler(ctx)
    missing = (
        [key for key in required_params(chosen) if key not in configured_params(ctx, "scheduler")]
        if chosen
        else []
    )
    if missing:
        missing = [key for key in missing if ctx.overwrite(f"scheduler.params.{key}") is None]
    if chosen and missing:
        yield ctx.at(
            "scheduler.params",
            f"{join_alternatives((f'`{key}`' for key in missing), 'and')} "
            f"{'is' if len(missing) == 1 else 'are'} absent,"
            f" but {chosen.built} requires {'it' if len(missing) == 1 else 'them'}",
            help=f"add {join_alternatives((f'`{key}`' for key in missing), 'and')}",
            part="key",
        ).about_missing((*_PARAMS_PATH, missing[0]) if len(missing) == 1 else _PARAMS_PATH)


# PyTorch schedulers that the engine cannot drive.


@rule("DSC551", effect="crashes", source=_BUILD)
def scheduler_of_torch_around_wrapper(ctx: Context) -> Iterator[Finding]:
    """A PyTorch scheduler is used with ZeRO or in 16 bits.

    The engine passes it the optimizer that it has already wrapped, but the scheduler accepts only a
    `torch.optim.Optimizer`: engine initialization fails with a TypeError. It works in fp32 without ZeRO. A
    script can always pass a function: `deepspeed.initialize(…, lr_scheduler=lambda optimizer:
    StepLR(optimizer, 10))`.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 1},
        "scheduler": {"type": "StepLR", "params": {"step_size": 10}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "StepLR", "params": {"step_size": 10}}}
    """
    type_name = written_type(ctx, "scheduler")
    if type_name not in SCHEDULERS or known_type(ctx, "Scheduler", type_name):
        return
    reason, related = _why_optimizer_is_wrapped(ctx)
    if reason:
        yield ctx.at(
            _TYPE,
            f"`{type_name}` of PyTorch accepts only PyTorch's optimizers, but the engine wraps the optimizer, because"
            f" {reason}",
            help="use "
            f"{join_alternatives(f'`{each}`' for each in supported_types(ctx, 'Scheduler'))}, or pass a function"
            " that creates the scheduler to `deepspeed.initialize`",
            related=related,
        )


def _why_optimizer_is_wrapped(ctx: Context) -> tuple[str | None, list[tuple[str, str]]]:
    """Return why the engine wraps the optimizer, or None if it does not, and the key responsible for it."""
    if stage_if_configured(ctx) > 0:
        return describe_stage(ctx).replace("the stage", "the ZeRO stage"), related_stage_key(ctx)
    dtype = training_dtype(ctx)
    return (None, []) if dtype == "fp32" else (f"the model trains in {dtype}", related_dtype(ctx))


@rule("DSC552", effect="altered", source="runtime/engine.py:DeepSpeedEngine._take_model_step")
def plateau_without_metric(ctx: Context) -> Iterator[Finding]:
    """`ReduceLROnPlateau` needs a metric, but the engine passes it the batch size.

    The engine steps a scheduler without arguments, and, if that raises, with `train_batch_size`, which is for Megatron.
    This number never improves, so the learning rate decreases each time `patience` runs out. Before 0.10.1, the second
    attempt raises too.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "ReduceLROnPlateau", "params": {"patience": 5}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 100}}}
    """
    if written_type(ctx, "scheduler") != "ReduceLROnPlateau" or _why_optimizer_is_wrapped(ctx)[0]:
        return
    crashes = ctx.before("0.10.1")
    yield ctx.at(
        _TYPE,
        "`ReduceLROnPlateau` needs a metric, but the engine passes none: "
        + ("its first step fails" if crashes else "it gets the batch size instead, which never improves"),
        help="step it in the script, with the metric",
        effect="crashes" if crashes else "altered",
    )


@rule("DSC553", effect="crashes", source=_BUILD)
def scheduler_requires_python_objects(ctx: Context) -> Iterator[Finding]:
    """A PyTorch scheduler requires Python objects, which a config cannot contain.

    Bad:

        {"train_batch_size": 8, "scheduler": {"type": "LambdaLR", "params": {"lr_lambda": "lambda e: 0.9"}}}

    Good:

        {"train_batch_size": 8, "scheduler": {"type": "ExponentialLR", "params": {"gamma": 0.9}}}
    """
    type_name = written_type(ctx, "scheduler")
    needs = OF_OBJECTS.get(type_name) if type_name else None
    if needs:
        yield ctx.at(
            _TYPE,
            f"`{type_name}` needs {needs}, which a config cannot contain",
            help="pass the scheduler, or a function that creates it, to `deepspeed.initialize`",
        )
