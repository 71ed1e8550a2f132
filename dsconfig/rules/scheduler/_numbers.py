"""Numbers among params."""

from __future__ import annotations

from typing import Any


def as_number(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
