"""The optimizer that the config names, as the rules of offloading see it."""

from __future__ import annotations

from dsconfig.evaluation.context import Context


def type_of(ctx: Context) -> str:
    """The optimizer that the config names, in lower case; empty where it names none."""
    kind = ctx.value("optimizer.type")
    return kind.lower() if isinstance(kind, str) else ""


def asks_for_torch_adam(ctx: Context) -> bool:
    """Whether torch's own Adam is asked for."""
    params = ctx.written("optimizer.params")
    return isinstance(params, dict) and bool(params.get("torch_adam"))
