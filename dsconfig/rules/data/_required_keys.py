"""A technique that is on and lacks a key."""

from __future__ import annotations

from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding


def needs(ctx: Context, section: str, what: str, key: str, meaning: str) -> Finding:
    """The finding that `what` is on without `key`."""
    switch = ctx.written(f"{section}.enabled")
    truth = (
        ""
        if isinstance(switch, bool)
        else f" (`{section}.enabled` is {quoted(switch)}, which counts as true)"
    )
    return ctx.at(
        section,
        f"{what} is on{truth}, but `{key}` is not given",
        help=f"add `{key}` ({meaning}), or set `enabled` to `false`",
        part="key",
        related=[(f"{what} is switched on here", f"{section}.enabled")],
    )
