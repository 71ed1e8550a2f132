"""Unknown keys: typos, misplaced keys, keys that no release reads, and the replacement of each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, TypeVar

from dsconfig.core.diagnostic import EffectName, Fix, dotted
from dsconfig.core.json_types import Json, KeyPath, NamedTuple
from dsconfig.core.releases import NEVER
from dsconfig.core.wording import expected, one_of, quoted
from dsconfig.evaluation.context import Context, Finding
from dsconfig.evaluation.key_walk import KnownKey, UnknownKey
from dsconfig.evaluation.rule import rule
from dsconfig.model.keyinfo import KeyInfo, SectionView, intended_key, section_keys, view
from dsconfig.rules._did_you_mean import fits, guess
from dsconfig.rules._fixes import loss, moved, removal, renamed, said_elsewhere
from dsconfig.rules._suggest_section import COMMON, NOT_TO_WRITE, OF_OTHERS, home_of, places_of, reads

# Keys that no release reads where they stand: unknown, misspelt, misplaced, never real.

_ROOT = "runtime/config.py:DeepSpeedConfig._initialize_params"


@rule("DSC101", effect="ignored", source=_ROOT)
def unknown_key(ctx: Context) -> Iterator[Finding]:
    """No release of DeepSpeed knows this key, here or elsewhere.

    At the top level and in the sections that DeepSpeed reads by hand, an unknown key is dropped without a
    word: what it was meant to do does not happen. Strict sections (`zero_optimization`, `fp16`, …) refuse the
    whole file. Remarks are fine outside strict sections when their name begins with `_` or `//`.

    Bad:

        {"train_batch_size": 8, "cuda_visible_devices": "0,1"}

    Good:

        {"train_batch_size": 8}

    Fixed:

        {"train_batch_size": 8}
    """
    for found, (unfit, places) in unknowns(ctx, Unexplained):
        value = found.entry.value
        elsewhere = [] if found.word in COMMON else [place for place in places if _arrives(ctx, found, place)]
        yield ctx.at(
            found.path,
            f"`{found.word}` is not a DeepSpeed key {found.where}: {found.fate}",
            help=_without_a_guess(found, unfit, elsewhere),
            effect=found.effect,
            part="key",
            # What may have been meant for a key is the reader's to decide, not to be thrown away.
            fix=None if unfit or places or _explained_at_an_end(ctx, found) else loss(found.path, value),
        )


def _arrives(ctx: Context, found: Unknown, place: str) -> bool:
    return moved(ctx, found.path, tuple(place.split(".")), found.entry.value) is not None


def _explained_at_an_end(ctx: Context, found: Unknown) -> bool:
    """Whether the first or the last release of the target has a key that may be meant."""
    others = set(ctx.target) - {ctx.release}
    return any(
        guess(found.word, found.entry.value, view(found.section.name, other)).meant for other in others
    )


def _without_a_guess(found: Unknown, unfit: tuple[str, ...], elsewhere: list[str]) -> str:
    known = list(found.section.keys)
    if unfit:
        takes = [f"`{word}` takes {expected(found.section.keys[word].type)}" for word in unfit]
        return f"remove it, or write what is meant: {one_of(takes, 'and')}"
    if 0 < len(elsewhere) <= _FEW:
        return f"remove it, or move it to {one_of(f'`{place}`' for place in elsewhere)}"
    if 0 < len(known) <= _ALL:
        return f"remove it; known here: {one_of((f'`{key}`' for key in known), 'and')}"
    return "remove it"


_FEW, _ALL = 3, 8
"""How many places of a key, and keys of a section, a help lists."""


@rule("DSC102", effect="ignored", source=_ROOT)
def misspelt_key(ctx: Context) -> Iterator[Finding]:
    """A key is spelt almost like one that exists.

    Bad:

        {"train_batch_size": 8, "gradient_clipp1ng": 1.0}

    Good:

        {"train_batch_size": 8, "gradient_clipping": 1.0}

    Fixed:

        {"train_batch_size": 8, "gradient_clipping": 1.0}
    """
    for found, reason in unknowns(ctx, Misspelt):
        advice, fix = _meant(ctx, found, reason)
        yield ctx.at(
            found.path,
            f"`{found.word}` is not a DeepSpeed key {found.where}: {found.fate}",
            help=advice,
            effect=found.effect,
            part="key",
            fix=fix,
        ).meaning(*((*found.path[:-1], word) for word in reason.meant))


def _meant(ctx: Context, found: Unknown, reason: Misspelt) -> tuple[str, Fix | None]:
    meant, sure = reason
    words = one_of(f"`{word}`" for word in meant)
    asked = f"did you mean {words}?"
    info = found.section.keys[meant[0]].info
    if any(ctx.has(dotted((*found.path[:-1], word))) for word in meant):
        return f"{asked} It is set already: remove one of the two", None
    if "unread" in info.flags:
        return (
            f"{instead(ctx, info, found.entry)}: {words}, which is spelt like it, has no effect either",
            None,
        )
    if info.deprecated <= ctx.release and info.rewrite and info.replaced_by:
        to = tuple(info.replaced_by.split("."))
        return f"{asked} It is deprecated: {instead(ctx, info, found.entry)}", said_today(
            ctx, info, found.entry, to
        )
    if len(meant) > 1:
        return asked, None
    return asked, renamed(ctx, found.path, meant[0], found.entry.value, safe=found.refused and sure)


@rule("DSC103", effect="ignored", source=_ROOT)
def misplaced_key(ctx: Context) -> Iterator[Finding]:
    """A key stands at a level where DeepSpeed does not look for it.

    `offload_optimizer` at the top level is the classic: no offload takes place, and nothing says so.

    Bad:

        {"train_batch_size": 8, "offload_optimizer": {"device": "cpu"}}

    Good:

        {"train_batch_size": 8, "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}
    """
    for found, (home,) in unknowns(ctx, Misplaced):
        advice, fix = _to_move(ctx, found, home)
        yield ctx.at(
            found.path,
            f"`{found.word}` does not belong {found.where}: {found.fate}",
            help=advice,
            effect=found.effect,
            part="key",
            fix=fix,
        ).meaning(ctx.place(home))


def _to_move(ctx: Context, found: Unknown, home: str) -> tuple[str, Fix | None]:
    key = ctx.key(home)
    if key is not None and key.info.deprecated <= ctx.release and key.info.replaced_by:
        to = tuple(key.info.replaced_by.split("."))
        return instead(ctx, key.info, found.entry), said_today(ctx, key.info, found.entry, to)
    return f"move it to `{home}`", moved(ctx, found.path, tuple(home.split(".")), found.entry.value)


@rule("DSC107", effect="ignored", source=_ROOT)
def dead_key(ctx: Context) -> Iterator[Finding]:
    """A key was never read by any release, though documentation, tutorials or examples show it.

    Bad:

        {"train_batch_size": 8, "comms_config": {"enabled": true}}

    Good:

        {"train_batch_size": 8, "comms_logger": {"enabled": true}}
    """
    for found, (to,) in unknowns(ctx, NeverRead):
        value = found.entry.value
        yield ctx.at(
            found.path,
            f"`{found.word}` was never a DeepSpeed key {found.where}, though examples show it: {found.fate}",
            help=f"use `{dotted(to)}` instead" if to else "remove it",
            effect=found.effect,
            part="key",
            fix=moved(ctx, found.path, to, value) if to else loss(found.path, value),
        ).meaning(to)


# A key that the release does not read in its section, and the likeliest reason.


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
    meant = intended_key(entry.section.name, word)
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
    from dsconfig.consumers.consumer import BY_NAME

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


# Keys that live on under another name, and how what they say is said today.


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
