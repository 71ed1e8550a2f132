"""Keys that live on under another name, and how what they say is said today."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Fix
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context
from dsconfig.evaluation.walk_events import KnownKey, UnknownKey
from dsconfig.model.keyinfo import KeyInfo, section_keys
from dsconfig.rules._fixes import removal
from dsconfig.rules._move_fix import renamed, said_elsewhere

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


def successor(ctx: Context, entry: KnownKey | UnknownKey, *, safe: bool = False) -> Fix | None:
    """The fix that says the same under the key's new name; None where it has none, or it is written already.

    `safe` is the caller's knowledge of the release.
    """
    info = section_keys(entry.section.name).get(str(entry.path[-1]))
    if info is None or info.replaced_by is None:
        return None
    new = (*entry.path[:-1], info.replaced_by.rpartition(".")[2])
    return said_today(ctx, info, entry, new, safe=safe)


def said_today(
    ctx: Context, info: KeyInfo, entry: KnownKey | UnknownKey, to: KeyPath, *, safe: bool = False
) -> Fix | None:
    """The fix that says at `to` what the value says of a key with a new name."""
    if info.rewrite is None:
        return None
    how, on = info.rewrite
    path, value = entry.path, entry.value
    if how == "rename":
        return renamed(ctx, path, str(to[-1]), value, safe=safe) if path[:-1] == to[:-1] else None
    if not isinstance(value, bool):
        return None
    if how == "negate":
        return said_elsewhere(ctx, path, to, not value, safe=safe)
    return said_elsewhere(ctx, path, to, on, safe=safe) if value else removal(path, safe=safe)


def instead(ctx: Context, info: KeyInfo, entry: KnownKey | UnknownKey) -> str:
    """What to do about a key that is gone, in words; never a key that the release does not read either."""
    replaced = info.replaced_by
    if replaced is None or (is_path(replaced) and not lives(ctx, replaced)):
        return info.advice or "remove it"
    if not is_path(replaced):
        return f"remove it, and use {replaced} instead"
    if ctx.has(replaced):
        return f"remove it: `{replaced}` is set already"
    return (
        _said_anew(info, entry, replaced)
        or f"remove it, and say it anew in `{replaced}`, whose form is another"
    )


def _said_anew(info: KeyInfo, entry: KnownKey | UnknownKey, replaced: str) -> str | None:
    """How the value is said under the new name; None where the form is another."""
    how, on = info.rewrite or ("", None)
    if how == "rename":
        return f"use `{replaced}` instead"
    if how and isinstance(entry.value, bool):
        if how == "switch" and not entry.value:
            return "remove it"
        return f"write `{replaced}`: {quoted(on if how == 'switch' else not entry.value)} instead"
    return f"use `{replaced}` instead" if how else None


def is_path(text: str) -> bool:
    """Whether what replaces a key is a key, and no phrase."""
    return " " not in text and "(" not in text


def lives(ctx: Context, path: str) -> bool:
    """Whether the release reads the key; below free-form names, the section that holds them."""
    return ctx.key(path.partition(".*")[0]) is not None


def is_off(value: object) -> bool:
    """A section that does nothing in the releases that have it, so that removing it loses nothing."""
    return value is None or value is False or (isinstance(value, dict) and value.get("enabled") is False)
