"""Values of optimizer params that the class behind the type refuses, at once or at its first step."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.json_types import Json
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import optimizer, params
from dsconfig.rules._fixes import removal
from dsconfig.rules._numbers import is_number

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
