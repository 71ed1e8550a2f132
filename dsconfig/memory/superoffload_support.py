"""Optimizers that DeepSpeed runs in a process of their own: what they need, and where they do not work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from dsconfig.memory.not_modelled import NotModelledError

if TYPE_CHECKING:
    from dsconfig.core.json_types import Json

ZERO = "zero_optimization."
SUPER = f"{ZERO}offload_optimizer.super_offload"
ADAMS = ("adam", "adamw", "adamw-fused", "cpu-adam")


def super_offload(values: Mapping[str, Json], optimizer: str) -> bool:
    """Whether SuperOffload updates: below stage 3 nothing asks for it.

    Raises:
        NotModelledError: DeepSpeed does not get as far as a step.
    """
    if not values.get(SUPER) or values.get(f"{ZERO}stage") != 3:
        return False
    if values.get(f"{ZERO}offload_optimizer.device") != "cpu":
        why = "it fills gradients in the host's memory, and there are none"
        raise NotModelledError(f"`{SUPER}` without `device` `cpu` is not modelled: {why}")
    if values.get(f"{ZERO}offload_param.device") == "nvme":
        raise NotModelledError(f"`{SUPER}` beside parameters on NVMe is not modelled: no engine was measured")
    if optimizer.lower() not in ADAMS:
        why = "its process updates with Adam, and DeepSpeed stops with a KeyError"
        raise NotModelledError(f"`{SUPER}` with `{optimizer}` is not modelled: {why}")
    return True
