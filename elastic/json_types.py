"""Type aliases for JSON values."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""Value of a config or a message."""
