"""Suggest known words for an unknown one, with one similarity measure for keys, rules, settings and commands.

Words are compared without case, underscores and hyphens. Two words are similar if a few edits (a
letter added, dropped, replaced, or two swapped) turn one into the other, if their parts are in a different order,
or if parts are left out, added or abbreviated. Words with the same number of parts are compared part by part:
`max_group_size` is not similar to `sub_group_size`, nor `min_loss_scale` to `max_loss_scale`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise

from dsconfig.core.json_types import NamedTuple


class SimilarWord(NamedTuple):
    """A known word and its distance to the unknown one."""

    word: str
    cost: int
    """Distance: 0 for the same letters, 1 for the same parts in another order, else the number of edits plus 1."""


PARTS_DIFFER = 5
"""The cost of a match in which parts are abbreviated, left out or added."""


class _WordPart(NamedTuple):
    text: str
    letters: int
    """A bit mask of the letters and digits that occur in the part."""


class _IndexedWord(NamedTuple):
    word: str
    plain: str
    letters: int
    parts: tuple[_WordPart, ...]
    ordered: tuple[_WordPart, ...]
    """The parts in alphabetical order, so that words whose parts are swapped match."""


class WordIndex(NamedTuple):
    """Known words, indexed for fast comparison."""

    by_letters: dict[str, list[str]]
    """Known words, grouped by their letters and digits without separators."""
    by_length: dict[int, list[str]]
    """Known words, grouped by their number of letters and digits."""


def index_words(words: Iterable[str]) -> WordIndex:
    """Index words for comparison; keep the index as long as the words do not change."""
    index = WordIndex({}, {})
    for word in words:
        letters = letters_and_digits_of(word)
        index.by_letters.setdefault(letters, []).append(word)
        index.by_length.setdefault(len(letters), []).append(word)
    return index


@lru_cache(maxsize=8)
def cached_word_index(words: tuple[str, ...]) -> WordIndex:
    """Index words for comparison, caching the index for calls with the same words."""
    return index_words(words)


def similar_words(word: str, words: WordIndex) -> list[SimilarWord]:
    """Return the known words similar to `word`, closest first, with ties in the order of the known words."""
    return next((similar for matcher in MATCHERS if (similar := list(matcher(word, words)))), [])


def words_with_same_letters(word: str, words: WordIndex) -> tuple[SimilarWord, ...]:
    """Return the known words that equal `word` apart from case and separators."""
    entry = _index_word(word[:MAX_LETTERS])
    return tuple(
        [SimilarWord(each, 0) for each in words.by_letters.get(entry.plain, ())] if entry.letters else ()
    )


def words_within_few_edits(word: str, words: WordIndex) -> tuple[SimilarWord, ...]:
    """Return the known words within a few edits of `word`, closest first."""
    entry = _index_word(word[:MAX_LETTERS])
    return tuple(sorted(_similar_by_edits(entry, words), key=lambda each: each.cost)) if entry.letters else ()


def words_sharing_parts(word: str, words: WordIndex) -> tuple[SimilarWord, ...]:
    """Return the known words that share parts with the word."""
    entry = _index_word(word[:MAX_LETTERS])
    return tuple(_words_related_by_parts(entry, words)) if entry.letters else ()


MATCHERS = (words_with_same_letters, words_within_few_edits, words_sharing_parts)
"""Functions that find similar words, in order; the first one with a result is used."""


def best_match(word: str, words: WordIndex) -> str | None:
    """Return the word that was most likely meant, or None if there is none or the match is ambiguous."""
    similar = similar_words(word, words)
    if not similar or (similar[0].cost >= PARTS_DIFFER and len(similar) > 1):
        return None
    return similar[0].word


def letters_and_digits_of(word: str) -> str:
    """Return a word in lowercase without underscores, hyphens, spaces and dots."""
    return word.lower().replace("_", "").replace("-", "").replace(" ", "").replace(".", "")


MAX_LETTERS = 100
"""Number of leading characters of a word that are compared."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+")
_BITS = {letter: 1 << index for index, letter in enumerate("abcdefghijklmnopqrstuvwxyz0123456789")}


@lru_cache(maxsize=4096)
def _index_word(word: str) -> _IndexedWord:
    texts = [text.lower() for text in _PARTS.findall(word)]
    parts = tuple([_WordPart(text, _letter_mask(text)) for text in texts])
    letters = 0
    for part in parts:
        letters |= part.letters
    return _IndexedWord(word, letters_and_digits_of(word), letters, parts, tuple(sorted(parts)))


def _letter_mask(text: str) -> int:
    letters = 0
    for letter in text:
        letters |= _BITS.get(letter, 0)
    return letters


# -- slips -------------------------------------------------------------------------------------------------


def _max_edits(length: int) -> int:
    return 0 if length < 3 else 1 if length < 6 else 2 if length < 12 else 3


def _similar_by_edits(unknown: _IndexedWord, words: WordIndex) -> Iterator[SimilarWord]:
    length = len(unknown.plain)
    limit = _max_edits(length)
    pieces = _split_into_pieces(unknown.plain, limit)
    for candidate_length in range(length - limit, length + limit + 1):
        for entry in map(_index_word, words.by_length.get(candidate_length, ())):
            # Every letter that only one of the words has costs an edit: a cheap test before the expensive
            # one.
            if (unknown.letters & ~entry.letters).bit_count() > limit:
                continue
            if (entry.letters & ~unknown.letters).bit_count() > limit:
                continue
            if len(entry.parts) > 1 and len(entry.parts) == len(unknown.parts):
                edits = _edits_part_by_part(unknown.parts, entry.parts)
                if edits is not None and edits <= limit:
                    yield SimilarWord(entry.word, 1 + edits)
                    continue
                edits = _edits_part_by_part(unknown.ordered, entry.ordered)
                if edits is not None and edits < limit:
                    yield SimilarWord(entry.word, 1 + edits + (edits > 0))
            elif any(piece in entry.plain for piece in pieces):
                edits = edit_distance(unknown.plain, entry.plain, limit)
                if edits <= limit and _begin_alike(unknown.plain, entry.plain, edits):
                    yield SimilarWord(entry.word, 1 + edits)


def _split_into_pieces(text: str, edits: int) -> list[str]:
    """Split a text into `edits` + 2 pieces, at least one of which survives that many edits unchanged."""
    count = edits + 2
    cuts = [len(text) * index // count for index in range(count + 1)]
    return [text[start:end] for start, end in pairwise(cuts) if start < end]


def _edits_part_by_part(parts: tuple[_WordPart, ...], counterparts: tuple[_WordPart, ...]) -> int | None:
    """Return the total number of edits over all parts, or None if two parts are different words."""
    edits = 0
    for (part, letters), (counterpart, counterpart_letters) in zip(parts, counterparts, strict=True):
        if part == counterpart:
            continue
        # In a part of two letters a dropped or swapped letter is an edit; a replaced letter makes another
        # word.
        limit = _max_edits(max(len(part), len(counterpart)))
        limit = limit or int(len(part) != len(counterpart) or part == counterpart[::-1])
        if (letters & ~counterpart_letters).bit_count() > limit or (
            counterpart_letters & ~letters
        ).bit_count() > limit:
            return None
        part_edits = edit_distance(part, counterpart, limit)
        if part_edits > limit or not _begin_alike(part, counterpart, part_edits):
            return None
        edits += part_edits
    return edits


def _begin_alike(word: str, other: str, edits: int) -> bool:
    """Return whether two words start alike or differ little for their length; `gpu` is not similar to `cpu`."""
    if edits < _max_edits(len(word)) or (edits == 1 and len(word) > 3):
        return True
    return word[0] == other[0] or word[:2] == other[1::-1]


def edit_distance(word: str, other: str, limit: int) -> int:
    """Return the number of edits between two words, up to `limit` + 1 (optimal string alignment).

    If there are more than `limit` edits, the result is `limit` + 1.
    """
    word, other = _strip_common_ends(word, other)
    beyond = limit + 1
    if abs(len(word) - len(other)) > limit:
        return beyond
    row_before: list[int] = []
    row = list(range(len(other) + 1))
    # Only the diagonal band as wide as the limit can matter: cells outside of it stay `beyond`.
    for i, letter in enumerate(word, 1):
        previous, row = row, [i, *[beyond] * len(other)]
        for j in range(max(1, i - limit), min(len(other), i + limit) + 1):
            cost = (
                previous[j - 1]
                if letter == other[j - 1]
                else 1 + min(previous[j - 1], previous[j], row[j - 1])
            )
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == other[j - 1]:
                cost = min(cost, row_before[j - 2] + 1)
            row[j] = cost
        if min(row) > limit:
            return beyond
        row_before = previous
    return min(row[-1], beyond)


def _strip_common_ends(word: str, other: str) -> tuple[str, str]:
    """Return two words without their common prefix and suffix."""
    start, shortest = 0, min(len(word), len(other))
    while start < shortest and word[start] == other[start]:
        start += 1
    end = 0
    while end < shortest - start and word[-1 - end] == other[-1 - end]:
        end += 1
    return word[start : len(word) - end], other[start : len(other) - end]


# -- parts -------------------------------------------------------------------------------------------------


def _words_related_by_parts(unknown: _IndexedWord, words: WordIndex) -> Iterator[SimilarWord]:
    for length in sorted(words.by_length):
        for entry in map(_index_word, words.by_length[length]):
            if unknown.letters & ~entry.letters and entry.letters & ~unknown.letters & ~_PLURAL:
                continue  # neither word contains all letters of the other
            if len(unknown.parts) == len(entry.parts):
                related = _is_abbreviation(unknown, entry)
            else:
                fewer = len(unknown.parts) < len(entry.parts)
                related = (
                    _contains_parts(unknown, entry, 0.5) if fewer else _contains_parts(entry, unknown, 0.6)
                )
            if related:
                yield SimilarWord(entry.word, PARTS_DIFFER)


_PLURAL = _BITS["s"]


def _is_abbreviation(first: _IndexedWord, second: _IndexedWord) -> bool:
    """Return whether one word abbreviates the other, as `grad_clip` abbreviates `gradient_clipping`."""
    if len(first.parts) == 1:
        short, long = sorted((first.plain, second.plain), key=len)
        return len(short) >= 4 and long.startswith(short)
    if all(
        _is_abbreviation_of(part.text, full.text)
        for part, full in zip(first.parts, second.parts, strict=True)
    ):
        return True
    sorted_parts = zip(first.ordered, second.ordered, strict=True)
    return all(_is_abbreviation_of(part.text, full.text) for part, full in sorted_parts)


def _is_abbreviation_of(part: str, other: str) -> bool:
    short, long = sorted((part, other), key=len)
    if short == long:
        return True
    is_prefix = len(short) > 2 and long.startswith(short.removesuffix("s"))
    return is_prefix or (len(short) > 1 and long.endswith(short))


def _contains_parts(shorter: _IndexedWord, longer: _IndexedWord, share: float) -> bool:
    """Return whether one word's parts are consecutive parts of the other and most of it.

    If the shorter word has three parts or more, other parts may lie between them.
    """
    if len(shorter.plain) < share * len(longer.plain):
        return False
    if any(part.text in _DISTINGUISHING and part not in shorter.parts for part in longer.parts):
        return False
    if len(shorter.parts) == 1:
        return len(shorter.plain) > 5 and shorter.parts[0] == longer.parts[0]
    if len(shorter.parts) == 2:
        return shorter.parts in pairwise(longer.parts)
    rest = iter(longer.parts)
    return all(part in rest for part in shorter.parts)


_DISTINGUISHING = frozenset({"max", "min", "no", "not", "disable"})
"""Parts that turn a key into a different key: `max_loss_scale` is not a variant of `loss_scale`."""
