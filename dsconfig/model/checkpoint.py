"""Saving and loading checkpoints: DeepSpeed's own writer, and the engines of others."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from dsconfig.model.annotations import ABSENT
from dsconfig.model.key import ANYTHING, Key, Reads, Takes
from dsconfig.model.section import RootKeys, Section


class CheckpointWriter(Section):
    """Fast or decoupled writing; an empty object already switches the fast writer on."""

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
    """Writer: FAST goes through asynchronous I/O, PYTHON through plain files, MOCK writes nothing. Null is
    let in, and names no writer when the first checkpoint is saved."""
    decoupled: Annotated[bool, Key(since="0.17.1")] = False
    """Write from a process of its own, so that training goes on meanwhile."""
    io_buffer_size: Annotated[int, Key(since="0.17.1", unit="bytes")] = 67_108_864
    """Size of the host buffer through which data passes on its way to the drive."""
    io_buffer_double: Annotated[bool, Key(since="0.17.1")] = True
    """Fill one half of the buffer while the other is written."""
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
                ("MACHINE", "the ranks of one machine"),
            ),
        ),
    ] = None
    """Unit among whose data-parallel ranks the writing is shared; null leaves it to one rank."""
    io_multiplier: Annotated[int, Key(since="0.17.1")] = 1
    """Multiplies the number of ranks that write at once."""


class ParallelWrite(Section):
    """Writing by several ranks at once."""

    SOURCE = "runtime/config.py:get_checkpoint_parallel_write_pipeline"

    pipeline_stage: Annotated[bool, Key(since="0.7.4")] = False
    """Let every rank of a pipeline stage write a part of its layer files instead of the first rank all."""


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
    """What happens when ranks save under different tags; they would not find each other's files again."""
    # `DeepSpeedConfig.load_universal_checkpoint` is the attribute that the key becomes.
    load_universal: Annotated[
        bool,
        Key(
            since="0.7.0",
            miswritten=("load_universal_checkpoint", "checkpoint.load_universal_checkpoint"),
        ),
    ] = False
    """Load checkpoints in the universal format, which fits any number of ranks."""
    use_node_local_storage: Annotated[bool, Key(since="0.7.5")] = False
    """Have every node write its own files, where the nodes share no file system."""
    checkpoint_serialization: Annotated[
        bool,
        Key(
            since="0.17.1",
            source="runtime/model_checkpointing/config.py:get_checkpoint_config",
            unread=True,
        ),
    ] = True
    """Meant to save in `torch.save`'s zip format; taken, and never looked at."""
    writer: Annotated[
        CheckpointWriter | None,
        Key(
            since="0.17.1",
            source="runtime/model_checkpointing/config.py:get_checkpoint_writer_config",
            takes=(Takes(("null",), since="0.17.1"),),
        ),
    ] = None
    """Fast or decoupled writing; null keeps `torch.save`."""
    parallel_write: Annotated[
        ParallelWrite,
        Key(since="0.7.4", source="runtime/config.py:get_checkpoint_parallel_write_pipeline"),
    ] = Field(default_factory=ParallelWrite)
    """Which ranks write at once."""


class Nebula(Section):
    """Asynchronous checkpoints through the Azure Nebula service."""

    SOURCE = "nebula/config.py:DeepSpeedNebulaConfig._initialize"

    enabled: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = False
    """Hand checkpoints to Nebula."""
    persistent_storage_path: Annotated[str | None, Key(since="0.7.0", until="0.19.6")] = None
    """Directory for checkpoints that shall last."""
    persistent_time_interval: Annotated[int, Key(since="0.7.0", until="0.19.6", unit="seconds")] = 100
    """Time between two lasting checkpoints."""
    num_of_version_in_retention: Annotated[int, Key(since="0.7.0", until="0.19.6")] = 2
    """Lasting checkpoints kept; older ones go."""
    enable_nebula_load: Annotated[bool, Key(since="0.7.0", until="0.19.6")] = True
    """Look for checkpoints in Nebula when loading, not only on disk."""
    nebula_load_path: Annotated[str | None, Key(since="0.7.0", until="0.19.6")] = None
    """Directory from which Nebula loads; null takes `persistent_storage_path`."""


class DatastatesCkpt(Section):
    """Asynchronous checkpoints through DataStates-LLM; its keys beyond these belong to that package.

    Any value but false, even `{"enabled": false}`, switches it on.
    """

    SOURCE = "datastates/config.py:DeepSpeedDataStatesConfig.__init__"
    READS = (Reads("hand", unknown="kept"),)
    model_config = ConfigDict(extra="allow")

    host_cache_size: Annotated[float, Key(since="0.18.1", source="the DataStates package", unit="GB")] = (
        ABSENT
    )
    """Pinned host memory in which checkpoints wait to be written; when absent, that package decides."""


class CheckpointKeys(RootKeys):
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
    """Checkpoints through DataStates-LLM; on as soon as anything but false stands here."""
