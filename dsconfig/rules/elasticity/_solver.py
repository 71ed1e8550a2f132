"""The world sizes at which an `elasticity` section works."""

from __future__ import annotations

import math

from dsconfig.core import batch_triplet as triplet
from dsconfig.core.batch_triplet import Impossible
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.rules.elasticity._block_errors import ranks_per_node
from elastic.deepspeed.semantics import Semantics

_TOO_LONG = 2_000_000
"""Trial divisions. No release finishes with more of them, so that there is no verdict to agree with."""
_TOO_MANY = 128
"""Micro batch sizes, for the same reason."""


def endless(block: JsonObject, semantics: Semantics) -> bool:
    """Whether the numbers are larger than any release could work with."""
    micro_batches = set(block["micro_batch_sizes"])
    if len(micro_batches) > _TOO_MANY:
        return True
    least = math.lcm(*micro_batches)
    batch = max(least, min(block["max_train_batch_size"], least * 720720))
    most = block.get("max_gpus", 10000)
    # Version 0.2 counts machines, and takes less than one of them for no limit at all.
    machines = ranks_per_node(block, semantics) is not None
    unlimited = machines and most < block.get("num_gpus_per_node", 1)
    return math.isqrt(int(batch)) > _TOO_LONG and (unlimited or most > _TOO_LONG)


class Solver(NamedTuple):
    """A sound section in the hands of one release."""

    block: JsonObject
    semantics: Semantics
    release: str

    def altered(self, **values: Json) -> Solver:
        """The solver of a section with other values."""
        return self._replace(block={**self.block, **values})

    def _answer(self, world: float) -> Json:
        """The release's answer for a world size, or the error it raises."""
        from elastic.deepspeed.solver import as_released
        from elastic.errors import ElasticityError

        config = {"elasticity": self.block}
        try:
            # A size divided by `sequence_parallel_size` is a float, to DeepSpeed as well.
            return as_released(config, self.release, world, semantics=self.semantics)  # type: ignore[arg-type]
        except (ElasticityError, ArithmeticError, AssertionError, TypeError, ValueError) as error:
            return error

    def works(self, world: float) -> bool:
        """Whether DeepSpeed finds batch sizes for the data-parallel size, and accepts its own answer."""
        if not world > 0:
            return False  # it then gets no micro batch, and unpacks two values into three
        answer = self._answer(world)
        if isinstance(answer, Exception) or not answer.micro_batch_size:
            return False
        train, micro = answer.batch_size, answer.micro_batch_size
        return not isinstance(triplet.derive(train, micro, train // (micro * world), world), Impossible)

    def leaves_nothing(self, world: float) -> bool:
        """Whether the batch made for this size alone is empty: not one micro batch a rank within the cap."""
        return getattr(self._answer(world), "batch_size", None) == 0

    def sizes(self) -> list[int]:
        """The world sizes of the release's list. Version 0.2 takes them for ranks and for GPUs in turn."""
        from elastic.deepspeed.config import ElasticityConfig
        from elastic.deepspeed.heuristic import compatible_v02
        from elastic.errors import NoWorldSizesError

        if ranks_per_node(self.block, self.semantics) is None:
            answer = self._answer(0)
            return [] if isinstance(answer, Exception) else list(answer.world_sizes or ())
        config = ElasticityConfig(self.block, semantics=self.semantics)
        try:
            sizes = set(compatible_v02(config, self.semantics)[1])
        except (NoWorldSizesError, ArithmeticError, AssertionError, TypeError, ValueError):
            return []
        return sorted(size for size in sizes if size // config.model_parallel_size in sizes)

    def candidates(self) -> list[int]:
        """World sizes of which one works if any does.

        Those of the list do by construction; a few are enough, tried because the arithmetic is in floats.
        Outside the list version 0.2 makes a batch for one world size alone, which works for whole machines.
        """
        found = self.sizes()[:32]
        if ranks_per_node(self.block, self.semantics) is None:
            return found
        node = self.block.get("num_gpus_per_node", 1)
        return [*found, *range(1, 9), *(int(node * n) for n in range(1, 9))]
