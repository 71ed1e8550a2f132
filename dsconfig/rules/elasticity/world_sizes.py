"""World sizes at which the solver finds no batch."""

from __future__ import annotations

import math
from collections.abc import Iterator

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.batch._triplet import data_parallel_size
from dsconfig.rules.elasticity._section import solver_of, works_somewhere
from dsconfig.rules.elasticity._solver import Solver, endless

_SOLVER = "elasticity/elasticity.py:compute_elastic_config"


@rule("DSC607", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def world_size_not_elastic(ctx: Context) -> Iterator[Finding]:
    """The world size is not one of those that the elastic batch size can be shared out to.

    Version 0.1 of the algorithm keeps to one batch size and lists the sizes that share it evenly. Version 0.2
    makes another batch for a size outside its list, unless models span several GPUs.

    Bad, release 0.16.9, world size 7:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}

    Good, release 0.16.9, world size 4:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}
    """
    solver = solver_of(ctx)
    world = data_parallel_size(ctx)
    if world is None or solver.works(world) or not works_somewhere(ctx, solver):
        return
    sizes = solver.sizes()
    more = " …" if len(sizes) > 12 else ""
    listed = f": {', '.join(map(str, sizes[:12]))}{more}" if sizes else ""
    why = f"is not one of those that elasticity allows here{listed}"
    if solver.leaves_nothing(world):
        cap = quoted(solver.block["max_train_batch_size"])
        why = f"is too large: `elasticity.max_train_batch_size` {cap} leaves no micro batch for some rank"
    yield ctx.at(
        "elasticity",
        f"world size {world:g} {why}",
        help="change the number of GPUs" + _raised(solver, world),
    )


def _raised(solver: Solver, world: float) -> str:
    """The cap that leaves each rank its smallest micro batch, where that is enough."""
    least = math.ceil(min(solver.block["micro_batch_sizes"]) * world)
    if least <= solver.block["max_train_batch_size"] or not solver.altered(max_train_batch_size=least).works(
        world
    ):
        return ""
    return f", or raise `max_train_batch_size` to {least}"


@rule("DSC608", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def elasticity_without_world_size(ctx: Context) -> Iterator[Finding]:
    """No world size at all suits the `elasticity` section.

    Between `min_gpus` and `max_gpus` there is no number of GPUs to which a batch of at most
    `max_train_batch_size` can be shared out in whole micro batches.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2], "version": 0.1,
                        "min_gpus": 50}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}
    """
    solver = solver_of(ctx)
    if works_somewhere(ctx, solver):
        return
    low, high = solver.block.get("min_gpus", 1), solver.block.get("max_gpus", 10000)
    yield ctx.at(
        "elasticity",
        f"no world size from `min_gpus` {quoted(low)} to `max_gpus` {quoted(high)} suits batches of at most "
        f"{quoted(solver.block['max_train_batch_size'])} in micro batches of "
        f"{quoted(solver.block['micro_batch_sizes'])}",
        help=_way_out(ctx, solver),
    )


def _way_out(ctx: Context, solver: Solver) -> str:
    """What of the range and the cap was tried and gives a world size."""
    block = solver.block
    options = []
    wide = solver.altered(min_gpus=1, max_gpus=10000)
    if {"min_gpus", "max_gpus"} & set(block) and works_somewhere(ctx, wide):
        options.append("widen the range of GPUs")
    for factor in (2, 8, 64):
        cap = factor * math.ceil(block["max_train_batch_size"])
        higher = solver.altered(max_train_batch_size=cap)
        if not endless(higher.block, solver.semantics) and works_somewhere(ctx, higher):
            options.append(f"raise `max_train_batch_size` to {cap}")
            break
    return ", or ".join(options) or "use other sizes, or switch elasticity off"
