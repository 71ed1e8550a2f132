"""Defaults that changed between two releases of the range that is checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from dsconfig.core.diagnostic import Fix, Set, dotted
from dsconfig.core.json_types import Json, JsonObject, NamedTuple
from dsconfig.core.releases import NEVER, NUMBERS, name
from dsconfig.core.wording import quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.rule import rule
from dsconfig.model.keyinfo import ROOT, KeyInfo, SectionView, child_section, section_keys
from dsconfig.rules._dtypes import bf16_optimizer
from dsconfig.rules._stage import ZERO, stage

if TYPE_CHECKING:
    from dsconfig.core.json_types import KeyPath


class _Change(NamedTuple):
    """A key with more than one default in a range: the first one, and each later one with its release."""

    info: KeyInfo
    first: Json
    later: tuple[tuple[int, Json], ...]


@cache
def _changes(section: str, first: int, last: int) -> tuple[_Change, ...]:
    """The keys of the section that the whole range reads, and whose default changes within it."""
    found = []
    for info in section_keys(section).values() if first < last else ():
        if (
            info.deprecated < NEVER
            or info.flags & _SILENT
            or not any(a <= first <= last <= b for a, b in info.spans)
        ):
            continue
        borders = [_next(until) for until, _ in info.defaults if first <= until < last]
        later = tuple((border, info.default_in(border)) for border in borders)
        if later:
            found.append(_Change(info, info.default_in(first), later))
    return tuple(found)


_SILENT = frozenset({"unread", "internal", "not_json"})


def _next(number: int) -> int:
    """The release after the one with this number."""
    return next((later for later in NUMBERS.values() if later > number), NEVER)


_MATTERS: dict[KeyPath, Callable[[Context], bool]] = {
    ("bf16", "immediate_grad_update"): bf16_optimizer,
    (ZERO, "offload_param", "pin_memory"): lambda ctx: stage(ctx) == 3,
}
"""Keys that only something besides their section looks at."""


@rule("DSC142", effect="wasteful", source="runtime/constants.py, runtime/zero/config.py and the like")
def default_changed_in_range(ctx: Context) -> Iterator[Finding]:
    """The target is a range of releases, and a key that is left out has two defaults in it.

    The same file trains differently on both sides: `gradient_clipping` is 0 before 0.19.3 and 1.0 from it on.
    Written out, the value stays. Nothing written is changed, and each release does what it documents, so this
    is not a warning: what is lost is that runs on both sides compare. Only sections that are written and
    switched on are looked at.

    Bad, release >=0.19.2:

        {"train_batch_size": 8}

    Good, release >=0.19.2:

        {"train_batch_size": 8, "gradient_clipping": 1.0}
    """
    first, last = ctx.target
    if first == last:
        return
    for path, data, seen in _opened(ctx, (), ctx.data, ctx.walk.view(ROOT)):
        for change in _changes(seen.name, first, last):
            word = (*path, change.info.name)
            if change.info.name in data or ctx.before(name(change.later[0][0])):
                continue
            if word not in _MATTERS or _MATTERS[word](ctx):
                yield _said(ctx, word, change)


def _opened(
    ctx: Context, path: KeyPath, data: JsonObject, seen: SectionView
) -> Iterator[tuple[KeyPath, JsonObject, SectionView]]:
    """The sections that are written, do something, and are not aliases, each with its data."""
    yield path, data, seen
    for word, value in data.items():
        key = seen.keys.get(word)
        inner = child_section(key.type) if key is not None and key.info.name == word else None
        if inner is not None and isinstance(value, dict) and _works(ctx, (*path, word), value, inner):
            yield from _opened(ctx, (*path, word), value, ctx.walk.view(inner))


def _works(ctx: Context, path: KeyPath, data: JsonObject, section: str) -> bool:
    """Whether the section is switched on: by `enabled`, by a stage above 0, by a device."""
    if path == (ZERO,):
        return stage(ctx) > 0
    if "enabled" in ctx.walk.view(section).keys:
        return data.get("enabled") not in (None, False, 0, "auto")  # with "auto" nobody knows yet
    return bool(data.get("device", "cpu") != "none")


def _said(ctx: Context, path: KeyPath, change: _Change) -> Finding:
    word = path[-1]
    before, after = quoted(change.first), quoted(change.later[-1][1])
    later = ", ".join(f"{quoted(value)} from {name(border)} on" for border, value in change.later)
    return ctx.at(
        path,
        f"`{dotted(path)}` is left out, and its default is {before}, but {later}",
        help=f"set `{word}`: {before} for what it was, {after} for what it is now",
        part="key",
        fix=Fix(f"add `{word}`: {after}", (Set(path, change.later[-1][1]),)),
    )
