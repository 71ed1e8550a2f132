"""A `type` that names no optimizer."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.releases import name
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model import torch_classes
from dsconfig.model.keyinfo import TypeInfo, type_named
from dsconfig.rules._built_class import known_names, known_type, written_type

_ENGINE = "runtime/engine.py:DeepSpeedEngine"
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
    from dsconfig.core.wording.did_you_mean import plain

    return re.sub(_MAKERS, "", plain(word))


def _help(meant: str | None, known: list[str]) -> str:
    if meant:
        others = f"DeepSpeed knows {one_of(known, 'and')} in any case of letters"
        return f"write {quoted(meant)}; {others}, and the classes of `torch.optim` as they are spelt"
    return f"use {one_of(known)}, in any case of letters, or a class of `torch.optim`"
