"""ZenFlow: what it needs around it, and how its intervals fit together."""

from __future__ import annotations

from dsconfig.rules.zenflow import needs, intervals  # isort: skip

__all__: list[str] = []

del needs, intervals
