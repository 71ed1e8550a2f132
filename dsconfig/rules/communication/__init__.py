"""Collectives and what goes with them: how gradients are reduced and scaled, in which format."""

from __future__ import annotations

from dsconfig.rules.communication import refused, scaling, formats  # isort: skip

del refused, scaling, formats
