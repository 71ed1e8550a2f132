"""The pipeline engine."""

from typing import Annotated

from pydantic import Field

from dsconfig.model.annotations import Auto
from dsconfig.model.key import SCRIPT, Key, Reads
from dsconfig.model.section import RootKeys, Section


class Pipeline(Section):
    """Pipeline parallelism. Every key is copied; `PipelineModule` settles those that nothing reads."""

    SOURCE = "runtime/config.py:get_pipeline_config"
    READS = (Reads("hand", unknown="kept"),)

    stages: Annotated[
        int | Auto, Key(since="0.3.0", unread=True, auto_is_value=True, means=(("auto", "the default"),))
    ] = "auto"
    """Taken and never looked at: the number of stages comes from `PipelineModule`."""
    partition: Annotated[str, Key(since="0.3.0", unread=True)] = "best"
    """Taken and never looked at: `PipelineModule(partition_method=...)` decides how layers are spread."""
    seed_layers: Annotated[bool, Key(since="0.3.0", unread=True)] = False
    """Taken and never looked at: `PipelineModule(seed_layers=...)` decides."""
    activation_checkpoint_interval: Annotated[int, Key(since="0.3.0", unit="layers")] = 0
    """Recompute activations in groups of this many layers; 0 leaves it to `PipelineModule`."""
    pipe_partitioned: Annotated[bool, Key(since="0.12.3")] = True
    """Send activations between stages split over the tensor-parallel ranks: less traffic, one all-gather."""
    grad_partitioned: Annotated[bool, Key(since="0.12.3")] = True
    """Send gradients between stages split over the tensor-parallel ranks."""
    use_reentrant: Annotated[
        bool, Key(since="0.10.3", source="runtime/pipe/engine.py:PipelineEngine.__init__")
    ] = True
    """Recompute activations with PyTorch's reentrant checkpoint function; false takes the newer one."""


class PipelineKeys(RootKeys):
    """The root key of pipeline parallelism."""

    pipeline: Annotated[
        Pipeline,
        Key(
            since="0.3.0",
            source="runtime/config.py:get_pipeline_config",
            opened_by=SCRIPT,  # PipelineEngine, made for a PipelineModule
        ),
    ] = Field(default_factory=Pipeline)
    """Traffic and recomputation of the pipeline engine; the stages come from `PipelineModule`."""
