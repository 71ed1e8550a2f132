"""Ranks that share parameters at stage 3."""

from __future__ import annotations

from dsconfig.evaluation.context import Context
from dsconfig.rules._model_facts import is_known
from dsconfig.rules._stage import ZERO, stage
from dsconfig.rules.tensor_parallel._size import tensor_parallel

HPZ = f"{ZERO}.zero_hpz_partition_size"


def secondary_partition(ctx: Context) -> int:
    """The ranks of a secondary partition as written, where stage 3 makes them; else 1, which is off."""
    size = ctx.value(HPZ) if ctx.has(HPZ) else 1
    return size if isinstance(size, int) and stage(ctx) == 3 else 1


def ranks_of_known_model(ctx: Context) -> int | None:
    """The ranks that share the parameters at stage 3, where both model and ranks are known."""
    if not is_known(ctx) or stage(ctx) != 3:
        return None
    apart = tensor_parallel(ctx) > 1 or ctx.on("expert_parallel.enabled")
    return None if apart else ctx.world_size
