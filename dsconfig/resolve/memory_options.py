"""`MemoryOptions`: the arguments of `memory` other than the config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from dsconfig.check.build_job import MappingSource, build_job, job_from_arguments
from dsconfig.memory import TRAINERS
from dsconfig.resolve.memory_run_defaults import LONGEST
from dsconfig.resolve.training_features import LOSSES

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json
    from dsconfig.core.releases import ReleaseTarget
    from dsconfig.job.job import Job
    from dsconfig.launch.located_config import LocatedConfig
    from dsconfig.resolve.model_source import ModelSource

ATTENTION = ("sdpa", "flash", "eager")
MOST_IMBALANCE = 4096


class MemoryOptions(NamedTuple):
    """Arguments of `memory`, except the config."""

    model: ModelSource | None = None
    world_size: int | None = None
    target: str | ReleaseTarget | None = None
    consumer: str | None = None
    sequence_length: int | None = None
    micro_batch: int | None = None
    attention: str | None = None
    checkpointing: bool | None = None
    lora: str | Mapping[str, Json] | None = None
    optimizer: str | None = None
    zero_init: bool | None = None
    gpus_per_node: int | None = None
    set: Mapping[str, Json] | None = None
    training_args: MappingSource = None
    sp: int | None = None
    imbalance: float | None = None
    launch: str | os.PathLike[str] | None = None
    job: Job | None = None
    """The job, if it has already been built; None: built from target, world size and consumer."""
    gpu_limit: int | None = None
    """Memory of a GPU minus the headroom, in bytes."""
    parameters: int | None = None
    """Number of parameters, for a model whose layers are not supported."""
    loss: str | None = None
    quantize: str | None = None
    trainer: str | None = None
    frozen_models: tuple[ModelSource, ...] = ()
    vllm: float | None = None
    image_tokens: int | None = None
    train_vision: bool | None = None
    packing: bool | None = None
    expandable_segments: bool | None = None
    gpu_bytes: int | None = None
    """Memory of the GPU in bytes, of which vLLM reserves a fraction."""

    def build_job_of_config(self, located: LocatedConfig) -> Job:
        """Build the job of a config with these options, unless it has already been built."""
        asked_job = job_from_arguments(self.target, self.world_size, self.consumer, launch=self.launch)
        return self.job or build_job(located, asked_job)

    def validate(self) -> None:
        """Raise for values that are impossible."""
        if self.attention not in (None, *ATTENTION):
            raise ValueError(f"attention {self.attention!r}: expected one of {', '.join(ATTENTION)}")
        if self.loss not in (None, *LOSSES):
            raise ValueError(f"loss {self.loss!r}: expected one of {', '.join(LOSSES)}")
        if self.trainer not in (None, *TRAINERS):
            raise ValueError(f"trainer {self.trainer!r}: expected one of {', '.join(TRAINERS)}")
        if self.vllm is not None and not 0 <= self.vllm < 1:
            raise ValueError(f"vllm {self.vllm!r}: expected a fraction from 0 to below 1")
        if self.imbalance is not None and not 1 <= self.imbalance <= MOST_IMBALANCE:
            raise ValueError(f"imbalance {self.imbalance!r}: expected a number from 1 to {MOST_IMBALANCE}")
        if self.image_tokens is not None and (type(self.image_tokens) is not int or self.image_tokens < 0):
            raise ValueError(f"image_tokens {str(self.image_tokens)[:20]!r}: expected a whole number")
        for name in ("sequence_length", "micro_batch", "gpus_per_node", "sp"):
            value = getattr(self, name)
            if type(value) is int and value > LONGEST:
                raise ValueError(f"{name} {str(value)[:20]}: expected at most {LONGEST}")
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} {str(value)[:20]!r}: expected a whole number above 0")
