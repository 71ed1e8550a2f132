"""Muon: what it takes at ZeRO stage 3, and its two learning rates."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, Set
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._built_class import known_type, params, written_type
from dsconfig.rules._effective_values import OPTIMIZER, device, related_stage_key, zero_stage

_STAGE3 = "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__"
_SCATTER = "zero_optimization.reduce_scatter"
_QUANTIZED = "zero_optimization.zero_quantized_gradients"


def is_muon(ctx: Context) -> bool:
    """Whether the optimizer is Muon, in a release that has it."""
    word = written_type(ctx, "optimizer")
    return word is not None and word.lower() == "muon" and known_type(ctx, "Optimizer", word) is not None


def refuses_scatter(ctx: Context) -> bool:
    """Whether Muon of stages 1 and 2 is offloaded, in a release that wants `reduce_scatter` off for that."""
    if not ctx.between("0.19.3", "0.19.5") or not is_muon(ctx) or zero_stage(ctx) not in (1, 2):
        return False
    return device(ctx, OPTIMIZER) != "none"


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
    chosen = [("the optimizer is chosen here", "optimizer.type"), *related_stage_key(ctx)]
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


@rule(
    "DSC516",
    effect="crashes",
    since="0.17.6",
    until="0.19.5",
    source="runtime/engine.py:DeepSpeedEngine._configure_basic_optimizer,"
    " runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__",
)
def muon_with_unsupported_zero_feature(ctx: Context) -> Iterator[Finding]:
    """Muon meets a part of ZeRO that does not take it yet.

    Up to 0.18.8 that is stage 3: "Muon optimizer is not yet compatible with ZeRO Stage 3". From 0.19.3 to
    0.19.5 it is an offloaded optimizer at stages 1 and 2 with `reduce_scatter`, which is on by default.

    Bad, release 0.18.8:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 3}}

    Good, release 0.18.8:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 2}}
    """
    if "zero_optimization" not in ctx.data or not is_muon(ctx):
        return
    chosen = [("the optimizer is chosen here", "optimizer.type"), *related_stage_key(ctx)]
    if ctx.before("0.18.9"):
        if zero_stage(ctx) == 3:
            yield ctx.at(
                "optimizer.type",
                f"`optimizer.type` is {quoted(written_type(ctx, 'optimizer'))}, which does not work at ZeRO"
                f" stage 3 in DeepSpeed {ctx.release_name}",
                help="use stage 2, or upgrade DeepSpeed to 0.18.9 or later",
                related=chosen,
            )
        return
    if refuses_scatter(ctx) and ctx.on(_SCATTER):
        yield ctx.at(
            _SCATTER,
            "`reduce_scatter` is on, and Muon with an offloaded optimizer needs it off in DeepSpeed"
            f" {ctx.release_name}",
            help='write `"reduce_scatter": false`, or upgrade DeepSpeed to 0.19.8 or later',
            related=chosen,
            fix=Fix("switch `reduce_scatter` off", (Set(("zero_optimization", "reduce_scatter"), False),)),
        )
