"""Muon: its requirements at ZeRO stage 3, and its two learning rates."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.core.diagnostic import Fix, SetValue
from dsconfig.core.wording import quote_value
from dsconfig.evaluation.rule import rule
from dsconfig.evaluation.rule_context import Context, Finding
from dsconfig.rules._built_class import configured_params, known_type, written_type
from dsconfig.rules._effective_values import (
    OPTIMIZER,
    offload_device,
    related_stage_key,
    stage_if_configured,
)

_STAGE3 = "runtime/zero/stage3.py:DeepSpeedZeroOptimizer_Stage3.__init__"
_SCATTER = "zero_optimization.reduce_scatter"
_QUANTIZED = "zero_optimization.zero_quantized_gradients"


def is_muon(ctx: Context) -> bool:
    """Return whether the optimizer is Muon and the release supports it."""
    type_name = written_type(ctx, "optimizer")
    return (
        type_name is not None
        and type_name.lower() == "muon"
        and known_type(ctx, "Optimizer", type_name) is not None
    )


def requires_reduce_scatter_off(ctx: Context) -> bool:
    """Return whether offloaded Muon at stage 1 or 2 requires `reduce_scatter` to be false."""
    if not ctx.between("0.19.3", "0.19.5") or not is_muon(ctx) or stage_if_configured(ctx) not in (1, 2):
        return False
    return offload_device(ctx, OPTIMIZER) != "none"


@rule("DSC530", effect="crashes", since="0.18.9", source=_STAGE3)
def muon_with_scattered_gradients(ctx: Context) -> Iterator[Finding]:
    """Muon at ZeRO stage 3 needs full gradients: no `reduce_scatter`, no `zero_quantized_gradients`.

    `reduce_scatter` is true by default, so Muon at stage 3 always fails unless it is set to false. The
    quantized gradients of ZeRO++ are partitioned as well.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 3}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"},
        "zero_optimization": {"stage": 3, "reduce_scatter": false}}

    Fixed:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"},
        "zero_optimization": {"stage": 3, "reduce_scatter": false}}
    """
    if "zero_optimization" not in ctx.data or not is_muon(ctx) or stage_if_configured(ctx) != 3:
        return
    related = [("the optimizer is set here", "optimizer.type"), *related_stage_key(ctx)]
    for path in (_SCATTER, _QUANTIZED):
        if ctx.is_on(path):
            key = path.rpartition(".")[2]
            yield ctx.at(
                path,
                f"`{key}` is {quote_value(True)}{'' if ctx.has(path) else ' by default'}, but Muon at stage 3"
                f" requires {quote_value(False)}",
                help=f"set `{path}` to `false`",
                related=related,
                fix=Fix(f"set `{key}` to `false`", (SetValue(("zero_optimization", key), False),)),
            )


@rule(
    "DSC531",
    effect="wasteful",
    since="0.18.3",
    source="runtime/engine.py:DeepSpeedEngine._muon_half_defaults",
)
def muon_with_one_learning_rate(ctx: Context) -> Iterator[Finding]:
    """One `lr` is used for both parts of Muon, which need different learning rates.

    Muon updates the matrices, and Adam everything else. Their default learning rates are 0.02 and 0.0003.
    `lr` sets both, unless `muon_lr` and `adam_lr` are set.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Muon", "params": {"lr": 0.02}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "Muon", "params": {"muon_lr": 0.02, "adam_lr": 0.0003}}}
    """
    arguments = configured_params(ctx, "optimizer")
    if "lr" in arguments and not arguments.keys() & {"muon_lr", "adam_lr"} and is_muon(ctx):
        yield ctx.at(
            "optimizer.params.lr",
            f"`lr` is {quote_value(arguments['lr'])} for both parts of Muon: the defaults are 0.02 for matrices"
            " and 0.0003 for everything else, which Adam updates",
            help="remove it, and set `muon_lr` and `adam_lr`",
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
    """Muon is combined with a ZeRO feature that the release does not support with it.

    Up to 0.18.8, this is stage 3: "Muon optimizer is not yet compatible with ZeRO Stage 3". From 0.19.3 to
    0.19.5, it is an offloaded optimizer at stage 1 or 2 with `reduce_scatter`, which is true by default.

    Bad, release 0.18.8:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 3}}

    Good, release 0.18.8:

        {"train_batch_size": 8, "optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 2,
        "reduce_scatter": false}}
    """
    if "zero_optimization" not in ctx.data or not is_muon(ctx):
        return
    related = [("the optimizer is set here", "optimizer.type"), *related_stage_key(ctx)]
    if ctx.before("0.18.9"):
        if stage_if_configured(ctx) == 3:
            yield ctx.at(
                "optimizer.type",
                f"`optimizer.type` is {quote_value(written_type(ctx, 'optimizer'))}, which does not work at ZeRO"
                f" stage 3 in DeepSpeed {ctx.release_name}",
                help="use stage 2, or upgrade DeepSpeed to 0.18.9 or later",
                related=related,
            )
        return
    if requires_reduce_scatter_off(ctx) and ctx.is_on(_SCATTER):
        yield ctx.at(
            _SCATTER,
            "`reduce_scatter` is `true`, but Muon with an offloaded optimizer requires `false` in DeepSpeed"
            f" {ctx.release_name}",
            help=f"set `{_SCATTER}` to `false`, or upgrade DeepSpeed to 0.19.8 or later",
            related=related,
            fix=Fix(
                "set `reduce_scatter` to `false`", (SetValue(("zero_optimization", "reduce_scatter"), False),)
            ),
        )
