"""Optimizers that ZeRO has not been tested with."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import Chosen, known_type, optimizer, written_type
from dsconfig.rules._stage import stage_place_if_written, zero_stage

_FLAG = "zero_allow_untested_optimizer"
_ZENFLOWS_OWN = "ZenFlowCPUAdam"
_TESTED = {
    "torch.optim.Adam": "0.3.1",
    "torch.optim.AdamW": "0.3.11",
    "FusedAdam": "0.3.1",
    "DeepSpeedCPUAdam": "0.3.1",
    "torch.optim.Adagrad": "0.9.2",
    "DeepSpeedCPUAdagrad": "0.9.2",
    "FusedLion": "0.11.0",
    "DeepSpeedCPULion": "0.11.0",
    "MuonWithAuxAdam": "0.17.6",
    _ZENFLOWS_OWN: "0.19.3",
}
"""The classes that ZeRO has been tested with, and since when (runtime/zero/utils.py,
`ZERO_SUPPORTED_OPTIMIZERS`)."""


@rule("DSC535", effect="crashes", source="runtime/engine.py:DeepSpeedEngine._do_optimizer_sanity_check")
def untested_optimizer_with_zero(ctx: Context) -> Iterator[Finding]:
    """ZeRO is on, and its authors have not tested it with this optimizer.

    They have with Adam, AdamW, Adagrad, Lion and Muon. Any other class (`Lamb`, the ones of `mup`, all else
    in `torch.optim`, and up to 0.19.2 the Adam of ZenFlow) stops the engine unless
    `zero_allow_untested_optimizer` is true. Most work element by element and are fine; those that look at
    whole layers, such as Lamb, see slices of them.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_optimization": {"stage": 2}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": true}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "SGD", "params": {"lr": 0.1}},
        "zero_optimization": {"stage": 2}, "zero_allow_untested_optimizer": true}
    """
    if (
        "zero_optimization" not in ctx.data
        or "optimizer" not in ctx.data
        or ctx.on(_FLAG)
        or zero_stage(ctx) <= 0
    ):
        return
    built = _built(ctx)
    if built is not None:
        word = quoted(written_type(ctx, "optimizer"))
        yield ctx.at(
            "optimizer.type",
            f"`optimizer.type` is {word}, that is {built}, and ZeRO refuses optimizers that it has not"
            f" been tested with unless `{_FLAG}` is `true`",
            help=f'add `"{_FLAG}": true`, or '
            + ("remove `zenflow`" if built == _ZENFLOWS_OWN else 'use `"AdamW"`'),
            related=stage_place_if_written(ctx),
            fix=Fix(f'add `"{_FLAG}": true`', (Set((_FLAG,), True),)),
        )


def _built(ctx: Context) -> str | None:
    """The class that is built, where ZeRO has not been tested with it."""
    chosen: Chosen | None = optimizer(ctx)
    if chosen is None:
        kind = known_type(ctx, "Optimizer", written_type(ctx, "optimizer"))
        return kind.gpu if kind else None
    if chosen.build != "torch" and chosen.kind and chosen.kind.name in _ONE_BIT:
        return None  # `one-bit-optimizer-with-zero` says that no flag helps
    built = chosen.built
    if built == "DeepSpeedCPUAdam" and isinstance(ctx.value("zero_optimization.zenflow"), dict):
        built = _ZENFLOWS_OWN  # runtime/engine.py, `DeepSpeedEngine._configure_basic_optimizer`
    tested = _TESTED.get(built)
    return None if tested and ctx.since(tested) else built


_ONE_BIT = ("OneBitAdam", "OneBitLamb", "ZeroOneAdam")
