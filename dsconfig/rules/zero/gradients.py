"""How gradients of stages 1 and 2 are reduced and laid out."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules._fixes import removal
from dsconfig.rules._offload import OPTIMIZER, device, device_place
from dsconfig.rules._stage import ZERO, stage, stage_set_here
from dsconfig.rules.optimizer.muon import refuses_scatter

_SCALING = (("prescale_gradients", False), ("gradient_predivide_factor", 1))
"""Keys of the top level that stage 2 takes without `reduce_scatter` alone, and their defaults."""


@rule(
    "DSC443",
    effect="wasteful",
    since="0.4.0",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.average_tensor",
)
def all_reduce_at_stage_2(ctx: Context) -> Iterator[Finding]:
    """`reduce_scatter` is false at stage 2.

    Every rank then receives all gradients by an all-reduce, and throws away those it does not own: twice the
    traffic. Models with mixture-of-experts layers stop with an assertion.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_scatter": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "reduce_scatter": true}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.reduce_scatter"
    if ctx.has(path) and not ctx.on(path) and stage(ctx) == 2 and not refuses_scatter(ctx):
        needing = [key for key, none in _SCALING if ctx.value(key) != none]
        yield ctx.at(
            path,
            "`reduce_scatter` is `false`: at stage 2 gradients are all-reduced to every rank, twice the"
            " traffic",
            help="remove it" + "".join(f", and remove `{key}`, which needs it" for key in needing),
            related=stage_set_here(ctx),
            fix=None if needing else removal(ctx.place(path)),
        )


@rule("DSC444", effect="altered", source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.__init__")
def contiguous_gradients_off_beside_offload(ctx: Context) -> Iterator[Finding]:
    """`contiguous_gradients` is false, and optimizer offload switches it on.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "contiguous_gradients": false,
        "offload_optimizer": {"device": "cpu"}}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "contiguous_gradients": true,
        "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    path = f"{ZERO}.contiguous_gradients"
    if not ctx.has(path) or ctx.on(path):
        return
    if stage(ctx) in (1, 2) and (home := device(ctx, OPTIMIZER)) != "none":
        yield ctx.at(
            path,
            f"`contiguous_gradients` is `false` and counts as `true`: the optimizer is offloaded to {home}",
            help="remove it",
            related=[("the optimizer is offloaded here", device_place(ctx, OPTIMIZER))],
            fix=removal(ctx.place(path)),
        )


@rule(
    "DSC445",
    effect="ignored",
    since="0.4.0",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer.complete_grad_norm_calculation_for_cpu_offload",
)
def unused_parameters_unchecked(ctx: Context) -> Iterator[Finding]:
    """`ignore_unused_parameters` is false, and nothing looks for unused parameters.

    The one place that does works out the norm of gradients on the CPU, so only with optimizer offload at
    stage 1 or 2.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "ignore_unused_parameters": false}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "ignore_unused_parameters": false,
        "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.ignore_unused_parameters"
    if ctx.has(path) and not ctx.on(path) and stage(ctx) in (1, 2) and device(ctx, OPTIMIZER) == "none":
        yield ctx.at(
            path,
            "`ignore_unused_parameters` is `false`, but DeepSpeed looks for unused parameters only where the"
            " optimizer is offloaded",
            help="remove it",
            fix=removal(ctx.place(path)),
        )


@rule(
    "DSC446",
    effect="wasteful",
    since="0.4.4",
    source="runtime/zero/stage_1_and_2.py:DeepSpeedZeroOptimizer._round_robin_reorder",
)
def round_robin_without_offload(ctx: Context) -> Iterator[Finding]:
    """`round_robin_gradients` is true, and the optimizer is not offloaded.

    The order of gradients is dealt out to let ranks copy them to host memory in parallel. Without offload
    there is nothing to copy, and the checkpoint is laid out in that other order.

    Bad:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "round_robin_gradients": true}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "round_robin_gradients": true,
        "offload_optimizer": {"device": "cpu"}}}

    Fixed:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2}}
    """
    path = f"{ZERO}.round_robin_gradients"
    if ctx.has(path) and ctx.on(path) and stage(ctx) in (1, 2) and device(ctx, OPTIMIZER) == "none":
        yield ctx.at(
            path,
            "`round_robin_gradients` speeds up the copying of gradients to host memory, and the optimizer is"
            " not offloaded",
            help="remove it, unless a checkpoint was saved with it",
            fix=removal(ctx.place(path)),
        )
