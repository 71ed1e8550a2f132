"""Which parameters stage 3 leaves whole, and which of a rank's shards it updates together."""

from __future__ import annotations

from collections.abc import Sequence

from dsconfig.memory.engines.setup import Third
from dsconfig.memory.graph import Weight


def persistent(third: Third, weights: Sequence[Weight]) -> set[Weight]:
    """Small parameters that stay whole (`mark_persistent_parameters`)."""
    found: set[Weight] = set()
    total = 0
    for weight in weights:
        if weight.elements + total <= third.model_persistence and weight.elements <= third.persistence:
            found.add(weight)
            total += weight.elements
    return found


def sub_groups(third: Third, shards: list[int]) -> list[list[int]]:
    """`_create_fp16_sub_groups`: a group is closed once it has the size; elements of each shard."""
    if third.sub_group >= sum(shards):
        return [shards]
    found: list[list[int]] = []
    group: list[int] = []
    count = 0
    for shard in shards:
        group.append(shard)
        count += shard
        if count >= third.sub_group:
            found.append(group)
            group, count = [], 0
    return [*found, group] if group else found
