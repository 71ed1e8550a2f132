"""The type of the optimizer as DeepSpeed spells it."""

from __future__ import annotations

from dsconfig.evaluation.context import Context
from dsconfig.rules._built_class import known_type, written_type


def own_type(ctx: Context) -> str | None:
    """The name of the type, as DeepSpeed spells it, where the release knows it."""
    word = written_type(ctx, "optimizer")
    kind = known_type(ctx, "Optimizer", word) if word is not None else None
    return kind.name if kind else None
