"""`TrainingJob`: facts about a run besides its config and its model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.core.json_types import NamedTuple

if TYPE_CHECKING:
    from dsconfig.memory.models.architecture import Architecture, MicroBatch
    from dsconfig.memory.trainer_memory import TrainerTraits


class TrainingJob(NamedTuple):
    """Facts about a run besides its config and its model."""

    release: str
    """DeepSpeed release, such as `0.19.8`."""
    world_size: int
    """Number of ranks, one per GPU."""
    micro_batch: MicroBatch
    """Size of a micro batch and how the script computes it; dtypes and parallelism follow from the config."""
    gpus_per_node: int = 1
    """Ranks per host."""
    optimizer: str | None = None
    """Name of the script's optimizer; None: that of the config, else the usual one."""
    zero_init: bool = False
    """Whether `zero.Init` builds the model in shards at stage 3."""
    use_reentrant: bool = False
    """`use_reentrant` of `torch.utils.checkpoint`."""
    gpu_limit: int | None = None
    """Bytes of GPU memory, which decide where weights are flattened; None: not known."""
    trainer: TrainerTraits | None = None
    """Training method; None: plain fine-tuning."""
    frozen_models: tuple[Architecture, ...] = ()
    """Models next to the trained one, besides its reference model."""
    vllm_bytes: int | None = None
    """Bytes that vLLM reserves on the same GPU; None: the model generates itself."""
    expandable_segments: bool = False
    """Whether the environment sets `expandable_segments` for torch's allocator."""
