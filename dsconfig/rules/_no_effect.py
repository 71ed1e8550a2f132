"""Keys that differ from their default, and findings on keys without effect."""

from __future__ import annotations

from collections.abc import Iterable

from dsconfig.core.diagnostic import EffectName, Fix, Remove
from dsconfig.core.wording import one_of
from dsconfig.evaluation.context import Context, Finding, SkipRule
from dsconfig.rules._suggest_section import named


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
    places = [ctx.place(path) for path in (first, *others)]
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
