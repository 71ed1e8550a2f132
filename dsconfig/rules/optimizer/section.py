"""The optimizer section: its `type`, the params of that type, and errors while the config is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.json_types import Json
from dsconfig.core.releases import release_name
from dsconfig.core.wording import describe_value, join_alternatives, quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import MISSING, Context, Finding, SkipRule
from dsconfig.model.key_table import TypeInfo, find_type, keys_of_section_class
from dsconfig.model.torch_classes import OPTIMIZERS
from dsconfig.rules._built_class import (
    BuiltClass,
    built_optimizer,
    configured_params,
    known_type,
    report_missing_type,
    supported_types,
    written_type,
)
from dsconfig.rules._effective_values import is_number, related_offload
from dsconfig.rules._fixes import remove_key, remove_key_showing_value, rename_key

# A section without `type`, or with `params` set to null.

_ENGINE = "runtime/engine.py:DeepSpeedEngine"


@rule("DSC505", effect="ignored", source="runtime/config.py:get_optimizer_name")
def optimizer_without_type(ctx: Context) -> Iterator[Finding]:
    """The optimizer section has no `type`, so it has no effect.

    DeepSpeed builds no optimizer, whatever `params` contain. Unless the script passes an optimizer to
    `deepspeed.initialize`, ZeRO raises because it has none, and without ZeRO the model cannot be trained.

    Bad:

        {"train_batch_size": 8, "optimizer": {"name": "AdamW", "params": {"lr": 0.001}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
    """
    yield from report_missing_type(
        ctx, "optimizer", names=("name", "optimizer", "optimizer_type", "Type"), example="AdamW"
    )


@rule("DSC506", effect="altered", source=f"{_ENGINE}._configure_basic_optimizer")
def optimizer_params_null(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params` is null, so the optimizer uses its defaults, including the learning rate.

    Before 0.5.1, the engine looks up keys in it and raises, even if `params` is absent.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": null}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}}}
    """
    section = ctx.data.get("optimizer")
    if (
        not isinstance(section, dict)
        or section.get("params") is not None
        or written_type(ctx, "optimizer") is None
    ):
        return
    crashes = ctx.before("0.5.1")
    if not crashes and "params" not in section:
        return
    chosen = built_optimizer(ctx)
    default = chosen.params["lr"].default if chosen and "lr" in chosen.params else None
    yield ctx.at(
        "optimizer.params",
        ("`optimizer.params` is `null`" if "params" in section else "`optimizer.params` is absent")
        + (
            ", but DeepSpeed looks up keys in it"
            if crashes
            else ": the optimizer uses its defaults"
            + (f", including a learning rate of {default:g}" if default is not None else "")
        ),
        help='set it to an object with at least the learning rate, such as `{"lr": 0.0001}`',
        effect="crashes" if crashes else "altered",
        fix=Fix("set `optimizer.params` to `{}`", (SetValue(("optimizer", "params"), {}),), safe=True),
    )


# What DeepSpeed does with the type and the params while it loads a config.

_NORM = "optimizer.params.max_grad_norm"


@rule("DSC501", effect="rejected", source="runtime/config.py:DeepSpeedConfig._initialize_params")
def optimizer_type_not_a_name(ctx: Context) -> Iterator[Finding]:
    """`optimizer.type` is not a string.

    DeepSpeed converts the name to lower case while it loads the config, which raises for anything but a
    string. It accepts null or a missing `type`, and then ignores the whole section.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": ["AdamW"]}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}}
    """
    name = ctx.value("optimizer.type")
    if name is not None and not isinstance(name, str):
        yield ctx.at(
            "optimizer.type",
            f"`optimizer.type` is {describe_value(name)} but DeepSpeed expects the name of an optimizer",
            help='use a name such as `"AdamW"`',
        )


def _params_checked_on_load(ctx: Context) -> Json:
    """Return the params that DeepSpeed checks while loading the config, if the optimizer has a type.

    Raises:
        SkipRule: the section has no params or no type, or DeepSpeed rejects it.
    """
    params = ctx.raw("optimizer.params")
    if params is MISSING or ctx.value("optimizer.type") is None:
        raise SkipRule
    return params


@rule("DSC502", effect="rejected", source="runtime/config.py:DeepSpeedConfig._do_warning_check")
def optimizer_params_not_an_object(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params` is not an object.

    DeepSpeed looks up `max_grad_norm` in it while it loads the config. Null is accepted, and selects the defaults of
    the optimizer class. Without a `type` in the section, any value is accepted.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": 0.001}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
    """
    params = _params_checked_on_load(ctx)
    if params is not None and not isinstance(params, dict):
        yield ctx.at(
            "optimizer.params",
            f"`optimizer.params` is {describe_value(params)} but DeepSpeed expects an object",
            help='set it to an object with the arguments of the optimizer, such as `{"lr": 0.0001}`',
        )


@rule("DSC503", effect="rejected", source="runtime/config.py:DeepSpeedConfig._do_warning_check")
def max_grad_norm_not_a_number(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params.max_grad_norm` is not a number.

    DeepSpeed compares it with 0 while it loads the config, to warn that the optimizer does not clip gradients
    with it. To clip gradients, set `gradient_clipping` at the top level.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"max_grad_norm": "auto"}}}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}}}
    """
    params = _params_checked_on_load(ctx)
    if not isinstance(params, dict) or "max_grad_norm" not in params:
        return
    norm = params["max_grad_norm"]
    if not isinstance(norm, int | float):
        yield ctx.at(
            _NORM,
            f"`max_grad_norm` is {describe_value(norm)} but DeepSpeed expects a number",
            help="remove it; to clip gradients, set `gradient_clipping` at the top level",
            fix=remove_key(("optimizer", "params", "max_grad_norm")),
        )


# A `type` that is not the name of an optimizer.

_TYPE = "optimizer.type"


@rule("DSC504", effect="crashes", source=f"{_ENGINE}._is_supported_optimizer")
def unknown_optimizer(ctx: Context) -> Iterator[Finding]:
    """`optimizer.type` is not an optimizer that the release can build.

    DeepSpeed matches its own types without regard to case. Every other name has to be a class of `torch.optim`, spelled
    exactly: `SGD`, not `sgd`. Names of DeepSpeed's classes, such as `FusedAdam`, do not work, and 0.19.7 removed the
    1-bit optimizers. Engine initialization fails when it looks up the name, or if the name is something else in
    `torch.optim`, such as `lr_scheduler`, when it calls that.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "sgd", "params": {"lr": 0.1}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
    """
    type_name = written_type(ctx, "optimizer")
    if type_name is None or type_name in OPTIMIZERS or known_type(ctx, "Optimizer", type_name):
        return
    kind = find_type("Optimizer", type_name)
    intended = _closest_type(type_name, ctx)
    yield ctx.at(
        _TYPE,
        f"`optimizer.type` is {quote_value(type_name)}: {_why_type_is_unknown(ctx, kind, type_name)}",
        help=_help_for_unknown_type(intended, [f"`{each}`" for each in supported_types(ctx, "Optimizer")]),
        fix=Fix(
            f"replace with {quote_value(intended)}",
            (SetValue(("optimizer", "type"), intended),),
            safe=intended.lower() == type_name.lower(),
        )
        if intended
        else None,
    )


def _why_type_is_unknown(ctx: Context, kind: TypeInfo | None, type_name: str) -> str:
    if type_name == "auto":
        return "it is not resolved, so the engine looks for an optimizer with this name"
    if kind is None:
        return f"neither DeepSpeed {ctx.release_name} nor `torch.optim` has an optimizer with this name"
    if ctx.release > kind.releases.last:
        return f"DeepSpeed {release_name(kind.releases.last)} was the last release with it"
    return f"DeepSpeed has it since {release_name(kind.releases.first)}, but not in {ctx.release_name}"


def _closest_type(type_name: str, ctx: Context) -> str | None:
    """Return the available type that an unknown type most likely stands for, or None."""
    from dsconfig.rules._suggest_key import closest_word, is_same_spelling

    candidates = [*OPTIMIZERS, *supported_types(ctx, "Optimizer")]
    for spelling in (type_name, _strip_affixes(type_name)):
        matches = [each for each in candidates if is_same_spelling(each, spelling)]
        if matches:
            return matches[-1]
    return closest_word(type_name, candidates)


_AFFIXES = (
    r"^(deepspeed|torch(optim)?|fused|cpu|onebit|zeroone|bnb|hf)+"
    r"|(?<!torch)(?<!fused)(?<!hf)(torch|fused|hf)+$"
)
"""Prefixes and suffixes in the class names of DeepSpeed and other libraries.

A suffix is matched from its first word only: a match from each word takes quadratic time on a long name.
"""


def _strip_affixes(type_name: str) -> str:
    from dsconfig.core.did_you_mean import letters_and_digits_of

    return re.sub(_AFFIXES, "", letters_and_digits_of(type_name))


def _help_for_unknown_type(intended: str | None, names: list[str]) -> str:
    if intended:
        return (
            f"use {quote_value(intended)}; DeepSpeed accepts {join_alternatives(names, 'and')} "
            "(case-insensitive), and"
            " `torch.optim` classes (case-sensitive)"
        )
    return f"use {join_alternatives(names)} (case-insensitive), or a class of `torch.optim`"


# Params that the optimizer class does not accept.

_BUILD = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_PARAMS_PATH = ("optimizer", "params")


@rule("DSC510", effect="crashes", source=_BUILD)
def unknown_optimizer_param(ctx: Context) -> Iterator[Finding]:
    """A key of `optimizer.params` is not an argument of the class that the engine builds.

    DeepSpeed passes all of `params` as keyword arguments, so an unknown name fails with a TypeError during
    engine initialization. The class depends on more than the type: `Adam` and `AdamW` build FusedAdam,
    DeepSpeedCPUAdam with offloading, and PyTorch's classes with `torch_adam`. Each accepts a few arguments
    that the others do not. Only Muon ignores unknown arguments, including those of `torch.optim.Muon`.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "momentum": 0.9}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
    """
    arguments = configured_params(ctx, "optimizer")
    chosen = built_optimizer(ctx) if arguments else None
    if chosen is None or arguments.keys() <= chosen.accepts:
        return
    for key in arguments:
        if key not in chosen.accepts and key != "max_grad_norm":
            yield _report_unknown_param(ctx, chosen, key)


def _report_unknown_param(ctx: Context, chosen: BuiltClass, key: str) -> Finding:
    from dsconfig.rules._suggest_key import closest_word, is_same_spelling

    path = (*_PARAMS_PATH, key)
    reason, related = _why_param_is_unknown(ctx, chosen, key)
    suggestion = closest_word(key, chosen.accepts - configured_params(ctx, "optimizer").keys())
    is_ignored = chosen.name == "Muon"
    value = configured_params(ctx, "optimizer")[key]
    fix: Fix | None = remove_key(path, safe=True) if is_ignored else remove_key_showing_value(path, value)
    if suggestion:
        fix = rename_key(
            ctx, path, suggestion, value, safe=not is_ignored and is_same_spelling(key, suggestion)
        )
    return ctx.at(
        path,
        f"`{key}` is not an argument of {chosen.built}{reason}{', which ignores it' if is_ignored else ''}",
        help=f"did you mean `{suggestion}`?" if suggestion else f"remove it; {_list_accepted_params(chosen)}",
        effect="ignored" if is_ignored else "crashes",
        part="key",
        related=related,
        fix=fix,
    )


def _list_accepted_params(chosen: BuiltClass) -> str:
    names = (f"`{key}`" for key in sorted(chosen.accepts - {"max_grad_norm"}))
    return f"the accepted arguments are {join_alternatives(names, 'and')}"


def _why_param_is_unknown(ctx: Context, chosen: BuiltClass, key: str) -> tuple[str, list[tuple[str, str]]]:
    """Return why the built class rejects a param, and the key that selects the class."""
    if chosen.kind is None or chosen.kind.params is None:
        return "", []
    if chosen.name == "Muon" and key in OPTIMIZERS["Muon"].arguments:
        return " (`torch.optim.Muon`, which accepts it, is not used)", []
    info = keys_of_section_class(chosen.kind.params).get(key)
    if info is not None and not info.is_read_in(ctx.release):
        return f" before {release_name(info.spans[0][0])}", []
    if chosen.build == "cpu":
        return f", which offloading uses for `{chosen.name}`", related_offload(ctx)
    if chosen.build == "torch":
        return ", which `torch_adam` selects", [
            ("PyTorch's class is set here", "optimizer.params.torch_adam")
        ]
    if info is not None and info.is_accepted_by_class("cpu", ctx.release):
        return f"; {chosen.kind.cpu}, which offloading uses, accepts it", []
    return "", []


# Values that the optimizer class rejects when it is built or in its first step.

_PARAMS = "optimizer.params"


@rule("DSC511", effect="crashes", source="ops/adam/fused_adam.py:FusedAdam.step")
def betas_not_a_pair(ctx: Context) -> Iterator[Finding]:
    """`betas` does not contain exactly two numbers.

    Every step unpacks it into two values. DeepSpeed's own optimizers do not use it before, so their first
    step fails with a ValueError.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95, 0.999]}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}}}
    """
    betas = configured_params(ctx, "optimizer").get("betas")
    if not isinstance(betas, list) or len(betas) == 2:
        return
    chosen = built_optimizer(ctx)
    if chosen is not None and "betas" in chosen.accepts:
        yield ctx.at(
            f"{_PARAMS}.betas",
            f"`betas` contains {len(betas)} number{'s' if len(betas) != 1 else ''}, but {chosen.built}"
            " expects 2",
            help="use two numbers, such as `[0.9, 0.999]`",
        )


_NOT_NEGATIVE = ("lr", "weight_decay", "eps")


@rule("DSC512", effect="crashes", source="torch.optim:Optimizer")
def optimizer_param_out_of_range(ctx: Context) -> Iterator[Finding]:
    """A param is outside the range that PyTorch's class accepts.

    The classes of `torch.optim` validate their arguments, including those built for `torch_adam` and for
    `Adagrad` without offloading. DeepSpeed's own classes do not.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": -0.1}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
    """
    arguments = configured_params(ctx, "optimizer")
    if not arguments or not any(_may_be_out_of_range(value) for value in arguments.values()):
        return
    chosen = built_optimizer(ctx)
    if chosen is None or not chosen.of_torch:
        return
    for key in chosen.accepts & arguments.keys():
        violation = _find_range_violation(key, arguments[key])
        if violation is not None:
            index, accepted = violation
            yield ctx.at(
                ("optimizer", "params", key, *index),
                f"`{key}` is {quote_value(arguments[key])}, but {chosen.built} requires {accepted}",
                help=f"use {accepted}",
            )


def _may_be_out_of_range(value: Json) -> bool:
    return isinstance(value, list) or (is_number(value) and value < 0)


def _find_range_violation(key: str, value: Json) -> tuple[tuple[int, ...], str] | None:
    """Return the index of the invalid element, if any, and the accepted values; None if all are valid."""
    if key in _NOT_NEGATIVE and is_number(value) and value < 0:
        return (), "a non-negative number"
    if key == "betas" and isinstance(value, list) and len(value) == 2:
        for index, beta in enumerate(value):
            if is_number(beta) and not 0 <= beta < 1:
                return (index,), "two numbers that are at least 0 and less than 1"
    return None


@rule("DSC513", effect="crashes", source="runtime/engine.py:DeepSpeedEngine._take_model_step")
def optimizer_that_cannot_step(ctx: Context) -> Iterator[Finding]:
    """The engine cannot take a step with this class of `torch.optim`.

    `LBFGS` needs a closure that evaluates the model again, but the engine calls `step` without one. `SGD`
    rejects `nesterov` without `momentum` or with `dampening`.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "LBFGS"}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}}
    """
    type_name = ctx.raw("optimizer.type")
    if type_name == "LBFGS":
        yield ctx.at(
            "optimizer.type",
            f"`{type_name}` cannot be used from a config: its `step` needs a closure, and DeepSpeed passes"
            " none",
            help='use another optimizer, such as `"AdamW"`',
        )
    elif type_name == "SGD":
        arguments = configured_params(ctx, "optimizer")
        momentum, dampening = arguments.get("momentum", 0), arguments.get("dampening", 0)
        if arguments.get("nesterov") and (momentum == 0 or dampening not in (0, False)):
            yield ctx.at(
                f"{_PARAMS}.nesterov",
                "`nesterov` needs a `momentum` above 0 and no `dampening`, but they are"
                f" {quote_value(momentum)} and {quote_value(dampening)}",
                help='add `"momentum": 0.9`' if momentum == 0 else "remove `dampening`",
                fix=remove_key(("optimizer", "params", "nesterov")),
            )
