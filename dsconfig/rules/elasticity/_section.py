"""The `elasticity` section of a config, and the solver of the release."""

from __future__ import annotations

from dsconfig.core import batch_triplet
from dsconfig.core.json_types import Json, JsonObject
from dsconfig.evaluation.context import MISSING, Context, SkipRule
from dsconfig.rules.elasticity._block_errors import faults
from dsconfig.rules.elasticity._solver import Solver, endless
from elastic.deepspeed.semantics import SEMANTICS, Semantics


def block_of(ctx: Context) -> JsonObject:
    """The section, where it is switched on.

    Raises:
        SkipRule: it is not, or the release does not know it, or it is not an object.
    """
    block = ctx.written("elasticity")
    if not isinstance(block, dict) or ctx.key("elasticity") is None or not ctx.on("elasticity.enabled"):
        raise SkipRule
    return block


def semantics_of(ctx: Context) -> Semantics:
    """How the solver of the release calculates."""
    return next(entry for entry in reversed(SEMANTICS) if ctx.since(entry.name))


def solver_of(ctx: Context) -> Solver:
    """The solver at work, where nothing is wrong with the section by itself.

    Raises:
        SkipRule: something is, or the numbers are larger than any release could work with.
    """
    block, semantics = block_of(ctx), semantics_of(ctx)
    if faults(block, semantics) or endless(block, semantics):
        raise SkipRule
    return Solver(block, semantics, ctx.release_name)


def works_somewhere(ctx: Context, solver: Solver) -> bool:
    """Whether there is a number of GPUs at which DeepSpeed accepts the section."""
    shared: Json = ctx.written("sequence_parallel_size")
    shared = batch_triplet.ABSENT if shared is MISSING else shared
    divides = not ctx.from_file and ctx.since("0.17.0") and isinstance(shared, int | float) and shared > 0
    for size in solver.candidates():
        gpus = max(1, round(size * shared)) if divides else size
        try:
            world = batch_triplet.world_size(gpus, shared, ctx.release, from_file=ctx.from_file)
        except (TypeError, ZeroDivisionError):
            raise SkipRule from None  # a finding of its own
        if solver.works(world):
            return True
    return False
