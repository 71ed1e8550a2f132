"""Build fixes that remove, rename or move a key, and the diagnostic for keys without effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from dsconfig.core.diagnostic import (
    EffectName,
    Fix,
    MoveKey,
    Operation,
    RemoveKey,
    RenameKey,
    SetValue,
    dotted_path,
)
from dsconfig.core.json_types import Json, JsonObject, KeyPath
from dsconfig.core.wording import join_alternatives, quote_value
from dsconfig.evaluation.key_walk import KeyWalk
from dsconfig.evaluation.rule_context import MISSING, Context, Finding, SkipRule
from dsconfig.model.key_table import child_section, find_key, may_be_secret, section_view_of_release

# Removals.


def remove_key(path: KeyPath, *, safe: bool = False) -> Fix:
    """Return a fix that removes the key at `path`."""
    return Fix(f"remove `{path[-1]}`", (RemoveKey(path),), safe)


def remove_key_showing_value(path: KeyPath, value: Json) -> Fix:
    """Return a fix that removes a key, with its value in the title unless it is a secret.

    Use it for keys whose value the user may want to keep.
    """
    key, shown = str(path[-1]), quote_value(value)
    if may_be_secret(key, shown if isinstance(value, dict | list) else ""):
        return remove_key(path)
    return Fix(f"remove `{key}` with its value, {shown}", (RemoveKey(path),))


# Renames and moves, offered only if DeepSpeed accepts the value unchanged at the new path.
#
# Each candidate is tried out: a config with only this value is walked, in the checked release and in the
# first and last release of the target. A fix that would cause another diagnostic is not offered.

_DISCRIMINATORS = ("type", "strict")
"""Sibling keys that decide how DeepSpeed reads a key."""


def rename_key(
    ctx: Context, path: KeyPath, name: str, value: Json, *, title: str = "", safe: bool = False
) -> Fix | None:
    """Return a fix that renames a key, or None if the release rejects the value under the new name."""
    if not is_accepted_at(ctx, path, (*path[:-1], name), value):
        return None
    return Fix(title or f"rename to `{name}`", (RenameKey(path, name),), safe)


def move_key(ctx: Context, path: KeyPath, to: KeyPath, value: Json, *, safe: bool = False) -> Fix | None:
    """Return a fix that moves a key, or None if the release rejects the value at the new path."""
    if path[:-1] == to[:-1]:
        return rename_key(ctx, path, str(to[-1]), value, safe=safe)
    return (
        Fix(f"move to `{dotted_path(to)}`", (MoveKey(path, to),), safe)
        if is_accepted_at(ctx, path, to, value)
        else None
    )


def move_key_with_value(
    ctx: Context, path: KeyPath, to: KeyPath, value: Json, *, safe: bool = False
) -> Fix | None:
    """Return a fix that removes a key and sets `value` at `to`, or None if the release rejects `value` there."""
    if not is_accepted_at(ctx, path, to, value):
        return None
    is_sibling = path[:-1] == to[:-1]
    operations: tuple[Operation, ...] = (RenameKey(path, str(to[-1])), SetValue(to, value))
    if not is_sibling:
        operations = (SetValue(to, value), RemoveKey(path))
    name = str(to[-1]) if is_sibling else dotted_path(to)
    return Fix(f"set `{name}` to {quote_value(value)} instead", operations, safe)


def is_accepted_at(ctx: Context, path: KeyPath, to: KeyPath, value: Json) -> bool:
    """Return whether every checked release accepts a value at `to` without a new diagnostic."""
    levels = _containers_on_path(ctx.data, to)
    if not all(level is MISSING or isinstance(level, dict | list) for level in levels) or (
        isinstance(levels[-1], dict) and to[-1] in levels[-1]
    ):
        return False  # the key exists already, or a parent is a scalar
    for release in {ctx.release, *ctx.target}:
        if _has_alias_in_parent(ctx, release, path, to, levels[-1]) or not _has_required_keys(
            ctx, release, to, [*levels, value]
        ):
            return False
        events = set(_walk_events(ctx, release, to, value))
        if events and ((_CLOSED, ()) in events or not events <= set(_walk_events(ctx, release, path, value))):
            return False
    return True


def _containers_on_path(data: JsonObject, to: KeyPath) -> list[Json]:
    """Return the container of each part of a path, or MISSING below the first absent one."""
    levels: list[Json] = [data]
    for part in to[:-1]:
        container = levels[-1]
        if isinstance(container, list) and isinstance(part, int):
            levels.append(container[part])
        else:
            levels.append(container.get(part, MISSING) if isinstance(container, dict) else MISSING)
    return levels


def _has_alias_in_parent(ctx: Context, release: int, path: KeyPath, to: KeyPath, parent: Json) -> bool:
    """Return whether the new parent of a key already has the key under another name."""
    key, alike = find_key(dotted_path(to), release, ctx.root_section)
    if release == ctx.release:
        ctx.equivalent = ctx.equivalent.intersect(alike)
    if key is None or not isinstance(parent, dict):
        return False
    names = {key.info.name, *(name for name, _ in key.info.aliases)} - {to[-1]}
    return any(name in parent and (*to[:-1], name) != path for name in names)


def _has_required_keys(ctx: Context, release: int, to: KeyPath, levels: list[Json]) -> bool:
    """Return whether every section on a path, and the value itself, has all of its required keys."""
    for depth in range(len(to)):
        key, _ = find_key(dotted_path(to[: depth + 1]), release, ctx.root_section)
        inner = child_section(key.type) if key is not None else None
        block = {} if levels[depth + 1] is MISSING else levels[depth + 1]
        if inner is None or not isinstance(block, dict):
            continue
        if not _required_keys(inner, release) <= {*block, *to[depth + 1 : depth + 2]}:
            return False
    return True


@cache
def _required_keys(section: str, release: int) -> frozenset[str]:
    keys = section_view_of_release(section, release).keys
    typed = {"type"} & keys.keys() if section in ("Optimizer", "Scheduler") else set()
    return frozenset(typed | {name for name, key in keys.items() if key.info.required})


def _walk_events(ctx: Context, release: int, to: KeyPath, value: Json) -> Iterator[tuple[str, KeyPath]]:
    """Yield the events that the key walk records for a value, or `_CLOSED` if DeepSpeed does not read a parent."""
    walk = KeyWalk(release, ctx.consumer, ctx.walk.unfilled)
    config, place = _minimal_config(ctx.data, to, value)
    walk.section(ctx.root_section, config, (), ())
    if release == ctx.release:
        ctx.equivalent = ctx.equivalent.intersect(walk.equivalent)
    for kind in _KINDS:
        for entry in getattr(walk, kind):
            if kind == "unknown" and entry.section.unknown == "kept":
                continue
            if kind == "coerced" and not entry.changes_value:
                continue  # strict JSON reads `1e6` as a float, which an integer key accepts without a diagnostic
            if entry.path[: len(place)] == place and (kind, entry.path) != ("unknown", place):
                yield kind, entry.path[len(place) :]
            elif kind in ("unknown", "rejected") and entry.path == place[: len(entry.path)]:
                yield _CLOSED, ()


_CLOSED = "closed"
_KINDS = ("unknown", "rejected", "coerced", "unresolved_autos", "duplicate_aliases", "deprecated", "unused")


def _minimal_config(data: JsonObject, to: KeyPath, value: Json) -> tuple[JsonObject, KeyPath]:
    """Return a minimal config with the value at `to`, and the path of the value in it."""
    config: Json = value
    for part, level in zip(reversed(to), reversed(_containers_on_path(data, to)), strict=True):
        if isinstance(part, int):
            config = [config]
        else:
            siblings = level if isinstance(level, dict) else {}
            config = {**{key: siblings[key] for key in _DISCRIMINATORS if key in siblings}, part: config}
    return config, tuple(0 if isinstance(part, int) else part for part in to)


# Keys without effect.


def differs_from_default(ctx: Context, path: str) -> bool:
    """Return whether the config sets a key to something other than the release's default."""
    if not ctx.has(path):
        return False
    try:
        return bool(ctx.value(path) != ctx.default(path))
    except SkipRule:  # resolved by the consumer, or rejected
        return False


def report_keys_without_effect(
    ctx: Context,
    paths: Iterable[str],
    why: str,
    *,
    help: str,
    effect: EffectName = "ignored",
    related: Iterable[tuple[str, str]] = (),
) -> Finding:
    """Report all keys that have no effect for the same reason in one diagnostic."""
    from dsconfig.rules._suggest_section import format_key  # most configs do not need it

    first, *others = paths
    places = [ctx.written_path(path) for path in (first, *others)]
    names = join_alternatives((f"`{place[-1]}`" for place in places), "and")
    # Siblings of the first key are named without their section.
    subject = join_alternatives(
        (format_key(p) if p[:-1] != places[0][:-1] or p is places[0] else f"`{p[-1]}`" for p in places), "and"
    )
    return ctx.at(
        first,
        f"{subject} {'have' if others else 'has'} no effect: {why}",
        help=help,
        effect=effect,
        part="key",
        related=[*related, *(("so has this", path) for path in others)],
        fix=Fix(f"remove {names}", tuple(RemoveKey(place) for place in places)),
    )
