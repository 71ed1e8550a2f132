"""Fixes that many rules offer."""

from __future__ import annotations

from dsconfig.diagnostic import Fix, Path, Remove


def removal(path: Path, *, safe: bool = False) -> Fix:
    """Take out one key."""
    return Fix(f"remove `{path[-1]}`", (Remove(path),), safe)
