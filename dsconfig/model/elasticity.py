"""Elastic training: a global batch size that many GPU counts can share."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.annotations import NonNegativeInt, PositiveInt
from dsconfig.model.key import Key
from dsconfig.model.section import RootKeys, Section


class Elasticity(Section):
    """Computes the batch sizes, so that a job can go on with more or fewer GPUs.

    Keys are checked only while `enabled` is true.
    """

    SOURCE = "elasticity/config.py:ElasticityConfig.__init__"

    enabled: Annotated[
        bool, Key(since="0.3.9", until="0.19.7", source="elasticity/elasticity.py:elasticity_enabled")
    ] = False
    """Let DeepSpeed choose the batch sizes; the batch keys at the top are then refused or overwritten."""
    max_train_batch_size: Annotated[int, Key(since="0.3.9", until="0.19.7", unit="samples")] = 2000
    """Largest acceptable global batch. Must be given when elasticity is on."""
    micro_batch_sizes: Annotated[list[PositiveInt], Key(since="0.3.9", until="0.19.7", unit="samples")] = (
        Field(default=[2, 4, 6])
    )
    """Micro-batch sizes to choose from; more allow more GPU counts. Must be given when elasticity is on."""
    min_gpus: Annotated[PositiveInt, Key(since="0.3.9", until="0.19.7")] = 1
    """Smallest GPU count that must work."""
    max_gpus: Annotated[PositiveInt, Key(since="0.3.9", until="0.19.7")] = 10000
    """Largest GPU count to consider; not below `min_gpus`."""
    num_gpus_per_node: Annotated[PositiveInt, Key(since="0.7.0", until="0.19.7")] = 1
    """GPUs in one machine; algorithm 0.2 scales by whole machines."""
    model_parallel_size: Annotated[PositiveInt, Key(since="0.7.0", until="0.19.7")] = 1
    """GPUs that share one copy of the model; above 1 only with algorithm 0.2."""
    min_time: Annotated[
        NonNegativeInt,
        Key(since="0.3.9", until="0.19.7", unit="minutes", defaults=(("0.3.9", "20"),)),
    ] = 0
    """Shortest run before a scheduler may change the GPU count again; 0 leaves it to the scheduler."""
    prefer_larger_batch: Annotated[
        bool, Key(since="0.3.9", until="0.19.7", miswritten=("elasticity.prefer_large_batch",))
    ] = True
    """Of equally flexible batch sizes take the larger one; false takes the smaller."""
    ignore_non_elastic_batch_info: Annotated[bool, Key(since="0.3.9", until="0.19.7")] = False
    """Overwrite batch keys found at the top of the config instead of refusing them."""
    version: Annotated[
        float,
        Key(
            since="0.3.9",
            until="0.19.7",
            known=("0.1", "0.2"),
            defaults=(("0.6.7", 0.1),),
            means=(
                (0.1, "counts single GPUs"),
                (0.2, "counts machines, and knows model parallelism; from 0.7.0 on"),
            ),
        ),
    ] = 0.2
    """Algorithm: 0.1 counts single GPUs; 0.2 (from 0.7.0 on) counts machines and knows model parallelism."""


class ElasticityKeys(RootKeys):
    """The root key of elasticity."""

    elasticity: Annotated[
        Elasticity,
        Key(
            since="0.3.9",
            until="0.19.7",
            refused_from="0.19.8",
            advice="remove it, and write the batch sizes that `dsconfig resolve --world-size N` finds for "
            "it, or check with `--consumer elastic` if `dsconfig elastic run` starts the job",
            opened_by="elasticity.enabled",
            source="elasticity/elasticity.py:elasticity_enabled",
        ),
    ] = Field(default_factory=Elasticity.absent)
    """Batch sizes that fit many numbers of GPUs."""
