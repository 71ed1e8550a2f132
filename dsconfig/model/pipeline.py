"""Settings of the pipeline engine."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.key import SCRIPT, Key, SectionReading
from dsconfig.model.section import Auto, RootKeys, Section


class Pipeline(Section):
    """Pipeline parallelism. Keys that DeepSpeed does not read here are arguments of `PipelineModule`."""

    SOURCE = "runtime/config.py:get_pipeline_config"
    READS = (SectionReading("hand", unknown="kept"),)

    stages: Annotated[
        int | Auto,
        Key(since="0.3.0", unread=True, auto_is_value=True, means=(("auto", "the default"),)),
    ] = "auto"
    """Accepted without effect: `PipelineModule` sets the number of stages."""
    partition: Annotated[str, Key(since="0.3.0", unread=True)] = "best"
    """Accepted without effect: `PipelineModule(partition_method=...)` sets the partitioning of layers."""
    seed_layers: Annotated[bool, Key(since="0.3.0", unread=True)] = False
    """Accepted without effect: use `PipelineModule(seed_layers=...)`."""
    activation_checkpoint_interval: Annotated[int, Key(since="0.3.0", unit="layers")] = 0
    """Number of layers between activation checkpoints; 0 uses the setting of `PipelineModule`."""
    pipe_partitioned: Annotated[bool, Key(since="0.12.3")] = True
    """Partition the activations sent between stages over the tensor-parallel ranks: less communication, one
    all-gather."""
    grad_partitioned: Annotated[bool, Key(since="0.12.3")] = True
    """Partition the gradients sent between stages over the tensor-parallel ranks."""
    use_reentrant: Annotated[
        bool, Key(since="0.10.3", source="runtime/pipe/engine.py:PipelineEngine.__init__")
    ] = True
    """Use PyTorch's reentrant activation checkpointing; false uses the non-reentrant implementation."""


class PipelineRootKeys(RootKeys):
    """The root key of pipeline parallelism."""

    pipeline: Annotated[
        Pipeline,
        Key(
            since="0.3.0",
            source="runtime/config.py:get_pipeline_config",
            opened_by=SCRIPT,  # PipelineEngine, which DeepSpeed builds for a PipelineModule
        ),
    ] = Field(default_factory=Pipeline)
    """Communication and recomputation of the pipeline engine; `PipelineModule` sets the stages."""
