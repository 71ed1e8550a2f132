"""What stage 3 reads from NVMe before it is gathered (`partitioned_param_coordinator.py`)."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from dsconfig.memory.graph import Weight
from dsconfig.memory.not_modelled import NotModelledError


def read_ahead(queue: Iterable[Weight], away: Collection[Weight], flying: int, free: int) -> set[Weight]:
    """Shards of what comes next, up to twice what is being gathered (`__prefetch_nvme_param_partitions`).

    `queue` are weights in the order in which modules want them, `away` those on the drive, `flying` the
    elements that are being gathered, and `free` the buffers that are left.

    Raises:
        NotModelledError: a weight comes twice, which DeepSpeed does not look for
            (`AsyncPartitionedParameterSwapper._allocate_and_return_buffers_for_swap_in`).
    """
    chosen, considered = set[Weight](), 0
    for weight in queue:
        if considered > 2 * flying or len(chosen) >= free:
            break
        if weight in chosen:
            raise NotModelledError(
                f"DeepSpeed stops in the second step: `{weight.name}` is read from NVMe twice, as forward and"
                " backward want it",
                "give a lower `zero_optimization.stage3_prefetch_bucket_size`",
            )
        if weight in away:
            chosen.add(weight)
        considered += weight.elements
    return chosen
