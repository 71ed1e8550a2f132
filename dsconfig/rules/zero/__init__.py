"""ZeRO: what a stage can and cannot do, keys that exclude one another, sizes."""

from __future__ import annotations

from dsconfig.rules._zero import stage, stage_place, stage_words

from dsconfig.rules.zero import refused, stages, engine, sizes, plusplus  # isort: skip

__all__ = ["stage", "stage_place", "stage_words"]

del refused, stages, engine, sizes, plusplus
