"""The sections as one release sees them.

A view also says for which releases in a row it holds, so that a range of releases costs one evaluation for
each class of releases that behave alike.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cache
from typing import Literal, TypeAlias

from dsconfig.core.json_types import Json, KeyPath, NamedTuple, Spec
from dsconfig.core.releases import NEVER, PYDANTIC_2, Interval
from dsconfig.model._table import SECTIONS
from dsconfig.model.keyinfo import ROOT, KeyInfo, child_section, section_keys

Dialect: TypeAlias = Literal["hand", "pydantic1", "pydantic2"]

_TAKES_NOTHING: frozenset[str] = frozenset()


class KeyView(NamedTuple):
    """A key as one release sees it."""

    info: KeyInfo
    type: Spec
    default: Json
    takes: frozenset[str]


class SectionView(NamedTuple):
    """A section as the `releases` see it, all of them alike; `keys` holds aliases too."""

    name: str
    releases: Interval
    dialect: Dialect
    unknown: Literal["ignored", "kept", "rejected"]
    drops_auto: bool
    keys: dict[str, KeyView]


def view(name: str, release: int) -> SectionView:
    """The section class as the release (a number, see `dsconfig.core.releases`) sees it."""
    borders = SECTIONS[name][2]
    index = bisect_right(borders, release)
    return _view(name, Interval(borders[index - 1], borders[index] - 1 if index < len(borders) else NEVER))


@cache
def _view(name: str, releases: Interval) -> SectionView:
    low = releases.first
    by, drops_auto = "hand", False
    unknown: Literal["ignored", "kept", "rejected"] = "ignored"
    for since, until, *reading in SECTIONS[name][0]:
        if since <= low <= until:
            by, unknown, drops_auto = reading
    dialect: Dialect = "hand" if by == "hand" else "pydantic2" if low >= PYDANTIC_2 else "pydantic1"
    keys: dict[str, KeyView] = {}
    for info in section_keys(name).values():
        for first, last in info.spans:  # `info.read_in(low)` without a call for each key
            if first <= low <= last:
                break
        else:
            continue
        seen = KeyView(
            info,
            info.type_in(low) if info.was else info.type,
            info.default_in(low) if info.defaults else info.default,
            info.takes_in(low) if info.takes else _TAKES_NOTHING,
        )
        keys[info.name] = seen
        for alias, (first, last) in info.aliases:
            if first <= low <= last:
                keys[alias] = seen
    return SectionView(name, releases, dialect, unknown, drops_auto, keys)


def may_read(path: KeyPath, release: int) -> bool:
    """Whether the release reads what stands at a path, or leaves it to code that may."""
    seen = view(ROOT, release)
    for part in path:
        entry = seen.keys.get(str(part))
        if entry is None:
            return seen.unknown == "kept"
        inner = child_section(entry.type)
        if inner is None:
            return True
        seen = view(inner, release)
    return True


@cache
def find(path: str, release: int) -> tuple[KeyView | None, Interval]:
    """The key at a dotted path as the release sees it, and the releases that see the way to it alike.

    None in place of the key: the release does not read it.
    """
    *sections, last = path.split(".")
    seen = view(ROOT, release)
    alike = seen.releases
    for part in sections:
        entry = seen.keys.get(part)
        inner = child_section(entry.type) if entry else None
        if inner is None:
            return None, alike
        seen = view(inner, release)
        alike = alike.meet(seen.releases)
    return seen.keys.get(last), alike
