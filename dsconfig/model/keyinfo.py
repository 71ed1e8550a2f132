"""What is known of each key, as `check` reads it: frozen, light, and seen from one release.

The table behind it (`_table`) is generated from the model; nothing here imports pydantic. A `SectionView` is
a section as one release sees it; it also says for which neighbouring releases it looks the same, so that a
range of releases costs one evaluation for each class that behaves alike.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, NamedTuple, TypeAlias

from dsconfig.json_types import Json, KeyPath, Spec
from dsconfig.model._table import MISWRITTEN, SECTIONS, TYPES, VARIANTS
from dsconfig.releases import NEVER, NUMBERS, Interval

Dialect: TypeAlias = Literal["hand", "pydantic1", "pydantic2"]
ROOT = "Config"
PYDANTIC_2 = 15000
"""DeepSpeed's models are pydantic 1 models up to 0.14.5 (runtime/config_utils.py, pydantic_v1.py), then
pydantic 2.
"""


class KeyInfo(NamedTuple):
    """One key of one section class."""

    name: str
    section: str
    type: Spec
    default: Json
    required: bool
    spans: tuple[Interval, ...]
    """The releases that look at the key; it may have gone and come back."""
    was: tuple[tuple[int, Spec], ...]
    defaults: tuple[tuple[int, Json], ...]
    aliases: tuple[tuple[str, Interval], ...]
    takes: tuple[tuple[frozenset[str], Interval], ...]
    refused_from: int
    deprecated: int
    replaced_by: str | None
    rewrite: tuple[str, Json] | None
    """`rename`, `negate` or `switch`, with what a switch that is on stands for."""
    advice: str | None
    hidden_by: str | None
    opened_by: str | None
    fills: tuple[str, ...]
    unit: str | None
    known: tuple[str, ...]
    flags: frozenset[str]
    """Which of the booleans of `dsconfig.model.key.Key` are set, by name."""
    only: tuple[tuple[tuple[str, ...], int], ...]
    wrong_type: Literal["rejected", "crashes", "altered", "ignored"] | None

    def read_in(self, release: int) -> bool:
        """Whether the release looks at the key."""
        return any(release in span for span in self.spans)

    def type_in(self, release: int) -> Spec:
        """The type that the release takes."""
        for last, earlier in self.was:
            if release <= last:
                return earlier
        return self.type

    def default_in(self, release: int) -> Json:
        """What the release uses when the key is absent."""
        for last, earlier in self.defaults:
            if release <= last:
                return earlier
        return self.default

    def takes_in(self, release: int) -> frozenset[str]:
        """Shapes other than an object that the release takes where this section belongs."""
        for shapes, releases in self.takes:
            if release in releases:
                return shapes
        return _NONE

    def taken_by(self, build: str, release: int) -> bool:
        """Whether the class of that kind takes this param of an optimizer."""
        return all(build in builds or release > last for builds, last in self.only)

    def borders(self) -> Iterator[int]:
        """First releases at which anything about the key changes."""
        for first, last in (*self.spans, *(span for _, span in (*self.aliases, *self.takes))):
            yield first
            yield last + 1
        for last, _ in (*self.was, *self.defaults):
            yield last + 1
        for _, last in self.only:
            yield last + 1
        yield self.refused_from
        yield self.deprecated


_NONE: frozenset[str] = frozenset()


class TypeInfo(NamedTuple):
    """A type of optimizer or scheduler that DeepSpeed itself knows, in these releases."""

    name: str
    params: str | None
    """The section class of its params; None: they are a foreign class's arguments."""
    releases: Interval
    gpu: str
    cpu: str
    """Names of the classes behind it, without offload and with."""


@cache
def types_of(section: str) -> dict[str, TypeInfo]:
    """The types that the section's `type` may name, by the word they are compared with; empty for others."""
    return {
        word: TypeInfo(name, params, Interval(first, last), *classes)
        for word, (name, params, first, last, *classes) in TYPES.get(section, {}).items()
    }


def type_named(section: str, word: object) -> TypeInfo | None:
    """The type of that name in any release; those of optimizers are compared in lower case."""
    if not isinstance(word, str):
        return None
    return types_of(section).get(word.lower() if section == "Optimizer" else word)


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


@cache
def section_keys(name: str) -> dict[str, KeyInfo]:
    """Every key of the section class over all releases, by name."""
    return {key: _info(name, key, entry) for key, entry in SECTIONS[name][1].items()}


def _info(section: str, name: str, entry: tuple[Any, ...]) -> KeyInfo:
    type_, default, spans, extra = entry
    get = extra.get
    return KeyInfo(
        name=name,
        section=section,
        type=type_,
        default=default,
        required=get("required", False),
        spans=tuple(Interval(*span) for span in spans),
        was=get("was", ()),
        defaults=get("defaults", ()),
        aliases=tuple((alias, Interval(*span)) for alias, *span in get("aliases", ())),
        takes=tuple((frozenset(shapes), Interval(*span)) for shapes, *span in get("takes", ())),
        refused_from=get("refused_from", NEVER),
        deprecated=get("deprecated", NEVER),
        replaced_by=get("replaced_by"),
        rewrite=get("rewrite"),
        advice=get("advice"),
        hidden_by=get("hidden_by"),
        opened_by=get("opened_by"),
        fills=get("fills", ()),
        unit=get("unit"),
        known=get("known", ()),
        flags=frozenset(get("flags", ())),
        only=get("only", ()),
        wrong_type=get("wrong_type"),
    )


@cache
def _borders(name: str) -> tuple[int, ...]:
    found = {0, PYDANTIC_2}
    for since, until, *_ in SECTIONS[name][0]:
        found.update((since, until + 1))
    for info in section_keys(name).values():
        found.update(info.borders())
    return tuple(sorted(border for border in found if border < NEVER))


def view(name: str, release: int) -> SectionView:
    """The section class as the release (a number, see `dsconfig.releases`) sees it."""
    borders = _borders(name)
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
        if info.read_in(low):
            seen = KeyView(info, info.type_in(low), info.default_in(low), info.takes_in(low))
            keys[info.name] = seen
            keys.update((alias, seen) for alias, known in info.aliases if low in known)
    return SectionView(name, releases, dialect, unknown, drops_auto, keys)


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


def along(path: KeyPath) -> Iterator[KeyInfo]:
    """The keys along a path, as far as the model knows them."""
    section: str | None = ROOT
    for word in path:
        info = section_keys(section).get(str(word)) if section else None
        if info is None:
            return
        yield info
        section = child_section(info.type)


@cache
def _miswritten() -> dict[tuple[str, str], tuple[str, KeyPath]]:
    """By section class, of which a config may name one twice, and word: section and path of what is meant."""
    found: dict[tuple[str, str], tuple[str, KeyPath]] = {}
    for path, meant in MISWRITTEN.items():
        above, _, word = path.rpartition(".")
        place = tuple(meant.split(".")) if meant else ()
        found[_section_at(above), word] = _section_at(meant.rpartition(".")[0]), place
    return found


def _section_at(path: str) -> str:
    last = ROOT
    for info in along(tuple(path.split("."))) if path else ():
        last = child_section(info.type) or last
    return last


def meant_in(section: str, word: str) -> tuple[str, KeyPath] | None:
    """Section and path of the key that is meant by a word which no release ever read in the section.

    The path is empty where no key is meant. None: nothing is known of the word.
    """
    return _miswritten().get((section, word))


@cache
def secrets() -> frozenset[str]:
    """Names of keys whose value is never shown."""
    return frozenset(
        name for section in SECTIONS for name, info in section_keys(section).items() if "secret" in info.flags
    )


def child_section(spec: Spec) -> str | None:
    """The section class that a type names directly (`X` or `X | None`), if any."""
    if spec[0] == "section":
        return str(spec[1])
    if spec[0] == "union":
        return next((str(arm[1]) for arm in spec[1:] if arm[0] == "section"), None)
    return None


def keys(release: str | None = None) -> Iterator[tuple[tuple[str, ...], KeyInfo]]:
    """Every key with its path, parents first; `*` stands for a free-form name or a list element.

    With a release: only what that release reads. A path occurs once for every section class that has it: the
    params of all optimizers share their paths.
    """
    yield from _walk(ROOT, (), NUMBERS[release] if release else None)


def _walk(name: str, path: tuple[str, ...], release: int | None) -> Iterator[tuple[tuple[str, ...], KeyInfo]]:
    for info in section_keys(name).values():
        if release is not None and not info.read_in(release):
            continue
        here = (*path, info.name)
        yield here, info
        spec = info.type if release is None else info.type_in(release)
        for inner, more in _inner(spec):
            for one in (inner, *VARIANTS.get(inner, ())):
                yield from _walk(one, (*here, *more), release)


def _inner(spec: Spec) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Section classes inside a type, each with the `*` steps that lead to it."""
    if spec[0] == "section":
        yield spec[1], ()
    elif spec[0] in ("list", "map"):
        for name, more in _inner(spec[1]):
            yield name, ("*", *more)
    elif spec[0] == "union":
        for arm in spec[1:]:
            yield from _inner(arm)
