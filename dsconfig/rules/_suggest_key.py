"""Suggest the key or word for which another one is a typo, considering its value."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache

from dsconfig.core.did_you_mean import (
    MATCHERS,
    MAX_LETTERS,
    SimilarWord,
    WordIndex,
    best_match,
    index_words,
    letters_and_digits_of,
)
from dsconfig.core.json_types import Json, NamedTuple, Spec
from dsconfig.evaluation.coercion import coerce
from dsconfig.evaluation.key_walk import shapes_of
from dsconfig.model.key_table import KeyView, SectionView, keys_of_section_class


class SuggestedKey(NamedTuple):
    """The keys of a section for which an unknown key may be a typo."""

    suggestions: tuple[str, ...] = ()
    """Closest keys that accept the value's type; several if they are equally close."""
    sure: bool = False
    """Whether exactly one key fits, and it is only a few keystrokes away."""
    unfit: tuple[str, ...] = ()
    """Close keys that do not accept the value's type, such as a number for an object."""


def guess_intended_key(word: str, value: Json, section: SectionView) -> SuggestedKey:
    """Return the keys of a section for which `word` may be a typo, given its value."""
    candidates: list[SimilarWord] = []
    for way in range(len(MATCHERS)):
        candidates = [
            each for each in _close_keys(word[:MAX_LETTERS], section.name, way) if each.word in section.keys
        ]
        if candidates:
            break
    else:
        return SuggestedKey()
    fitting = _one_candidate_per_key(
        [each for each in candidates if accepts_kind_of_value(section.keys[each.word], value)], section
    )
    if not fitting:
        return SuggestedKey(
            unfit=tuple(each.word for each in _one_candidate_per_key(candidates, section))[:_MAX_SUGGESTIONS]
        )
    costs = [each.cost + _conversion_cost(section.keys[each.word], value, section) for each in fitting]
    suggestions = tuple(each.word for each, cost in zip(fitting, costs, strict=True) if cost == min(costs))
    return SuggestedKey(
        suggestions[:_MAX_SUGGESTIONS], len(fitting) == 1 and _is_typing_error(word, fitting[0])
    )


_MAX_SUGGESTIONS = 3
"""Maximum number of keys that a help message names."""


@lru_cache(maxsize=4096)
def _close_keys(word: str, section: str, way: int) -> tuple[SimilarWord, ...]:
    """Return the keys of any release that are similar to `word`, cached across releases."""
    return MATCHERS[way](word, _section_lexicon(section))


@cache
def _section_lexicon(section: str) -> WordIndex:
    words: dict[str, None] = {}
    for info in keys_of_section_class(section).values():
        if not info.flags & {"internal", "not_json"}:
            words[info.name] = None
            for alias, _ in info.aliases:
                words[alias] = None
    return index_words(words)


def _one_candidate_per_key(candidates: Iterable[SimilarWord], section: SectionView) -> list[SimilarWord]:
    """Return each key once, with the most similar of its names."""
    first: dict[str, SimilarWord] = {}
    for each in candidates:
        first.setdefault(section.keys[each.word].info.name, each)
    return list(first.values())


def _is_typing_error(word: str, candidate: SimilarWord) -> bool:
    """Return whether two words differ by a few keystrokes only, and have the same digits."""
    letters = letters_and_digits_of(candidate.word)
    max_cost = 3 if len(letters) >= 12 else 2
    digits = [letter for letter in letters if letter.isdigit()]
    return (
        candidate.cost <= max_cost
        and len(letters) > 4
        and digits == [each for each in letters_and_digits_of(word) if each.isdigit()]
    )


def accepts_kind_of_value(key: KeyView, value: Json) -> bool:
    """Return whether a key accepts this kind of value: object, list or scalar."""
    if value is None:
        return True
    kinds = set(_accepted_kinds(key.type))
    if "any" in kinds or shapes_of(value) & key.takes:
        return True
    if isinstance(value, dict):
        return not kinds.isdisjoint(("section", "map"))
    if isinstance(value, list):
        return "list" in kinds
    return not kinds <= {"section", "map", "list", "null"}


def _accepted_kinds(spec: Spec) -> list[str]:
    return [kind for arm in spec[1:] for kind in _accepted_kinds(arm)] if spec[0] == "union" else [spec[0]]


def _conversion_cost(key: KeyView, value: Json, section: SectionView) -> int:
    """Return 0 if a key accepts a value unchanged, else 1."""
    return int(value != "auto" and coerce(key.type, value, section.dialect) is not None)


@lru_cache(maxsize=64)
def _lexicon(words: frozenset[str]) -> WordIndex:
    return index_words(sorted(words))


def closest_word(word: str, words: Iterable[str]) -> str | None:
    """Return the word in `words` for which `word` is most likely a typo, or None."""
    return best_match(word, _lexicon(frozenset(words)))


def is_same_spelling(word: str, other: str) -> bool:
    """Return whether two words differ only in case, underscores and hyphens."""
    return letters_and_digits_of(word) == letters_and_digits_of(other)
