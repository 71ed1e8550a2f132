"""Elastic batch sizes, in the releases 0.3.9 to 0.19.7: what their solver refuses, and at which world sizes.

Everything counts only while `elasticity.enabled` is true in the eyes of Python.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dsconfig.batch import triplet
from dsconfig.diagnostic import Fix, Remove
from dsconfig.evaluation.context import MISSING, Context, Finding, SkipRule
from dsconfig.evaluation.rule import rule
from dsconfig.rules._elastic import Solver, endless, faults
from dsconfig.rules.batch import data_parallel_size
from dsconfig.words import quoted
from elastic.deepspeed.semantics import SEMANTICS, Semantics

_CONFIG = "elasticity/config.py:ElasticityConfig.__init__"
_SOLVER = "elasticity/elasticity.py:compute_elastic_config"
_ENGINE = "runtime/config.py:DeepSpeedConfig.__init__"


def _block(ctx: Context) -> dict[str, Any]:
    """The section, where it is switched on.

    Raises:
        SkipRule: it is not, or the release does not know it, or it is no object.
    """
    block = ctx.written("elasticity")
    if not isinstance(block, dict) or ctx.key("elasticity") is None or not ctx.on("elasticity.enabled"):
        raise SkipRule
    return block


def _semantics(ctx: Context) -> Semantics:
    return next(entry for entry in reversed(SEMANTICS) if ctx.since(entry.name))


def _faults(ctx: Context, code: str) -> Iterator[Finding]:
    for fault in faults(_block(ctx), _semantics(ctx)):
        if fault.code == code:
            yield ctx.at(f"elasticity.{fault.key}", fault.message, help=fault.help)


def _solver(ctx: Context) -> Solver:
    """The solver at work, where nothing is wrong with the section by itself.

    Raises:
        SkipRule: something is, or the numbers are larger than any release could work with.
    """
    block, semantics = _block(ctx), _semantics(ctx)
    if faults(block, semantics) or endless(block, semantics):
        raise SkipRule
    return Solver(block, semantics, ctx.release_name)


def _works_somewhere(ctx: Context, solver: Solver) -> bool:
    """Whether there is a number of GPUs at which DeepSpeed accepts the section."""
    shared: Any = ctx.written("sequence_parallel_size")
    shared = triplet.ABSENT if shared is MISSING else shared
    divides = not ctx.from_file and ctx.since("0.17.0") and isinstance(shared, int | float) and shared > 0
    for size in solver.candidates():
        gpus = max(1, round(size * shared)) if divides else size
        try:
            world = triplet.world_size(gpus, shared, ctx.release, from_file=ctx.from_file)
        except (TypeError, ZeroDivisionError):
            raise SkipRule from None  # a finding of its own
        if solver.works(world):
            return True
    return False


@rule("DSC601", effect="rejected", since="0.3.9", until="0.19.7", source=_CONFIG)
def elasticity_without_batch_sizes(ctx: Context) -> Iterator[Finding]:
    """Elasticity is enabled, and lacks one of the two keys it cannot do without.

    `max_train_batch_size` and `micro_batch_sizes` have defaults only while elasticity is off.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6]}}
    """
    yield from _faults(ctx, "DSC601")


@rule("DSC602", effect="rejected", since="0.3.9", until="0.19.7", source=_CONFIG)
def elastic_value_out_of_range(ctx: Context) -> Iterator[Finding]:
    """A number of an enabled `elasticity` section is too small, or is no number.

    Micro batch sizes are positive integers; GPU counts are at least 1, `min_time` at least 0, and `max_gpus`
    is not below `min_gpus`.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4.5]}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4]}}
    """
    yield from _faults(ctx, "DSC602")


@rule("DSC603", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def unknown_elastic_version(ctx: Context) -> Iterator[Finding]:
    """`elasticity.version` names an algorithm that the release does not have.

    Releases up to 0.6.7 have 0.1 alone; 0.7.0 added 0.2, which plans whole machines.

    Bad, release 0.6.7:

        {"elasticity": {"enabled": true, "max_train_batch_size": 8, "micro_batch_sizes": [2], "version": 0.2}}

    Good, release 0.7.0:

        {"elasticity": {"enabled": true, "max_train_batch_size": 8, "micro_batch_sizes": [2], "version": 0.2}}
    """
    yield from _faults(ctx, "DSC603")


@rule("DSC604", effect="rejected", since="0.7.0", until="0.19.7", source=_SOLVER)
def elastic_model_parallel_misfit(ctx: Context) -> Iterator[Finding]:
    """`model_parallel_size` does not go with the rest of the `elasticity` section.

    Only algorithm 0.2 takes model parallelism into account, and it wants whole models on each machine:
    `num_gpus_per_node` must be a multiple of `model_parallel_size`.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2], "version": 0.2,
                        "num_gpus_per_node": 4, "model_parallel_size": 3}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2], "version": 0.2,
                        "num_gpus_per_node": 4, "model_parallel_size": 2}}
    """
    yield from _faults(ctx, "DSC604")


@rule("DSC605", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def elastic_cap_below_micro_batch(ctx: Context) -> Iterator[Finding]:
    """`max_train_batch_size` leaves no room for one of the micro batch sizes.

    Every micro batch size must fit; algorithm 0.2 first shares the total out over the data-parallel ranks of
    a machine.

    Bad, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 4, "micro_batch_sizes": [2, 8]}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2, 8]}}
    """
    yield from _faults(ctx, "DSC605")


@rule("DSC606", effect="rejected", since="0.3.9", until="0.19.7", source=_ENGINE)
def batch_size_beside_elasticity(ctx: Context) -> Iterator[Finding]:
    """A batch key stands at the top level of a config whose elasticity is enabled.

    Elasticity works the three batch keys out. DeepSpeed refuses a config that gives them too, even as null,
    unless `ignore_non_elastic_batch_info` says that they may be overwritten.

    Bad, release 0.16.9:

        {"train_batch_size": 64,
         "elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Good, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}

    Fixed, release 0.16.9:

        {"elasticity": {"enabled": true, "max_train_batch_size": 64, "micro_batch_sizes": [2]}}
    """
    if _block(ctx).get("ignore_non_elastic_batch_info", False):
        return
    given = [key for key in triplet.KEYS if ctx.has(key)]
    if given:
        first, *others = given
        yield ctx.at(
            first,
            f"`{first}` is given, but `elasticity` is enabled and works the batch sizes out",
            help="remove the batch keys, or set `elasticity.ignore_non_elastic_batch_info` to `true`",
            part="key",
            related=[(f"`{key}` is given too", key) for key in others],
            fix=Fix("remove the batch keys", tuple(Remove((key,)) for key in given)),
        )


@rule("DSC607", effect="rejected", since="0.3.9", until="0.19.7", source=_SOLVER)
def world_size_not_elastic(ctx: Context) -> Iterator[Finding]:
    """The world size is none of those that the elastic batch size can be shared out to.

    Version 0.1 of the algorithm keeps to one batch size and lists the sizes that share it evenly. Version 0.2
    makes another batch for a size outside its list, unless models span several GPUs.

    Bad, release 0.16.9, world size 7:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}

    Good, release 0.16.9, world size 4:

        {"elasticity": {"enabled": true, "version": 0.1, "max_train_batch_size": 8, "micro_batch_sizes": [2]}}
    """
    solver = _solver(ctx)
    world = data_parallel_size(ctx)
    if world is None or solver.works(world) or not _works_somewhere(ctx, solver):
        return
    sizes = solver.sizes()
    more = " …" if len(sizes) > 12 else ""
    listed = f": {', '.join(map(str, sizes[:12]))}{more}" if sizes else ""
    why = f"is none of those that elasticity allows here{listed}"
    if solver.leaves_nothing(world):
        cap = quoted(solver.block["max_train_batch_size"])
        why = f"is too large: `max_train_batch_size` {cap} leaves no micro batch for some rank"
    yield ctx.at(
        "elasticity",
        f"world size {world:g} {why}",
        help="change the number of GPUs, or raise `max_train_batch_size`",
    )


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
    solver = _solver(ctx)
    if _works_somewhere(ctx, solver):
        return
    low, high = solver.block.get("min_gpus", 1), solver.block.get("max_gpus", 10000)
    yield ctx.at(
        "elasticity",
        f"no world size from `min_gpus` {quoted(low)} to `max_gpus` {quoted(high)} suits batches of at most "
        f"{quoted(solver.block['max_train_batch_size'])} in micro batches of "
        f"{quoted(solver.block['micro_batch_sizes'])}",
        help="widen the range of GPUs, or raise `max_train_batch_size`",
    )
