"""Fixes that many rules offer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.diagnostic import Fix, Remove

if TYPE_CHECKING:
    from dsconfig.json_types import KeyPath


def removal(path: KeyPath, *, safe: bool = False) -> Fix:
    """Take out one key."""
    return Fix(f"remove `{path[-1]}`", (Remove(path),), safe)
