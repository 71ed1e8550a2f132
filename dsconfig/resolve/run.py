"""`Run`: what a config comes to at one world size, in one release, and what was done to it on the way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dsconfig.consumers.autofill.log import Filled, Message, Mismatch

if TYPE_CHECKING:
    from dsconfig.check.report import Report
    from dsconfig.core.json_types import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Run:
    """A config resolved. The triplet is what DeepSpeed derives; `config` is what the release runs with."""

    train_batch_size: Json
    train_micro_batch_size_per_gpu: Json
    gradient_accumulation_steps: Json
    config: JsonObject
    release: str
    consumer: str
    world_size: int
    """Ranks, one a GPU."""
    data_parallel_size: int | float
    """Ranks that get samples of their own; a fraction where `sequence_parallel_size` does not divide."""
    messages: tuple[Message, ...] = ()
    mismatches: tuple[Mismatch, ...] = ()
    filled: tuple[Filled, ...] = ()
    unknown: frozenset[str] = frozenset()
    """Keys that stay "auto" here alone: what the reader fills them with is not known."""
    elastic: bool = False
    """Whether the batch is the elastic solver's."""

    @property
    def triplet(self) -> tuple[Json, Json, Json]:
        """Batch, micro batch, accumulation steps."""
        return (self.train_batch_size, self.train_micro_batch_size_per_gpu, self.gradient_accumulation_steps)

    def check(self) -> Report:
        """What `dsconfig.check` says of the resolved config, at this world size."""
        from dsconfig import check

        divided = self.data_parallel_size == self.world_size or "sequence_parallel_size" in self.config
        size = self.world_size if divided else int(self.data_parallel_size)
        return check(self.config, target=self.release, world_size=size, consumer="deepspeed")
