"""`Answer`: what a release returns for a block, before anyone asks whether it can be used."""

from __future__ import annotations

from dataclasses import dataclass

from elastic.deepspeed.config import ElasticityConfig


@dataclass(frozen=True, slots=True)
class Answer:
    """What a release returns for a block; `world_sizes` count data-parallel ranks."""

    config: ElasticityConfig
    batch_size: int
    """Samples an optimizer step."""
    world_sizes: list[int] | None
    micro_batch_size: int | None = None
    has_micro_batch: bool = False
    """Whether the release returns the micro batch too, even as `None`."""
    ranks: int | None = None
    """The data-parallel size that the micro batch is for."""
    fallback: bool = False
    """Whether the batch is v0.2's for a size outside its list."""

    def as_tuple(self) -> tuple[int, list[int] | None] | tuple[int, list[int] | None, int | None]:
        """The shape DeepSpeed returns: two values, or three with the micro batch."""
        if self.has_micro_batch:
            return self.batch_size, self.world_sizes, self.micro_batch_size
        return self.batch_size, self.world_sizes
