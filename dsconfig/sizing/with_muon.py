"""Where Muon is not modelled; what DeepSpeed itself refuses with it, rules know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.sizing.refused import NotModelledError

if TYPE_CHECKING:
    from dsconfig.json_types import Json

SINCE = 19008
ZERO = "zero_optimization."


def refuse_muon(values: Mapping[str, Json], release: int) -> None:
    """Refuse what is not modelled together with Muon.

    Raises:
        NotModelledError: something stands in the way.
    """
    if release < SINCE:
        why = "every release before has a way of its own"
        raise NotModelledError(f"the optimizer `Muon` is not modelled before 0.19.8: {why}")
    if values.get("optimizer.params.per_head_muon"):
        raise _with("optimizer.params.per_head_muon", "the layers in which it finds heads were not measured")
    if values.get("expert_parallel.enabled"):
        raise _with("expert_parallel.enabled", "no engine was measured with both")
    for key in ("tensor_parallel.autotp_size", "sequence_parallel_size"):
        ranks = values.get(key)
        if isinstance(ranks, (int, float)) and ranks > 1:
            raise _with(key, "no engine was measured with both")
    for section in ("offload_optimizer", "offload_param"):
        if values.get(f"{ZERO}stage") == 3 and values.get(f"{ZERO}{section}.device") == "nvme":
            raise _with(f"{ZERO}{section}.device", "what goes to a drive and back was not measured with it")


def _with(key: str, why: str) -> NotModelledError:
    return NotModelledError(f"`{key}` with Muon is not modelled: {why}")
