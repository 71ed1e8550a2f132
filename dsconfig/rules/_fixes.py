"""Fixes that remove, rename or move a key, and the finding on keys without effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache

from dsconfig.core.diagnostic import EffectName, Fix, Move, Operation, Remove, Rename, Set, dotted
from dsconfig.core.json_types import Json, JsonObject, KeyPath
from dsconfig.core.wording import one_of, quoted
from dsconfig.evaluation.context import MISSING, Context, Finding, SkipRule
from dsconfig.evaluation.key_walk import Walk
from dsconfig.model.keyinfo import ROOT, child_section, find, is_secret, view
from dsconfig.rules._suggest_section import named

# Fixes that many rules offer.


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


# Fixes that give a key another name or place: offered only where the value is taken there as it is.
#
# The place is tried out: a config that holds nothing but this value is walked, in the release that is
# judged and at both ends of the target. A fix that would make a finding is none.

_DECIDES = ("type", "strict")
"""What stands beside a key and decides how it is read."""


def renamed(
    ctx: Context, path: KeyPath, name: str, value: Json, *, title: str = "", safe: bool = False
) -> Fix | None:
    """Give the key another name; None where the release does not take the value there."""
    if not arrives(ctx, path, (*path[:-1], name), value):
        return None
    return Fix(title or f"rename to `{name}`", (Rename(path, name),), safe)


def moved(ctx: Context, path: KeyPath, to: KeyPath, value: Json) -> Fix | None:
    """Put the key elsewhere; None where the release does not take the value there."""
    if path[:-1] == to[:-1]:
        return renamed(ctx, path, str(to[-1]), value)
    return Fix(f"move to `{dotted(to)}`", (Move(path, to),)) if arrives(ctx, path, to, value) else None


def said_elsewhere(
    ctx: Context, path: KeyPath, to: KeyPath, value: Json, *, safe: bool = False
) -> Fix | None:
    """Say `value` at another place, in the stead of what stands at the path; None as above."""
    if not arrives(ctx, path, to, value):
        return None
    beside = path[:-1] == to[:-1]
    operations: tuple[Operation, ...] = (Rename(path, str(to[-1])), Set(to, value))
    if not beside:
        operations = (Set(to, value), Remove(path))
    name = str(to[-1]) if beside else dotted(to)
    return Fix(f"write `{name}`: {quoted(value)} instead", operations, safe)


def arrives(ctx: Context, path: KeyPath, to: KeyPath, value: Json) -> bool:
    """Whether all releases in question take the value at `to`, with no more to say of it than where it is."""
    levels = _levels(ctx.data, to)
    if not all(level is MISSING or isinstance(level, dict | list) for level in levels) or (
        isinstance(levels[-1], dict) and to[-1] in levels[-1]
    ):
        return False  # something stands there, or in the way
    for release in {ctx.release, *ctx.target}:
        if _named_twice(ctx, release, path, to, levels[-1]) or not _complete(release, to, [*levels, value]):
            return False
        there = set(_notes(ctx, release, to, value))
        if there and ((_CLOSED, ()) in there or not there <= set(_notes(ctx, release, path, value))):
            return False
    return True


def _levels(data: JsonObject, to: KeyPath) -> list[Json]:
    """What each part of the path stands in; MISSING from where there is nothing."""
    levels: list[Json] = [data]
    for part in to[:-1]:
        here = levels[-1]
        if isinstance(here, list) and isinstance(part, int):
            levels.append(here[part])
        else:
            levels.append(here.get(part, MISSING) if isinstance(here, dict) else MISSING)
    return levels


def _named_twice(ctx: Context, release: int, path: KeyPath, to: KeyPath, beside: Json) -> bool:
    """Whether the key is written there under another name."""
    key, alike = find(dotted(to), release)
    if release == ctx.release:
        ctx.equivalent = ctx.equivalent.meet(alike)
    if key is None or not isinstance(beside, dict):
        return False
    names = {key.info.name, *(name for name, _ in key.info.aliases)} - {to[-1]}
    return any(name in beside and (*to[:-1], name) != path for name in names)


def _complete(release: int, to: KeyPath, levels: list[Json]) -> bool:
    """Whether neither a section on the way nor the value lacks what it cannot do without."""
    for depth in range(len(to)):
        key, _ = find(dotted(to[: depth + 1]), release)
        inner = child_section(key.type) if key is not None else None
        within = {} if levels[depth + 1] is MISSING else levels[depth + 1]
        if inner is not None and isinstance(within, dict):
            given = {*within, *to[depth + 1 : depth + 2]}
            if not _required(inner, release) <= given:
                return False
    return True


@cache
def _required(section: str, release: int) -> frozenset[str]:
    keys = view(section, release).keys
    typed = {"type"} & keys.keys() if section in ("Optimizer", "Scheduler") else set()
    return frozenset(typed | {word for word, key in keys.items() if key.info.required})


def _notes(ctx: Context, release: int, to: KeyPath, value: Json) -> Iterator[tuple[str, KeyPath]]:
    """What a walk notes of the value at `to`, and whatever keeps DeepSpeed from looking there."""
    walk = Walk(release, ctx.consumer, ctx.walk.unfilled)
    config, place = _alone(ctx.data, to, value)
    walk.section(ROOT, config, (), ())
    if release == ctx.release:
        ctx.equivalent = ctx.equivalent.meet(walk.equivalent)
    for kind in _KINDS:
        for entry in getattr(walk, kind):
            if kind == "unknown" and entry.section.unknown == "kept":
                continue
            if kind == "coerced" and not entry.changes_value:
                continue  # strict JSON reads `1e6` as a float, which an integer key takes without a finding
            if entry.path[: len(place)] == place and (kind, entry.path) != ("unknown", place):
                yield kind, entry.path[len(place) :]
            elif kind in ("unknown", "rejected") and entry.path == place[: len(entry.path)]:
                yield _CLOSED, ()


_CLOSED = "closed"
_KINDS = ("unknown", "rejected", "coerced", "unresolved_autos", "duplicate_aliases", "deprecated", "unused")


def _alone(data: JsonObject, to: KeyPath, value: Json) -> tuple[JsonObject, KeyPath]:
    """A config that holds the value at `to` and little else, and where it stands there."""
    made: Json = value
    for part, level in zip(reversed(to), reversed(_levels(data, to)), strict=True):
        if isinstance(part, int):
            made = [made]
        else:
            beside = level if isinstance(level, dict) else {}
            made = {**{word: beside[word] for word in _DECIDES if word in beside}, part: made}
    return made, tuple(0 if isinstance(part, int) else part for part in to)


# Keys that differ from their default, and findings on keys without effect.


def differs_from_default(ctx: Context, path: str) -> bool:
    """Whether the key is written with another value than the release would use anyhow."""
    if not ctx.has(path):
        return False
    try:
        return bool(ctx.value(path) != ctx.default(path))
    except SkipRule:  # filled by the consumer, or refused
        return False


def without_effect(
    ctx: Context,
    paths: Iterable[str],
    why: str,
    *,
    help: str,
    effect: EffectName = "ignored",
    related: Iterable[tuple[str, str]] = (),
) -> Finding:
    """One finding for all the keys that one cause takes the effect from."""
    first, *others = paths
    places = [ctx.written_path(path) for path in (first, *others)]
    names = one_of((f"`{place[-1]}`" for place in places), "and")
    # Those beside the first are named by their last words.
    whole = one_of(
        (named(p) if p[:-1] != places[0][:-1] or p is places[0] else f"`{p[-1]}`" for p in places), "and"
    )
    return ctx.at(
        first,
        f"{whole} {'have' if others else 'has'} no effect: {why}",
        help=help,
        effect=effect,
        part="key",
        related=[*related, *(("so has this", path) for path in others)],
        fix=Fix(f"remove {names}", tuple(Remove(place) for place in places)),
    )
