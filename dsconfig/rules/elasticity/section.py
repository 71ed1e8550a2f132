"""Values of an enabled `elasticity` section that the solver refuses."""

from __future__ import annotations

from collections.abc import Iterator

from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.rules.elasticity._block_errors import faults
from dsconfig.rules.elasticity._section import block_of, semantics_of

_CONFIG = "elasticity/config.py:ElasticityConfig.__init__"
_SOLVER = "elasticity/elasticity.py:compute_elastic_config"


def _faults(ctx: Context, code: str) -> Iterator[Finding]:
    for fault in faults(block_of(ctx), semantics_of(ctx)):
        if fault.code == code:
            yield ctx.at(f"elasticity.{fault.key}", fault.message, help=fault.help)


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
    """A value of an enabled `elasticity` section is too small, or is not a number.

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
