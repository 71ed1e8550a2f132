"""A `type` that names no scheduler."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.releases import name
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model import torch_classes
from dsconfig.model.keyinfo import type_named
from dsconfig.rules._built_class import known_names, known_type, written_type

_BUILD = "runtime/engine.py:DeepSpeedEngine._scheduler_from_config"
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
