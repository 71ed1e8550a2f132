"""The optimizer Muon."""

from __future__ import annotations

from dsconfig.evaluation.context import Context
from dsconfig.rules._built_class import known_type, written_type


def is_muon(ctx: Context) -> bool:
    """Whether the optimizer is Muon, in a release that has it."""
    word = written_type(ctx, "optimizer")
    return word is not None and word.lower() == "muon" and known_type(ctx, "Optimizer", word) is not None
