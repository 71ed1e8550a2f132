"""Names for the type checker: what JSON holds, in a config or between an agent and its workers."""

from __future__ import annotations

from typing import Any, TypeAlias

Json: TypeAlias = Any
"""A value of a config or of a message; nothing is known of it until somebody looks."""
