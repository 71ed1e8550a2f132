"""Where Muon is not modelled; what DeepSpeed itself refuses with it, rules know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.not_modelled import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

SINCE, OLD, NEW = 18003, 19000, 19008
"""Releases from the first up to the second go about it alike, and those from the third on."""
ZERO = "zero_optimization."


def refuse_muon(values: Mapping[str, Json], release: int) -> None:
    """Refuse what is not modelled together with Muon.

    Raises:
        NotModelledError: something stands in the way.
    """
    if release < NEW:
        _refuse_before(values, release)
    if values.get("optimizer.params.per_head_muon"):
        raise _with("optimizer.params.per_head_muon", "the layers in which it finds heads were not measured")
    for switch in ("expert_parallel.enabled", f"{ZERO}offload_optimizer.super_offload"):
        if values.get(switch):
            raise _with(switch, "no engine was measured with both")
    together = f"{ZERO}use_multi_rank_bucket_allreduce"
    if values.get(together) is False and values.get(f"{ZERO}stage") in (1, 2):
        raise _with(together, "no engine was measured with both")
    for key in ("tensor_parallel.autotp_size", "sequence_parallel_size"):
        ranks = values.get(key)
        if isinstance(ranks, (int, float)) and ranks > 1:
            raise _with(key, "no engine was measured with both")
    for section in ("offload_optimizer", "offload_param"):
        if values.get(f"{ZERO}stage") == 3 and values.get(f"{ZERO}{section}.device") == "nvme":
            raise _with(f"{ZERO}{section}.device", "what goes to a drive and back was not measured with it")


def _refuse_before(values: Mapping[str, Json], release: int) -> None:
    """0.18.3 to 0.18.9 agree, but for stage 3, which came with the last of them."""
    if release < SINCE:
        why = "where a rank has no part of a group, DeepSpeed raises `list index out of range`"
        raise NotModelledError(f"the optimizer `Muon` is not modelled before 0.18.3: {why}")
    if release >= OLD:
        why = "each release has a way of its own"
        raise NotModelledError(f"the optimizer `Muon` is not modelled from 0.19.0 to 0.19.7: {why}")
    if values.get(f"{ZERO}stage") == 3:
        raise NotModelledError("the optimizer `Muon` is not modelled at stage 3 before 0.19.8")
    if values.get(f"{ZERO}offload_optimizer.device") == "cpu":
        raise _with(f"{ZERO}offload_optimizer", "before 0.19.8 it was not measured: Muon then is SGD")
    if values.get("data_types.grad_accum_dtype") not in (None, "auto"):
        raise _with("data_types.grad_accum_dtype", "before 0.19.7 stage 2 raises, and types differ at others")


def _with(key: str, why: str) -> NotModelledError:
    return NotModelledError(f"`{key}` with Muon is not modelled: {why}")
