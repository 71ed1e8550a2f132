"""SuperOffload: the stage and the optimizer that it requires."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._no_effect import differs_from_default
from dsconfig.rules._offload import OPTIMIZER
from dsconfig.rules._stage import stage, stage_set_here, stage_words
from dsconfig.rules.offload._optimizer import type_of

_SUPER = f"{OPTIMIZER}.super_offload"


@rule(
    "DSC467",
    effect="ignored",
    since="0.18.0",
    source="runtime/engine.py:DeepSpeedEngine._configure_zero_optimizer",
)
def super_offload_out_of_use(ctx: Context) -> Iterator[Finding]:
    """`super_offload` below stage 3, or `cpuadam_cores_perc` without it.

    SuperOffload is an optimizer of stage 3, and the only one that looks at `cpuadam_cores_perc`.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu",
        "super_offload": true}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu",
        "super_offload": true, "cpuadam_cores_perc": 0.9}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    cores = f"{OPTIMIZER}.cpuadam_cores_perc"
    asked = ctx.has(_SUPER) and ctx.on(_SUPER)
    if asked and stage(ctx) < 3:
        yield ctx.at(
            _SUPER,
            f"`super_offload` has no effect: it works at stage 3 alone, and {stage_words(ctx)}",
            help="use stage 3, or remove it",
            related=stage_set_here(ctx),
            fix=removal(ctx.place(_SUPER)),
        )
    elif not asked and differs_from_default(ctx, cores):
        yield ctx.at(
            cores,
            "`cpuadam_cores_perc` has no effect: only `super_offload` uses it",
            help='remove it, or add `"super_offload": true`',
            fix=removal(ctx.place(cores)),
        )


_NOT_LIKE_ADAM = {
    "adagrad": "betas",
    "lamb": "amsgrad",
    "lion": "eps",
    "rmsprop": "betas",
    "sgd": "betas",
}
"""Optimizers, and what of Adam's their parameter groups lack."""


@rule(
    "DSC468",
    effect="crashes",
    since="0.18.0",
    source="runtime/superoffload/superoffload_stage3.py:SuperOffloadOptimizer_Stage3.__init__",
)
def super_offload_without_adam(ctx: Context) -> Iterator[Finding]:
    """`super_offload` is on at stage 3, and the optimizer is not Adam.

    SuperOffload updates with an Adam of its own and takes `betas`, `eps` and `amsgrad` from the optimizer,
    whatever it is: a KeyError as the engine starts.

    Bad:

        {"train_batch_size": 8, "optimizer": {"type": "Lion"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "super_offload": true}}}

    Good:

        {"train_batch_size": 8, "optimizer": {"type": "AdamW"}, "zero_optimization": {"stage": 3,
        "offload_optimizer": {"device": "cpu", "super_offload": true}}}
    """
    if not ctx.has(_SUPER) or not ctx.on(_SUPER):
        return
    lacks = _NOT_LIKE_ADAM.get(type_of(ctx))
    if lacks and stage(ctx) == 3:
        yield ctx.at(
            _SUPER,
            f"`super_offload` takes `{lacks}` from the optimizer, and `{ctx.value('optimizer.type')}` has"
            " none",
            help='set `optimizer.type` to `"AdamW"`, or remove `super_offload`',
            related=[("the optimizer is chosen here", "optimizer.type")],
            fix=removal(ctx.place(_SUPER)),
        )
