"""A key that the release does not read in its section, and the likeliest reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, TypeVar

from dsconfig.core.diagnostic import EffectName, dotted
from dsconfig.core.json_types import Json, KeyPath, NamedTuple
from dsconfig.core.releases import NEVER
from dsconfig.evaluation.context import Context
from dsconfig.evaluation.walk_events import UnknownKey
from dsconfig.model.keyinfo import KeyInfo, SectionView, meant_in, section_keys
from dsconfig.rules._did_you_mean import fits, guess
from dsconfig.rules._suggest_section import NOT_TO_WRITE, OF_OTHERS, home_of, places_of, reads


class Removed(NamedTuple):
    """Earlier releases read the key."""

    info: KeyInfo


class Future(NamedTuple):
    """Later releases read the key."""

    info: KeyInfo


class NeverRead(NamedTuple):
    """No release ever read the key, though examples show it; empty: nothing stands for it."""

    instead: KeyPath


class Misplaced(NamedTuple):
    """The key belongs elsewhere."""

    home: str


class Misspelt(NamedTuple):
    """The key is spelt almost like one that exists; several where they are as near."""

    meant: tuple[str, ...]
    sure: bool


class Unexplained(NamedTuple):
    """Nothing is like the key that could hold its value."""

    unfit: tuple[str, ...]
    """Keys of the section that are spelt like it, and hold no such value."""
    elsewhere: tuple[str, ...]
    """Places at which a key of this name stands."""


Reason: TypeAlias = "Removed | Future | NeverRead | Misplaced | Misspelt | Unexplained"
R = TypeVar("R", Removed, Future, NeverRead, Misplaced, Misspelt, Unexplained)


class Unknown(NamedTuple):
    """A key that the release does not read in this section, and the likeliest reason."""

    entry: UnknownKey
    reason: Reason

    @property
    def path(self) -> KeyPath:
        """Where it stands."""
        return self.entry.path

    @property
    def section(self) -> SectionView:
        """The section that does not know it."""
        return self.entry.section

    @property
    def word(self) -> str:
        """The key itself."""
        return str(self.path[-1])

    @property
    def refused(self) -> bool:
        """Whether the file is refused for it."""
        if isinstance(self.reason, Removed) and self.reason.info.refused_from < NEVER:
            return True
        return _is_refused(self.entry)

    @property
    def effect(self) -> EffectName:
        """What becomes of the file, or else of the key."""
        return "rejected" if self.refused else "ignored"

    @property
    def where(self) -> str:
        """Where it stands, for messages."""
        parent = dotted(self.path[:-1])
        return f"in `{parent}`" if parent else "at the top level"

    @property
    def fate(self) -> str:
        """What DeepSpeed does about it, for messages."""
        if self.refused:
            return "DeepSpeed refuses the file"
        if self.section.unknown == "rejected":
            return 'DeepSpeed drops it because its value is "auto"'
        return "DeepSpeed ignores it"


def unknowns(ctx: Context, kind: type[R]) -> Iterator[tuple[Unknown, R]]:
    """The unknown keys that have this kind of reason."""
    for found in ctx.once(_classified):
        if isinstance(found.reason, kind):
            yield found, found.reason


def _classified(ctx: Context) -> list[Unknown]:
    """Every unknown key that a rule speaks of."""
    found: list[Unknown] = []
    many: dict[tuple[str, bool], int] = {}
    for entry in ctx.walk.unknown:
        section = entry.section
        kind = section.name, section.unknown == "rejected" and _is_refused(entry)
        if many.get(kind, 0) >= ctx.most and entry.path[-1] not in section_keys(section.name):
            ctx.cut = True
            continue
        reason = _reason(ctx, entry)
        if reason is not None:
            many[kind] = many.get(kind, 0) + 1
            found.append(Unknown(entry, reason))
    return found


def _is_refused(entry: UnknownKey) -> bool:
    """Strict sections refuse what they do not know, unless its value is "auto", which they drop unseen."""
    return entry.section.unknown == "rejected" and not (entry.section.drops_auto and entry.value == "auto")


def _reason(ctx: Context, entry: UnknownKey) -> Reason | None:
    """None: the key stands there on purpose, and no rule speaks of it."""
    path, section = entry.path, entry.section
    word = str(path[-1])
    if ctx.consumer != "deepspeed" and len(path) == 1 and word in _own_keys(ctx.consumer):
        return None
    info = section_keys(section.name).get(word)
    if info is not None and ctx.release >= info.refused_from:
        return Removed(info)
    if section.unknown == "kept" or _is_remark(entry, word):
        return None
    if info is not None:
        return Removed(info) if all(last < ctx.release for _, last in info.spans) else Future(info)
    instead = _instead(ctx, entry)
    return NeverRead(instead) if instead is not None else _resemblance(ctx, entry)


def _instead(ctx: Context, entry: UnknownKey) -> KeyPath | None:
    """What stands for a key that no release read; empty where nothing does in the release that is judged."""
    path = entry.path
    word, above = str(path[-1]), path[:-1]
    if above and word == above[-1] and isinstance(entry.value, bool) and "enabled" in entry.section.keys:
        return (*above, "enabled")
    meant = meant_in(entry.section.name, word)
    if meant is None:
        return None
    section, place = meant
    # A section may stand under two names.
    to = (*above, place[-1]) if section == entry.section.name and place else place
    return to if place and reads(ctx, place) else ()


def _resemblance(ctx: Context, entry: UnknownKey) -> Reason:
    word, above = str(entry.path[-1]), entry.path[:-1]
    home = home_of(ctx, word, above) or (None if above else _in_one_word(ctx, word, entry.value))
    key = ctx.key(home) if home is not None else None
    if home is not None and (key is None or fits(key, entry.value)):
        return Misplaced(home)
    near = guess(word, entry.value, entry.section)
    if near.meant:
        return Misspelt(near.meant, near.sure)
    stem = word.removesuffix("_config")
    if stem != word and stem in entry.section.keys and fits(entry.section.keys[stem], entry.value):
        return Misspelt((stem,), sure=False)  # as `DeepSpeedConfig` calls its sections
    elsewhere = [place for place in places_of(ctx, word) if place != dotted(above)]
    if not above and word in OF_OTHERS:
        elsewhere = [place for place in elsewhere if ctx.has(place.partition(".")[0])]
    return Unexplained(near.unfit, tuple(elsewhere))


def _in_one_word(ctx: Context, word: str, value: Json) -> str | None:
    """The key of a section that a word of the top level names as `DeepSpeedConfig` does: `fp16_auto_cast`."""
    for cut, letter in enumerate(word):
        home = f"{word[:cut]}.{word[cut + 1 :]}"
        key = ctx.key(home) if letter == "_" and word[cut + 1 :] not in ("", "*") else None
        if key is not None and not key.info.flags & NOT_TO_WRITE and fits(key, value):
            return home
    return None


def _own_keys(consumer: str) -> tuple[str, ...]:
    from dsconfig.consumers.registry import BY_NAME

    return BY_NAME[consumer].own_keys


def _is_remark(entry: UnknownKey, word: str) -> bool:
    """Keys that people add on purpose where DeepSpeed does not look: `$schema`, `_comment`, `//`."""
    if entry.section.unknown == "rejected":
        return False
    return (
        word.startswith(("_", "//", "#"))
        or word.lower() in _REMARKS
        or (len(entry.path) == 1 and word in ("$schema", "$dsconfig"))
    )


_REMARKS = frozenset({"comment", "comments", "description", "note", "notes"})
