"""Keys that live on under another name, and how what they say is said today."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dsconfig.diagnostic import Fix, Operation, Rename, Set
from dsconfig.evaluation.context import Context
from dsconfig.evaluation.events import KnownKey, UnknownKey
from dsconfig.model.keyinfo import KeyInfo, section_keys
from dsconfig.rules._fixes import removal
from dsconfig.words import quoted

if TYPE_CHECKING:
    from dsconfig.json_types import KeyPath


def successor(ctx: Context, entry: KnownKey | UnknownKey, *, safe: bool = False) -> Fix | None:
    """The fix that says the same under the key's new name; None where it has none, or it is written already.

    `safe` is the caller's knowledge of the release.
    """
    path, value = entry.path, entry.value
    info = section_keys(entry.section.name).get(str(path[-1]))
    if info is None or info.rewrite is None or info.replaced_by is None:
        return None
    how, on = info.rewrite
    new = info.replaced_by.rpartition(".")[2]
    there = (*path[:-1], new)
    if _written(ctx, there):
        return None
    if how == "rename":
        return Fix(f"rename to `{new}`", (Rename(path, new),), safe)
    if not isinstance(value, bool):
        return None
    if how == "negate":
        return _in_place(path, there, not value, safe=safe)
    if not value:
        return removal(path, safe=safe)
    return _in_place(path, there, on, safe=safe)


def _written(ctx: Context, path: KeyPath) -> bool:
    value: Any = ctx.data
    for part in path:
        if isinstance(value, dict) and part not in value:
            return False
        value = value[part]
    return True


def _in_place(path: KeyPath, there: KeyPath, value: Any, *, safe: bool) -> Fix:
    operations: tuple[Operation, ...] = (Rename(path, str(there[-1])), Set(there, value))
    return Fix(f"write `{there[-1]}`: {quoted(value)} instead", operations, safe)


def instead(info: KeyInfo) -> str:
    """What to do about a key that is gone, in words."""
    if info.replaced_by is None:
        return info.advice or "remove it"
    replaced = info.replaced_by
    return (
        f"use `{replaced}` instead"
        if " " not in replaced and "(" not in replaced
        else f"use {replaced} instead"
    )


def is_off(value: object) -> bool:
    """A section that does nothing in the releases that have it, so that removing it loses nothing."""
    return value is None or value is False or (isinstance(value, dict) and value.get("enabled") is False)
