"""`TrainingJob`: the inputs of an estimate other than the config and the model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.core.json_types import NamedTuple

if TYPE_CHECKING:
    from dsconfig.memory.models.architecture import Architecture, MicroBatch
    from dsconfig.memory.trainer_memory import TrainerTraits


class TrainingJob(NamedTuple):
    """The inputs of an estimate other than the config and the model."""

    release: str
    """DeepSpeed release number, such as `0.19.8`."""
    world_size: int
    """Number of ranks, with one rank per GPU."""
    micro_batch: MicroBatch
    """Size of a micro batch and how the script computes it; dtypes and parallelism follow from the config."""
    gpus_per_node: int = 1
    """Number of ranks per node."""
    optimizer: str | None = None
    """Name of the script's optimizer, or None for the config's optimizer or else the usual one."""
    zero_init: bool = False
    """Whether `zero.Init` builds the model in shards at stage 3."""
    use_reentrant: bool = False
    """Value of `use_reentrant` for `torch.utils.checkpoint`."""
    gpu_limit: int | None = None
    """Bytes of GPU memory, which decide where weights are flattened, or None if unknown."""
    trainer: TrainerTraits | None = None
    """Training method, or None for plain fine-tuning."""
    frozen_models: tuple[Architecture, ...] = ()
    """Frozen models that are loaded next to the trained one, besides its reference model."""
    vllm_bytes: int | None = None
    """Bytes that vLLM reserves on the same GPU, or None if the model generates without vLLM."""
    expandable_segments: bool = False
    """Whether the environment sets `expandable_segments` for torch's allocator."""
