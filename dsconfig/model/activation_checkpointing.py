"""Activation checkpointing: recompute activations in the backward pass instead of keeping them."""

from typing import Annotated, ClassVar

from pydantic import Field

from dsconfig.model.key import SCRIPT, Key
from dsconfig.model.section import RootKeys, Section


class ActivationCheckpointing(Section):
    """Settings of `deepspeed.checkpointing`; no effect unless the script calls its `configure`."""

    SOURCE = "runtime/activation_checkpointing/config.py:DeepSpeedActivationCheckpointingConfig._initialize"

    partition_activations: Annotated[
        bool, Key(since="0.2.0", miswritten=("activation_checkpointing.partitioned_activations",))
    ] = False
    """Partition checkpointed activations over the model-parallel ranks: less memory, one all-gather in the
    backward pass."""
    contiguous_memory_optimization: Annotated[bool, Key(since="0.2.0")] = False
    """Copy partitioned activations into one contiguous buffer to avoid memory fragmentation; requires
    `number_checkpoints`."""
    cpu_checkpointing: Annotated[bool, Key(since="0.2.0")] = False
    """Offload partitioned activations to host memory; saves GPU memory and costs transfers."""
    number_checkpoints: Annotated[int | None, Key(since="0.2.0")] = None
    """Number of activation checkpoints in one forward pass; determines the size of the contiguous buffers."""
    synchronize_checkpoint_boundary: Annotated[bool, Key(since="0.2.0")] = False
    """Synchronize the device at each checkpoint; makes timings exact and training slower."""
    profile: Annotated[bool, Key(since="0.2.0")] = False
    """Log the forward and backward time of each checkpointed function."""


class ActivationCheckpointingRootKeys(RootKeys):
    """The root key of activation checkpointing."""

    NOT_KEYS: ClassVar[tuple[str, ...]] = ("gradient_checkpointing",)

    activation_checkpointing: Annotated[
        ActivationCheckpointing,
        Key(
            since="0.2.0",
            source="runtime/activation_checkpointing/config.py:DeepSpeedActivationCheckpointingConfig.__init__",
            opened_by=SCRIPT,  # deepspeed.checkpointing.configure
        ),
    ] = Field(default_factory=ActivationCheckpointing)
    """Recomputation of activations in the backward pass instead of keeping them."""
