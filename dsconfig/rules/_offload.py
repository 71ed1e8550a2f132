"""Where an offload section puts things, and where it says so."""

from __future__ import annotations

from dsconfig.evaluation.context import Context, SkipRule
from dsconfig.rules._stage import ZERO

OPTIMIZER, PARAM = f"{ZERO}.offload_optimizer", f"{ZERO}.offload_param"
_SWITCHES = {
    OPTIMIZER: (f"{ZERO}.cpu_offload",),
    PARAM: (f"{ZERO}.cpu_offload_param", f"{ZERO}.cpu_offload_params"),
}
"""The first forms of the offload sections; DeepSpeed turns them into the device "cpu"."""


def device(ctx: Context, section: str) -> str:
    """Where an offload section (`OPTIMIZER`, `PARAM`) or its first form puts things; "none" without one.

    Raises:
        SkipRule: the device is refused, or the consumer fills it.
    """
    if isinstance(ctx.value(section), dict):
        found = ctx.value(f"{section}.device")
        if not isinstance(found, str):
            raise SkipRule
        return found
    return "cpu" if any(ctx.value(switch) is True for switch in _SWITCHES[section]) else "none"


def device_place(ctx: Context, section: str) -> str:
    """Where the device is said."""
    if isinstance(ctx.value(section), dict):
        return f"{section}.device"
    return next((switch for switch in _SWITCHES[section] if ctx.has(switch)), section)


def asked_for(ctx: Context, section: str) -> list[str]:
    """The keys that ask for it, the section and its first forms: without them nothing is offloaded."""
    return [path for path in (section, *_SWITCHES[section]) if ctx.has(path)]


def offload_place(ctx: Context) -> list[tuple[str, str]]:
    """Where offloading is asked for, as a related place."""
    return [("the optimizer is offloaded here", device_place(ctx, OPTIMIZER))]


def offloaded(ctx: Context) -> bool:
    """Whether the engine takes the optimizers that DeepSpeed has for the CPU.

    Source: runtime/engine.py, `zero_use_cpu_optimizer`; before 0.7.2 `zero_cpu_offload`, to which the device
    "none" was offloading too.
    """
    if not ctx.has("zero_optimization"):
        return False
    if device(ctx, OPTIMIZER) != "none":
        return True
    return isinstance(ctx.value(OPTIMIZER), dict) and ctx.before("0.7.2")
