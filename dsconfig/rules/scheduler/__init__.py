"""The scheduler section: its type, the params of that type, and what they make of the optimizer's."""

from __future__ import annotations

from dsconfig.rules.scheduler import kinds, arguments, steps, rates, cycle  # isort: skip

__all__: list[str] = []

del kinds, arguments, steps, rates, cycle
