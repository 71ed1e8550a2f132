"""Parts of parameters that stage 3 cannot quantise as it gathers them (`zero_quantized_weights`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

EIGHT = 8
"""What `CUDAQuantizer.quantize` (runtime/zero/partition_parameters.py) wants a multiple of."""


class Uneven(NamedTuple):
    """A module whose parts of a rank are together no multiple of eight elements."""

    module: str
    elements: int


def uneven(parameters: Iterable[tuple[str, int]], ranks: int) -> Uneven | None:
    """The first such module, of parameters by their module's name and elements.

    In its first pass stage 3 gathers the parameters of each module by themselves
    (`runtime/zero/partitioned_param_coordinator.py:PartitionedParameterCoordinator.fetch_sub_module`).
    """
    parts: dict[str, int] = {}
    for module, elements in parameters:
        parts[module] = parts.get(module, 0) + -(-elements // ranks)
    return next((Uneven(module, count) for module, count in parts.items() if count % EIGHT), None)
