"""Fixes that many rules offer."""

from __future__ import annotations

from dsconfig.core.diagnostic import Fix, Remove
from dsconfig.core.json_types import Json, KeyPath
from dsconfig.core.wording import quoted
from dsconfig.model.keyinfo import is_secret


def removal(path: KeyPath, *, safe: bool = False) -> Fix:
    """Take out one key."""
    return Fix(f"remove `{path[-1]}`", (Remove(path),), safe)


def loss(path: KeyPath, value: Json) -> Fix:
    """Take out one key that says something to somebody; the title names what is thrown away."""
    word, said = str(path[-1]), quoted(value)
    inside = said if isinstance(value, dict | list) else ""
    if is_secret(word, inside):
        return removal(path)
    return Fix(f"remove `{word}` with its value, {said}", (Remove(path),))
