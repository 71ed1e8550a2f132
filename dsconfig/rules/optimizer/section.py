"""Optimizer section: its `type`, the params of that type, and errors while DeepSpeed loads them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.json_types import Json
from dsconfig.core.releases import name
from dsconfig.core.wording import described, one_of, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.model import torch_classes
from dsconfig.model.keyinfo import TypeInfo, section_keys, type_named
from dsconfig.rules._built_class import (
    Chosen,
    known_names,
    known_type,
    optimizer,
    params,
    type_left_out,
    written_type,
)
from dsconfig.rules._effective_values import offload_place
from dsconfig.rules._fixes import loss, removal, renamed
from dsconfig.rules._numbers import is_number

# A section without `type`, or whose `params` are null.

_ENGINE = "runtime/engine.py:DeepSpeedEngine"


@rule("DSC505", effect="ignored", source="runtime/config.py:get_optimizer_name")
def optimizer_without_type(ctx: Context) -> Iterator[Finding]:
    """The optimizer section has no `type`, and so no effect at all.

    No optimizer is built, whatever `params` say. Unless the script hands one to `deepspeed.initialize`, ZeRO
    stops for want of an optimizer, and without ZeRO nothing can be trained.

    Bad:

        {"train_batch_size": 8, "optimizer": {"name": "AdamW", "params": {"lr": 0.001}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
    """
    yield from type_left_out(
        ctx, "optimizer", names=("name", "optimizer", "optimizer_type", "Type"), example="AdamW"
    )


@rule("DSC506", effect="altered", source=f"{_ENGINE}._configure_basic_optimizer")
def optimizer_params_null(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params` is null, which leaves everything, the learning rate too, to the class.

    Before 0.5.1 the engine looks for keys in it, and stops, also where `params` is absent.

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
    chosen = optimizer(ctx)
    default = chosen.params["lr"].default if chosen and "lr" in chosen.params else None
    yield ctx.at(
        "optimizer.params",
        ("`optimizer.params` is `null`" if "params" in section else "`optimizer.params` is absent")
        + (
            ", and DeepSpeed looks for keys in it"
            if crashes
            else ": the optimizer's own defaults apply"
            + (f", a learning rate of {default:g} among them" if default is not None else "")
        ),
        help="write an object with the learning rate at least",
        effect="crashes" if crashes else "altered",
        fix=Fix("write `{}`", (Set(("optimizer", "params"), {}),), safe=True),
    )


# The optimizer section: what DeepSpeed does by hand with its type and params while it loads a config.

_NORM = "optimizer.params.max_grad_norm"


@rule("DSC501", effect="rejected", source="runtime/config.py:DeepSpeedConfig._initialize_params")
def optimizer_type_not_a_name(ctx: Context) -> Iterator[Finding]:
    """`optimizer.type` is not a string.

    DeepSpeed compares the name in lower case as soon as it loads the config, which only a string allows.
    Null, or no `type` at all, is taken, and leaves the whole section without effect.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": ["AdamW"]}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}}
    """
    name = ctx.value("optimizer.type")
    if name is not None and not isinstance(name, str):
        yield ctx.at(
            "optimizer.type",
            f"`optimizer.type` is {described(name)} where DeepSpeed expects the name of an optimizer",
            help='give a name such as `"AdamW"`',
        )


def _params(ctx: Context) -> Json:
    """The params that DeepSpeed looks at: it does so only where the optimizer has a type.

    Raises:
        SkipRule: there are none, or the section is refused.
    """
    params = ctx.written("optimizer.params")
    if params is MISSING or ctx.value("optimizer.type") is None:
        raise SkipRule
    return params


@rule("DSC502", effect="rejected", source="runtime/config.py:DeepSpeedConfig._do_warning_check")
def optimizer_params_not_an_object(ctx: Context) -> Iterator[Finding]:
    """`optimizer.params` is not an object.

    DeepSpeed looks for `max_grad_norm` in it when it loads the config. Null is taken, and means the defaults
    of the optimizer's class; so is anything at all while the section has no `type`.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": 0.001}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
    """
    params = _params(ctx)
    if params is not None and not isinstance(params, dict):
        yield ctx.at(
            "optimizer.params",
            f"`optimizer.params` is {described(params)} where DeepSpeed expects an object",
            help="write an object with the arguments of the optimizer",
        )


@rule("DSC503", effect="rejected", source="runtime/config.py:DeepSpeedConfig._do_warning_check")
def max_grad_norm_not_a_number(ctx: Context) -> Iterator[Finding]:
    """`max_grad_norm` stands among the optimizer's params, and is not a number.

    DeepSpeed asks whether it is greater than 0 when it loads the config, to warn that the optimizer will not
    clip with it. Clipping is set by `gradient_clipping`, at the top level.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"max_grad_norm": "auto"}}}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 1.0, "optimizer": {"type": "AdamW", "params": {}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {}}}
    """
    params = _params(ctx)
    if not isinstance(params, dict) or "max_grad_norm" not in params:
        return
    norm = params["max_grad_norm"]
    if not isinstance(norm, int | float):
        yield ctx.at(
            _NORM,
            f"`max_grad_norm` is {described(norm)} and DeepSpeed compares it with 0",
            help="remove it; to clip gradients, set `gradient_clipping` at the top level",
            fix=removal(("optimizer", "params", "max_grad_norm")),
        )


# A `type` that names no optimizer.

_TYPE = "optimizer.type"


@rule("DSC504", effect="crashes", source=f"{_ENGINE}._is_supported_optimizer")
def unknown_optimizer(ctx: Context) -> Iterator[Finding]:
    """`optimizer.type` names no optimizer that the release can build.

    DeepSpeed's own types are known in any case of letters; every other name has to be a class of
    `torch.optim`, letter by letter: `SGD`, not `sgd`. Names of DeepSpeed's classes, such as `FusedAdam`, are
    none, and the 1-bit optimizers are gone since 0.19.7. The engine stops as it starts, or, where the name is
    something else in `torch.optim` (`Optimizer`, `lr_scheduler`), as it calls that.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "sgd", "params": {"lr": 0.1}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
    """
    word = written_type(ctx, "optimizer")
    if word is None or word in torch_classes.OPTIMIZERS or known_type(ctx, "Optimizer", word):
        return
    kind = type_named("Optimizer", word)
    meant = _meant(word, ctx)
    yield ctx.at(
        _TYPE,
        f"`optimizer.type` is {quoted(word)}: {_reason(ctx, kind, word)}",
        help=_help(meant, [f"`{known}`" for known in known_names(ctx, "Optimizer")]),
        fix=Fix(
            f"write {quoted(meant)}", (Set(("optimizer", "type"), meant),), safe=meant.lower() == word.lower()
        )
        if meant
        else None,
    )


def _reason(ctx: Context, kind: TypeInfo | None, word: str) -> str:
    if word == "auto":
        return "nobody fills it, and the engine takes the text for a name"
    if kind is None:
        return f"DeepSpeed {ctx.release_name} knows no such optimizer, nor is it a class of `torch.optim`"
    if ctx.release > kind.releases.last:
        return f"DeepSpeed has it up to {name(kind.releases.last)}, and {ctx.release_name} does not"
    return f"DeepSpeed has it from {name(kind.releases.first)} on, and {ctx.release_name} does not"


def _meant(word: str, ctx: Context) -> str | None:
    """The type that is meant by a name that names none; never one that the release does not have."""
    from dsconfig.rules._did_you_mean import alike, nearest_of

    known = [*torch_classes.OPTIMIZERS, *known_names(ctx, "Optimizer")]
    for wanted in (word, _bare(word)):
        same = [each for each in known if alike(each, wanted)]
        if same:
            return same[-1]
    return nearest_of(word, known)


_MAKERS = (
    r"^(deepspeed|torch(optim)?|fused|cpu|onebit|zeroone|bnb|hf)+"
    r"|(?<!torch)(?<!fused)(?<!hf)(torch|fused|hf)+$"
)
"""What stands before or after the name in the names of classes, and of other programs.

What stands after it is searched from its first word only: from each, it takes the square of a long name.
"""


def _bare(word: str) -> str:
    from dsconfig.core.did_you_mean import plain

    return re.sub(_MAKERS, "", plain(word))


def _help(meant: str | None, known: list[str]) -> str:
    if meant:
        others = f"DeepSpeed knows {one_of(known, 'and')} in any case of letters"
        return f"write {quoted(meant)}; {others}, and the classes of `torch.optim` as they are spelt"
    return f"use {one_of(known)}, in any case of letters, or a class of `torch.optim`"


# Params that the class behind the optimizer's type does not take.

_BUILD = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_PARAMS_PATH = ("optimizer", "params")


@rule("DSC510", effect="crashes", source=_BUILD)
def unknown_optimizer_param(ctx: Context) -> Iterator[Finding]:
    """A key of `optimizer.params` is not an argument of the class that the engine builds.

    DeepSpeed hands all of `params` over as keyword arguments, so that one unknown name ends in a TypeError as
    the engine starts. Which class it is depends on more than the type: `Adam` and `AdamW` are FusedAdam,
    DeepSpeedCPUAdam under offload, and PyTorch's with `torch_adam`, and each takes a few names that the
    others do not. Muon alone passes over what it does not know, the arguments of `torch.optim.Muon` too.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001, "momentum": 0.9}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"lr": 0.001}}}
    """
    written = params(ctx, "optimizer")
    chosen = optimizer(ctx) if written else None
    if chosen is None or written.keys() <= chosen.accepts:
        return
    for word in written:
        if word not in chosen.accepts and word != "max_grad_norm":
            yield _unknown(ctx, chosen, word)


def _unknown(ctx: Context, chosen: Chosen, word: str) -> Finding:
    from dsconfig.rules._did_you_mean import alike, nearest_of

    path = (*_PARAMS_PATH, word)
    why, related = _why(ctx, chosen, word)
    near = nearest_of(word, chosen.accepts - params(ctx, "optimizer").keys())
    ignored = chosen.name == "Muon"
    value = params(ctx, "optimizer")[word]
    fix: Fix | None = removal(path, safe=True) if ignored else loss(path, value)
    if near:
        fix = renamed(ctx, path, near, value, safe=not ignored and alike(word, near))
    return ctx.at(
        path,
        f"`{word}` is not an argument of {chosen.built}{why}{', which passes over it' if ignored else ''}",
        help=f"did you mean `{near}`?" if near else f"remove it; {_known(chosen)}",
        effect="ignored" if ignored else "crashes",
        part="key",
        related=related,
        fix=fix,
    )


def _known(chosen: Chosen) -> str:
    return (
        f"taken are {one_of((f'`{known}`' for known in sorted(chosen.accepts - {'max_grad_norm'})), 'and')}"
    )


def _why(ctx: Context, chosen: Chosen, word: str) -> tuple[str, list[tuple[str, str]]]:
    """What makes the class the one that is built, and who would take the param."""
    if chosen.kind is None or chosen.kind.params is None:
        return "", []
    if chosen.name == "Muon" and word in torch_classes.OPTIMIZERS["Muon"].arguments:
        return " (but of `torch.optim.Muon`, which this name does not reach)", []
    info = section_keys(chosen.kind.params).get(word)
    if info is not None and not info.read_in(ctx.release):
        return f" before {name(info.spans[0][0])}", []
    if chosen.build == "cpu":
        return f", which offloading takes for `{chosen.name}`", offload_place(ctx)
    if chosen.build == "torch":
        return ", which `torch_adam` takes", [("PyTorch's is asked for here", "optimizer.params.torch_adam")]
    if info is not None and info.accepted_by("cpu", ctx.release):
        return f"; {chosen.kind.cpu}, which offloading takes, has it", []
    return "", []


# Values of optimizer params that the class behind the type refuses, at once or at its first step.

_PARAMS = "optimizer.params"


@rule("DSC511", effect="crashes", source="ops/adam/fused_adam.py:FusedAdam.step")
def betas_not_a_pair(ctx: Context) -> Iterator[Finding]:
    """`betas` holds fewer or more than two numbers.

    Every step takes it apart into two; DeepSpeed's own optimizers look at it for the first time then, and the
    first step ends in a ValueError.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95, 0.999]}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW", "params": {"betas": [0.9, 0.95]}}}
    """
    betas = params(ctx, "optimizer").get("betas")
    if not isinstance(betas, list) or len(betas) == 2:
        return
    chosen = optimizer(ctx)
    if chosen is not None and "betas" in chosen.accepts:
        yield ctx.at(
            f"{_PARAMS}.betas",
            f"`betas` holds {len(betas)} number{'s' if len(betas) != 1 else ''}, and {chosen.built} takes it"
            " apart into 2",
            help="write two numbers, such as `[0.9, 0.999]`",
        )


_NOT_NEGATIVE = ("lr", "weight_decay", "eps")


@rule("DSC512", effect="crashes", source="torch.optim:Optimizer")
def value_that_torch_refuses(ctx: Context) -> Iterator[Finding]:
    """A param is out of the bounds that PyTorch's class checks.

    The classes of `torch.optim` (also behind `torch_adam`, and behind `Adagrad` without offloading) check
    what they are given; DeepSpeed's own do not.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": -0.1}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
    """
    written = params(ctx, "optimizer")
    if not written or not any(_may_be_refused(value) for value in written.values()):
        return
    chosen = optimizer(ctx)
    if chosen is None or not chosen.of_torch:
        return
    for word in chosen.accepts & written.keys():
        bound = _bound(word, written[word])
        if bound is not None:
            at, text = bound
            yield ctx.at(
                ("optimizer", "params", word, *at),
                f"`{word}` is {quoted(written[word])}, and {chosen.built} takes {text}",
                help=f"give {text}",
            )


def _may_be_refused(value: Json) -> bool:
    return isinstance(value, list) or (is_number(value) and value < 0)


def _bound(word: str, value: Json) -> tuple[tuple[int, ...], str] | None:
    """Where a value is out of bounds, and what is taken instead."""
    if word in _NOT_NEGATIVE and is_number(value) and value < 0:
        return (), "a number of at least 0"
    if word == "betas" and isinstance(value, list) and len(value) == 2:
        for place, beta in enumerate(value):
            if is_number(beta) and not 0 <= beta < 1:
                return (place,), "two numbers of at least 0 and less than 1"
    return None


_ALONE = {
    "LBFGS": "its `step` needs a closure, and DeepSpeed never passes one",
}


@rule("DSC513", effect="crashes", source="runtime/engine.py:DeepSpeedEngine._take_model_step")
def optimizer_that_cannot_step(ctx: Context) -> Iterator[Finding]:
    """A class of `torch.optim` with which the engine cannot take a step, as it is set up.

    `LBFGS` asks for a closure that evaluates the model again, and the engine calls `step` without one. `SGD`
    refuses `nesterov` without `momentum`, or with `dampening`.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "LBFGS"}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}}
    """
    word = ctx.written("optimizer.type")
    if word == "LBFGS":
        yield ctx.at(
            "optimizer.type",
            f"`{word}` cannot be used from a config: {_ALONE[word]}",
            help='use another optimizer, such as `"AdamW"`',
        )
    elif word == "SGD":
        written = params(ctx, "optimizer")
        momentum, dampening = written.get("momentum", 0), written.get("dampening", 0)
        if written.get("nesterov") and (momentum == 0 or dampening not in (0, False)):
            yield ctx.at(
                f"{_PARAMS}.nesterov",
                "`nesterov` needs a `momentum` above 0 and no `dampening`, and they are"
                f" {quoted(momentum)} and {quoted(dampening)}",
                help='add `"momentum": 0.9`' if momentum == 0 else "remove `dampening`",
                fix=removal(("optimizer", "params", "nesterov")),
            )
