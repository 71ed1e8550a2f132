"""Recomputing activations in the backward pass instead of keeping them."""

from typing import Annotated, ClassVar

from pydantic import Field

from dsconfig.model.key import SCRIPT, Key
from dsconfig.model.section import RootKeys, Section


class ActivationCheckpointing(Section):
    """Settings of `deepspeed.checkpointing`; without effect unless the script calls its `configure`."""

    SOURCE = "runtime/activation_checkpointing/config.py:DeepSpeedActivationCheckpointingConfig._initialize"

    partition_activations: Annotated[
        bool, Key(since="0.2.0", miswritten=("activation_checkpointing.partitioned_activations",))
    ] = False
    """Split kept activations over the model-parallel ranks: less memory, an all-gather in the backward
    pass."""
    contiguous_memory_optimization: Annotated[bool, Key(since="0.2.0")] = False
    """Copy split activations into one buffer, so that they do not fragment memory; needs
    `number_checkpoints`."""
    cpu_checkpointing: Annotated[bool, Key(since="0.2.0")] = False
    """Keep split activations in host memory; saves GPU memory and costs transfers."""
    number_checkpoints: Annotated[int | None, Key(since="0.2.0")] = None
    """Checkpoints that one forward pass makes; gives the contiguous buffers their size."""
    synchronize_checkpoint_boundary: Annotated[bool, Key(since="0.2.0")] = False
    """Wait for the device at each checkpoint, which makes timings exact and training slower."""
    profile: Annotated[bool, Key(since="0.2.0")] = False
    """Log how long each checkpointed function takes forward and backward."""


class ActivationCheckpointingKeys(RootKeys):
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
    """Recomputing activations instead of keeping them."""
