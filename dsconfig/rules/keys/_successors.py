"""Keys that live on under another name, and how what they say is said today."""

from __future__ import annotations

from typing import Any

from dsconfig.diagnostic import Fix, Operation, Path, Rename, Set
from dsconfig.evaluation.context import Context
from dsconfig.evaluation.walk import Event
from dsconfig.model.keyinfo import KeyInfo
from dsconfig.rules._fixes import removal
from dsconfig.words import quoted

_RENAMED = {
    ("Config", "bfloat16"): "bf16",
    ("Config", "seq_parallel_comm_data_type"): "seq_parallel_communication_data_type",
    ("ZeroOptimization", "stage3_gather_fp16_weights_on_model_save"): (
        "stage3_gather_16bit_weights_on_model_save"
    ),
    ("Aio", "thread_count"): "intra_op_parallelism",
    ("FlopsProfiler", "start_step"): "profile_step",
}
_OFFLOAD = {"device": "cpu"}
_SWITCHES: dict[tuple[str, str], tuple[str, Any]] = {
    ("Config", "fp32_allreduce"): ("communication_data_type", "fp32"),
    ("ZeroOptimization", "cpu_offload"): ("offload_optimizer", _OFFLOAD),
    ("ZeroOptimization", "cpu_offload_param"): ("offload_param", _OFFLOAD),
    ("ZeroOptimization", "cpu_offload_params"): ("offload_param", _OFFLOAD),
}
"""Switches, and what stands today for one that is on; one that is off says nothing."""
_OPPOSITES = {("ZeroOptimization", "find_unused_parameters"): "ignore_unused_parameters"}


def successor(ctx: Context, event: Event, *, safe: bool = False) -> Fix | None:
    """The fix that says the same under the key's new name; None where it has none, or it is written already.

    `safe` is the caller's knowledge of the release.
    """
    path, value = event.path, event.value
    key = (event.section.name, str(path[-1]))
    new = _RENAMED.get(key) or _OPPOSITES.get(key) or _SWITCHES.get(key, (None,))[0]
    if new is None or _written(ctx, (*path[:-1], new)):
        return None
    if key in _RENAMED:
        return Fix(f"rename to `{new}`", (Rename(path, new),), safe)
    if not isinstance(value, bool):
        return None
    there = (*path[:-1], new)
    if key in _OPPOSITES:
        return _in_place(path, there, not value, safe=safe)
    if not value:
        return removal(path, safe=safe)
    return _in_place(path, there, _SWITCHES[key][1], safe=safe)


def _written(ctx: Context, path: Path) -> bool:
    value: Any = ctx.data
    for part in path:
        if isinstance(value, dict) and part not in value:
            return False
        value = value[part]
    return True


def _in_place(path: Path, there: Path, value: Any, *, safe: bool) -> Fix:
    operations: tuple[Operation, ...] = (Rename(path, str(there[-1])), Set(there, value))
    return Fix(f"write `{there[-1]}`: {quoted(value)} instead", operations, safe)


def instead(info: KeyInfo) -> str:
    """What to do about a key that is gone, in words."""
    if info.replaced_by is None:
        return _ADVICE.get(info.name, "remove it")
    replaced = info.replaced_by
    return (
        f"use `{replaced}` instead"
        if " " not in replaced and "(" not in replaced
        else f"use {replaced} instead"
    )


_ADVICE = {
    "elasticity": "remove it, and write the batch sizes that `dsconfig resolve --world-size N` finds for it",
}
"""What to do about a section that nothing in DeepSpeed replaces."""


def is_off(value: object) -> bool:
    """A section that does nothing in the releases that have it, so that removing it loses nothing."""
    return value is None or value is False or (isinstance(value, dict) and value.get("enabled") is False)
