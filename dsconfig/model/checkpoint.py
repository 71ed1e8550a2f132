"""Checkpointing: DeepSpeed's own writers, Nebula and DataStates."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from dsconfig.model.key import ANYTHING, Key, NonObjectValues, SectionReading
from dsconfig.model.section import ABSENT, RootKeys, Section


class CheckpointWriter(Section):
    """Fast or decoupled checkpoint writer; even an empty object enables the fast writer."""

    SOURCE = "runtime/model_checkpointing/config.py:get_checkpoint_writer_config"

    type: Annotated[
        Literal["MOCK", "PYTHON", "FAST"] | None,
        Key(
            since="0.17.1",
            fold_case=True,
            means=(
                ("MOCK", "writes nothing"),
                ("PYTHON", "plain files"),
                ("FAST", "asynchronous I/O"),
            ),
        ),
    ] = "FAST"
    """Writer: FAST uses asynchronous I/O, PYTHON plain files, MOCK writes nothing. DeepSpeed accepts null
    when the config is loaded, but then has no writer when it saves the first checkpoint."""
    decoupled: Annotated[bool, Key(since="0.17.1")] = False
    """Write in a separate process while training continues."""
    io_buffer_size: Annotated[int, Key(since="0.17.1", unit="bytes")] = 67_108_864
    """Size of the host buffer for data that is written to the drive."""
    io_buffer_double: Annotated[bool, Key(since="0.17.1")] = True
    """Double buffering: fill one half of the buffer while the other is written."""
    show_statistics: Annotated[bool, Key(since="0.17.1")] = False
    """Log the throughput of each file when it is closed."""
    data_parallel: Annotated[
        Literal["REPLICA", "SOCKET", "MACHINE"] | None,
        Key(
            since="0.17.1",
            fold_case=True,
            means=(
                ("REPLICA", "all ranks that hold a copy"),
                ("SOCKET", "the ranks of one CPU socket"),
                ("MACHINE", "the ranks of one node"),
            ),
        ),
    ] = None
    """Data-parallel ranks that share the writing; null uses one rank."""
    io_multiplier: Annotated[int, Key(since="0.17.1")] = 1
    """Factor on the number of ranks that write in parallel."""


class ParallelWrite(Section):
    """Writing of checkpoints by several ranks in parallel."""

    SOURCE = "runtime/config.py:get_checkpoint_parallel_write_pipeline"

    pipeline_stage: Annotated[bool, Key(since="0.7.4")] = False
    """Every rank of a pipeline stage writes a part of its layer files; false lets the first rank write all.
    """


class Checkpoint(Section):
    """Saving and loading of checkpoints."""

    SOURCE = "runtime/config.py:DeepSpeedConfig._initialize_params"

    tag_validation: Annotated[
        Literal["WARN", "IGNORE", "FAIL"],
        Key(
            since="0.3.11",
            source="runtime/config.py:get_checkpoint_tag_validation_mode",
            fold_case=True,
            means=(
                ("WARN", "a warning"),
                ("IGNORE", "nothing"),
                ("FAIL", "an error"),
            ),
        ),
    ] = "WARN"
    """Reaction if ranks save under different tags, because they then do not find each other's files."""
    # `DeepSpeedConfig.load_universal_checkpoint` is the attribute that the key becomes.
    load_universal: Annotated[
        bool,
        Key(
            since="0.7.0",
            miswritten=("load_universal_checkpoint", "checkpoint.load_universal_checkpoint"),
        ),
    ] = False
    """Load checkpoints in the universal format, which works with any number of ranks."""
    use_node_local_storage: Annotated[bool, Key(since="0.7.5")] = False
    """Every node writes its own files; for nodes without a shared file system."""
    checkpoint_serialization: Annotated[
        bool,
        Key(
            since="0.17.1",
            source="runtime/model_checkpointing/config.py:get_checkpoint_config",
            unread=True,
        ),
    ] = True
    """Intended to save in the zip format of `torch.save`; accepted without effect."""
    writer: Annotated[
        CheckpointWriter | None,
        Key(
            since="0.17.1",
            source="runtime/model_checkpointing/config.py:get_checkpoint_writer_config",
            takes=(NonObjectValues(("null",), since="0.17.1"),),
        ),
    ] = None
    """Fast or decoupled checkpoint writer; null uses `torch.save`."""
    parallel_write: Annotated[
        ParallelWrite,
        Key(since="0.7.4", source="runtime/config.py:get_checkpoint_parallel_write_pipeline"),
    ] = Field(default_factory=ParallelWrite)
    """Which ranks write in parallel."""


class Nebula(Section):
    """Asynchronous checkpoints through the Azure Nebula service."""

    SOURCE = "nebula/config.py:DeepSpeedNebulaConfig._initialize"

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Save checkpoints with Nebula."""
    persistent_storage_path: Annotated[str | None, Key(since="0.7.0", until="0.19.6")] = None
    """Directory for persistent checkpoints."""
    persistent_time_interval: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="seconds")] = 100
    """Time between two persistent checkpoints."""
    num_of_version_in_retention: Annotated[int, Key(since="0.7.0", until="0.19.6")] = 2
    """Number of persistent checkpoints to keep; older ones are deleted."""
    enable_nebula_load: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = True
    """Load checkpoints from Nebula too, not only from disk."""
    nebula_load_path: Annotated[str | None, Key(since="0.7.0", until="0.19.6")] = None
    """Directory from which Nebula loads; null uses `persistent_storage_path`."""


class DatastatesCkpt(Section):
    """Asynchronous checkpoints through DataStates-LLM; other keys belong to that package.

    Any value other than false, even `{"enabled": false}`, enables it.
    """

    SOURCE = "datastates/config.py:DeepSpeedDataStatesConfig.__init__"
    READS = (SectionReading("hand", unknown="kept"),)
    model_config = ConfigDict(extra="allow")

    host_cache_size: Annotated[float, Key(since="0.18.1", source="the DataStates package", unit="GB")] = (
        ABSENT
    )
    """Pinned host memory for checkpoints that wait to be written; if absent, the DataStates package decides.
    """


class CheckpointRootKeys(RootKeys):
    """Root keys about checkpoints."""

    checkpoint: Annotated[
        Checkpoint, Key(since="0.3.11", source="runtime/config.py:get_checkpoint_params")
    ] = Field(default_factory=Checkpoint)
    """Saving and loading of checkpoints."""
    nebula: Annotated[
        Nebula,
        Key(
            since="0.7.0",
            until="0.19.6",
            refused_from="0.19.7",
            source="nebula/config.py:DeepSpeedNebulaConfig.__init__",
            opened_by="nebula.enabled",
        ),
    ] = Field(default_factory=Nebula)
    """Asynchronous checkpoints through Azure Nebula."""
    datastates_ckpt: Annotated[
        DatastatesCkpt,
        Key(
            since="0.18.1",
            source="datastates/config.py:DeepSpeedDataStatesConfig.__init__",
            takes=(ANYTHING,),
        ),
    ] = Field(default_factory=DatastatesCkpt)
    """Checkpoints through DataStates-LLM; any value other than `false` enables it."""
