"""Elastic training: a global batch size that works with many numbers of GPUs."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.key import Key
from dsconfig.model.section import NonNegativeInt, PositiveInt, RootKeys, Section


class Elasticity(Section):
    """Elastic training: batch sizes are computed so that a job can continue with more or fewer GPUs.

    Keys are checked only while `enabled` is true.
    """

    SOURCE = "elasticity/config.py:ElasticityConfig.__init__"

    enabled: Annotated[
        bool, Key(since="0.3.9", until="0.19.7", source="elasticity/elasticity.py:elasticity_enabled")
    ] = False
    """Let DeepSpeed choose the batch sizes; top-level batch keys are then rejected or overwritten."""
    max_train_batch_size: Annotated[int, Key(since="0.3.9", until="0.19.7", unit="samples")] = 2000
    """Maximum global batch size. Required if elasticity is enabled."""
    micro_batch_sizes: Annotated[list[PositiveInt], Key(since="0.3.9", until="0.19.7", unit="samples")] = (
        Field(default=[2, 4, 6])
    )
    """Candidate micro-batch sizes; more candidates allow more GPU counts. Required if elasticity is enabled.
    """
    min_gpus: Annotated[PositiveInt, Key(since="0.3.9", until="0.19.7")] = 1
    """Minimum GPU count."""
    max_gpus: Annotated[PositiveInt, Key(since="0.3.9", until="0.19.7")] = 10000
    """Maximum GPU count; not below `min_gpus`."""
    num_gpus_per_node: Annotated[PositiveInt, Key(since="0.7.0", until="0.19.7")] = 1
    """GPUs per node; version 0.2 scales by whole nodes."""
    model_parallel_size: Annotated[PositiveInt, Key(since="0.7.0", until="0.19.7")] = 1
    """Model-parallel degree: GPUs that share one copy of the model. Values above 1 require version 0.2."""
    min_time: Annotated[
        NonNegativeInt,
        Key(since="0.3.9", until="0.19.7", unit="minutes", defaults=(("0.3.9", "20"),)),
    ] = 0
    """Minimum run time before a scheduler may change the GPU count again; 0 leaves it to the scheduler."""
    prefer_larger_batch: Annotated[
        bool, Key(since="0.3.9", until="0.19.7", miswritten=("elasticity.prefer_large_batch",))
    ] = True
    """Prefer the larger of two batch sizes that allow the same number of GPU counts; false prefers the
    smaller."""
    ignore_non_elastic_batch_info: Annotated[bool, Key(since="0.3.9", until="0.19.7")] = False
    """Overwrite top-level batch keys instead of rejecting them."""
    version: Annotated[
        float,
        Key(
            since="0.3.9",
            until="0.19.7",
            known=("0.1", "0.2"),
            defaults=(("0.6.7", 0.1),),
            means=(
                (0.1, "counts GPUs"),
                (0.2, "counts nodes, supports model parallelism; from 0.7.0 on"),
            ),
        ),
    ] = 0.2
    """Version of the algorithm: 0.1 counts GPUs; 0.2 (from 0.7.0 on) counts nodes and supports model
    parallelism."""


class ElasticityRootKeys(RootKeys):
    """The root key of elasticity."""

    elasticity: Annotated[
        Elasticity,
        Key(
            since="0.3.9",
            until="0.19.7",
            refused_from="0.19.8",
            advice="remove it, and write the batch sizes that `dsconfig resolve --world-size N` computes for "
            "it, or check with `--consumer elastic` if `dsconfig elastic run` starts the job",
            opened_by="elasticity.enabled",
            source="elasticity/elasticity.py:elasticity_enabled",
        ),
    ] = Field(default_factory=Elasticity.absent)
    """Elastic training: batch sizes that work with many GPU counts."""
