"""Muon: what it takes at ZeRO stage 3, and its two learning rates."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import known_type, params, written_type
from dsconfig.rules._stage import stage_place_if_written, zero_stage

_STAGE3 = "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__"
_SCATTER = "zero_optimization.reduce_scatter"
_QUANTIZED = "zero_optimization.zero_quantized_gradients"


def is_muon(ctx: Context) -> bool:
    """Whether the optimizer is Muon, in a release that has it."""
    word = written_type(ctx, "optimizer")
    return word is not None and word.lower() == "muon" and known_type(ctx, "Optimizer", word) is not None


@rule("DSC530", effect="crashes", since="0.18.9", source=_STAGE3)
def muon_with_scattered_gradients(ctx: Context) -> Iterator[Finding]:
    """Muon at ZeRO stage 3 needs whole gradients: no `reduce_scatter`, no `zero_quantized_gradients`.

    `reduce_scatter` is on by default, so that Muon at stage 3 always fails unless it is switched off. The
    quantized gradients of ZeRO++ travel in pieces as well.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"},
        "zero_optimization": {"stage": 3, "reduce_scatter": false}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"},
        "zero_optimization": {"stage": 3, "reduce_scatter": false}}
    """
    if "zero_optimization" not in ctx.data or not is_muon(ctx) or zero_stage(ctx) != 3:
        return
    chosen = [("the optimizer is chosen here", "optimizer.type"), *stage_place_if_written(ctx)]
    for path, said in ((_SCATTER, "by default "), (_QUANTIZED, "")):
        if ctx.on(path):
            key = path.rpartition(".")[2]
            yield ctx.at(
                path,
                f"`{key}` is {'' if ctx.has(path) else said}{quoted(True)}, and Muon at stage 3 needs it off",
                help=f'write `"{key}": false`',
                related=chosen,
                fix=Fix(f"switch `{key}` off", (Set(("zero_optimization", key), False),)),
            )


@rule(
    "DSC531",
    effect="wasteful",
    since="0.18.3",
    source="runtime/engine.py:DeepSpeedEngine._muon_half_defaults",
)
def muon_with_one_learning_rate(ctx: Context) -> Iterator[Finding]:
    """One `lr` serves both halves of Muon, which want different ones.

    Matrices are updated by Muon, everything else by Adam. Left alone they run at 0.02 and 0.0003; `lr` sets
    both, unless `muon_lr` and `adam_lr` say otherwise.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Muon", "params": {"lr": 0.02}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Muon", "params": {"muon_lr": 0.02, "adam_lr": 0.0003}}}
    """
    written = params(ctx, "optimizer")
    if "lr" in written and not written.keys() & {"muon_lr", "adam_lr"} and is_muon(ctx):
        yield ctx.at(
            "optimizer.params.lr",
            f"`lr` is {quoted(written['lr'])} for both halves of Muon: left alone, matrices train at 0.02 and"
            " the rest, by Adam, at 0.0003",
            help="remove it, and add `muon_lr` and `adam_lr`",
        )
