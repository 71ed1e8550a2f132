"""The known word that is meant by an unknown one, and the key that is: its value has a say too."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

from dsconfig.core.did_you_mean import MATCHERS, MAX_LETTERS, Lexicon, Near, best_match, letters_of, lexicon
from dsconfig.core.json_types import Json, NamedTuple, Spec
from dsconfig.evaluation.coercion import read
from dsconfig.evaluation.key_walk import shapes_of
from dsconfig.model.keyinfo import KeyView, SectionView, section_keys


class Guess(NamedTuple):
    """The keys of a section that may be meant by one that it does not know."""

    meant: tuple[str, ...] = ()
    """The nearest that the value fits; several where they are as near."""
    sure: bool = False
    """Whether one key alone is as near as a slip of the finger."""
    unfit: tuple[str, ...] = ()
    """Those that the value does not fit: an object is not meant for a number."""


def guess(word: str, value: Json, section: SectionView) -> Guess:
    """Which keys of the section may be meant by the word."""
    found: list[Near] = []
    for way in range(len(MATCHERS)):
        found = [each for each in _near(word[:MAX_LETTERS], section.name, way) if each.word in section.keys]
        if found:
            break
    else:
        return Guess()
    fit = _by_key([each for each in found if fits(section.keys[each.word], value)], section)
    if not fit:
        return Guess(unfit=tuple(each.word for each in _by_key(found, section))[:_MOST])
    costs = [each.cost + _strange(section.keys[each.word], value, section) for each in fit]
    meant = tuple(each.word for each, cost in zip(fit, costs, strict=True) if cost == min(costs))
    return Guess(meant[:_MOST], len(fit) == 1 and _slip(word, fit[0]))


_MOST = 3
"""Keys that a help names."""


@lru_cache(maxsize=4096)
def _near(word: str, section: str, way: int) -> tuple[Near, ...]:
    """The keys of any release that are near the word in one of the ways: found once for all releases."""
    return MATCHERS[way](word, _keys_of(section))


@cache
def _keys_of(section: str) -> Lexicon:
    words: dict[str, None] = {}
    for info in section_keys(section).values():
        if not info.flags & {"internal", "not_json"}:
            words[info.name] = None
            for alias, _ in info.aliases:
                words[alias] = None
    return lexicon(words)


def _by_key(found: Iterable[Near], section: SectionView) -> list[Near]:
    """Each key once, under the name that is nearest."""
    first: dict[str, Near] = {}
    for each in found:
        first.setdefault(section.keys[each.word].info.name, each)
    return list(first.values())


def _slip(word: str, meant: Near) -> bool:
    letters = letters_of(meant.word)
    most = 3 if len(letters) >= 12 else 2
    digits = [letter for letter in letters if letter.isdigit()]
    return (
        meant.cost <= most
        and len(letters) > 4
        and digits == [each for each in letters_of(word) if each.isdigit()]
    )


def fits(key: KeyView, value: Json) -> bool:
    """Whether the value is at least of the right shape: an object, a list, or neither of them."""
    if value is None:
        return True
    kinds = set(_kinds(key.type))
    if "any" in kinds or shapes_of(value) & key.takes:
        return True
    if isinstance(value, dict):
        return not kinds.isdisjoint(("section", "map"))
    if isinstance(value, list):
        return "list" in kinds
    return not kinds <= {"section", "map", "list", "null"}


def _kinds(spec: Spec) -> list[str]:
    return [kind for arm in spec[1:] for kind in _kinds(arm)] if spec[0] == "union" else [spec[0]]


def _strange(key: KeyView, value: Json, section: SectionView) -> int:
    """1 where the key does not take the value as it is."""
    return int(value != "auto" and read(key.type, value, section.dialect) is not None)


@lru_cache(maxsize=64)
def _lexicon(words: frozenset[str]) -> Lexicon:
    return lexicon(sorted(words))


def nearest_of(word: str, words: Iterable[str]) -> str | None:
    """The one word that is meant, if any is near."""
    return best_match(word, _lexicon(frozenset(words)))


def alike(word: str, other: str) -> bool:
    """Whether two words differ in case, underscores and hyphens alone."""
    return letters_of(word) == letters_of(other)
