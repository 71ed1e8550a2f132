"""Params that the class behind the optimizer's type does not take."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix
from dsconfig.core.releases import name
from dsconfig.core.wording import one_of
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model import torch_classes
from dsconfig.model.keyinfo import section_keys
from dsconfig.rules._built_class import Chosen, optimizer, params
from dsconfig.rules._fixes import loss, removal
from dsconfig.rules._move_fix import renamed
from dsconfig.rules._offload import offload_place

_BUILD = "runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer"
_PARAMS = ("optimizer", "params")


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

    path = (*_PARAMS, word)
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
    if info is not None and info.taken_by("cpu", ctx.release):
        return f"; {chosen.kind.cpu}, which offloading takes, has it", []
    return "", []
