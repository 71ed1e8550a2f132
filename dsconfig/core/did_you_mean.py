"""Known word that is meant by an unknown one: one measure for keys, types, rules, settings and verbs.

Words are compared without case, underscores and hyphens. A word is near another one that it differs from by a
few slips (a letter too many, too few, wrong, or two exchanged), by the order of its parts, or by parts that
are left out, added or cut short. Where both have as many parts, each part must be near its counterpart:
`max_group_size` is not `sub_group_size`, nor `min_loss_scale` `max_loss_scale`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple


class Near(NamedTuple):
    """A known word, and how far it is from the one that was asked for."""

    word: str
    cost: int
    """0 for the same letters, 1 for the same parts in another order, then one more than the slips."""


PARTS_DIFFER = 5
"""The cost where parts are cut short, left out or added."""


class _Part(NamedTuple):
    text: str
    letters: int
    """A bit for each letter and digit that occurs."""


class _Entry(NamedTuple):
    word: str
    plain: str
    letters: int
    parts: tuple[_Part, ...]
    ordered: tuple[_Part, ...]
    """In alphabetical order, so that exchanged parts meet."""


class Lexicon(NamedTuple):
    """Known words, made ready to be compared with."""

    same: dict[str, list[str]]
    """By their letters alone."""
    lengths: dict[int, list[str]]
    """By the number of their letters."""


def lexicon(words: Iterable[str]) -> Lexicon:
    """The words, ready to be compared with; keep it where the words stay the same."""
    known = Lexicon({}, {})
    for word in words:
        letters = plain(word)
        known.same.setdefault(letters, []).append(word)
        known.lengths.setdefault(len(letters), []).append(word)
    return known


@lru_cache(maxsize=8)
def ready(words: tuple[str, ...]) -> Lexicon:
    """The same, kept for those who ask again and again with the same words."""
    return lexicon(words)


def near(word: str, known: Lexicon) -> list[Near]:
    """The known words near this one, nearest first; the first of equals is the one that came first."""
    return next((found for way in WAYS if (found := list(way(word, known)))), [])


def by_letters(word: str, known: Lexicon) -> tuple[Near, ...]:
    """The known words with the same letters."""
    asked = _entry(word[:LONGEST])
    return tuple([Near(each, 0) for each in known.same.get(asked.plain, ())] if asked.letters else ())


def by_slips(word: str, known: Lexicon) -> tuple[Near, ...]:
    """The known words that a few slips lead to, nearest first."""
    asked = _entry(word[:LONGEST])
    return tuple(sorted(_slips(asked, known), key=lambda each: each.cost)) if asked.letters else ()


def by_parts(word: str, known: Lexicon) -> tuple[Near, ...]:
    """The known words that share parts with the word."""
    asked = _entry(word[:LONGEST])
    return tuple(_related(asked, known)) if asked.letters else ()


WAYS = (by_letters, by_slips, by_parts)
"""The first that leads anywhere counts."""


def nearest(word: str, known: Lexicon) -> str | None:
    """The known word that is meant; None where none is near, or two are as near by their parts alone."""
    found = near(word, known)
    if not found or (found[0].cost >= PARTS_DIFFER and len(found) > 1):
        return None
    return found[0].word


def plain(word: str) -> str:
    """The word's letters and digits in lower case."""
    return word.lower().replace("_", "").replace("-", "").replace(" ", "").replace(".", "")


LONGEST = 100
"""Letters of a word that are looked at."""
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+")
_BITS = {letter: 1 << index for index, letter in enumerate("abcdefghijklmnopqrstuvwxyz0123456789")}


@lru_cache(maxsize=4096)
def _entry(word: str) -> _Entry:
    texts = [text.lower() for text in _PARTS.findall(word)]
    parts = tuple([_Part(text, _letters(text)) for text in texts])
    letters = 0
    for part in parts:
        letters |= part.letters
    return _Entry(word, plain(word), letters, parts, tuple(sorted(parts)))


def _letters(text: str) -> int:
    letters = 0
    for letter in text:
        letters |= _BITS.get(letter, 0)
    return letters


# -- slips -------------------------------------------------------------------------------------------------


def _slips_allowed(length: int) -> int:
    return 0 if length < 3 else 1 if length < 6 else 2 if length < 12 else 3


def _slips(asked: _Entry, known: Lexicon) -> Iterator[Near]:
    length = len(asked.plain)
    most = _slips_allowed(length)
    pieces = _pieces(asked.plain, most)
    for other in range(length - most, length + most + 1):
        for entry in map(_entry, known.lengths.get(other, ())):
            # Each letter that only one of the two has takes a slip.
            if (asked.letters & ~entry.letters).bit_count() > most:
                continue
            if (entry.letters & ~asked.letters).bit_count() > most:
                continue
            if len(entry.parts) > 1 and len(entry.parts) == len(asked.parts):
                slips = _part_by_part(asked.parts, entry.parts)
                if slips is not None and slips <= most:
                    yield Near(entry.word, 1 + slips)
                    continue
                slips = _part_by_part(asked.ordered, entry.ordered)
                if slips is not None and slips < most:
                    yield Near(entry.word, 1 + slips + (slips > 0))
            elif any(piece in entry.plain for piece in pieces):
                slips = distance(asked.plain, entry.plain, most)
                if slips <= most and _begins_alike(asked.plain, entry.plain, slips):
                    yield Near(entry.word, 1 + slips)


def _pieces(text: str, slips: int) -> list[str]:
    """More pieces of the text than slips can spoil, save where an exchange spoils two."""
    count = slips + 2
    borders = [len(text) * index // count for index in range(count + 1)]
    return [text[start:end] for start, end in pairwise(borders) if start < end]


def _part_by_part(parts: tuple[_Part, ...], others: tuple[_Part, ...]) -> int | None:
    """The slips in all parts; None where a part is another word."""
    slips = 0
    for (part, letters), (other, other_letters) in zip(parts, others, strict=True):
        if part == other:
            continue
        # In two letters, one too few or an exchange is a slip, and another letter is another word.
        most = _slips_allowed(max(len(part), len(other)))
        most = most or int(len(part) != len(other) or part == other[::-1])
        if (letters & ~other_letters).bit_count() > most or (other_letters & ~letters).bit_count() > most:
            return None
        own = distance(part, other, most)
        if own > most or not _begins_alike(part, other, own):
            return None
        slips += own
    return slips


def _begins_alike(word: str, other: str, slips: int) -> bool:
    """Whether words that are short for so many slips begin with the same letters: `gpu` is not `cpu`."""
    if slips < _slips_allowed(len(word)) or (slips == 1 and len(word) > 3):
        return True
    return word[0] == other[0] or word[:2] == other[1::-1]


def distance(word: str, other: str, most: int) -> int:
    """The slips that lead from one word to the other (optimal string alignment).

    Any number above `most` where there are more.
    """
    word, other = _where_they_differ(word, other)
    beyond = most + 1
    if abs(len(word) - len(other)) > most:
        return beyond
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(word, 1):
        last, row = row, [i, *[beyond] * len(other)]
        for j in range(max(1, i - most), min(len(other), i + most) + 1):
            cost = last[j - 1] if letter == other[j - 1] else 1 + min(last[j - 1], last[j], row[j - 1])
            if i > 1 and j > 1 and letter == other[j - 2] and word[i - 2] == other[j - 1]:
                cost = min(cost, before[j - 2] + 1)
            row[j] = cost
        if min(row) > most:
            return beyond
        before = last
    return min(row[-1], beyond)


def _where_they_differ(word: str, other: str) -> tuple[str, str]:
    """The words without the letters that both begin and end with."""
    start, shortest = 0, min(len(word), len(other))
    while start < shortest and word[start] == other[start]:
        start += 1
    end = 0
    while end < shortest - start and word[-1 - end] == other[-1 - end]:
        end += 1
    return word[start : len(word) - end], other[start : len(other) - end]


# -- parts -------------------------------------------------------------------------------------------------


def _related(asked: _Entry, known: Lexicon) -> Iterator[Near]:
    for length in sorted(known.lengths):
        for entry in map(_entry, known.lengths[length]):
            if asked.letters & ~entry.letters and entry.letters & ~asked.letters & ~_PLURAL:
                continue  # neither has all letters of the other
            if len(asked.parts) == len(entry.parts):
                related = _cut_short(asked, entry)
            else:
                fewer = len(asked.parts) < len(entry.parts)
                related = _within(asked, entry, 0.5) if fewer else _within(entry, asked, 0.6)
            if related:
                yield Near(entry.word, PARTS_DIFFER)


_PLURAL = _BITS["s"]


def _cut_short(one: _Entry, other: _Entry) -> bool:
    """Whether one is an abbreviation of the other: `grad_clip` of `gradient_clipping`."""
    if len(one.parts) == 1:
        short, long = sorted((one.plain, other.plain), key=len)
        return len(short) >= 4 and long.startswith(short)
    if all(_abbreviates(part.text, whole.text) for part, whole in zip(one.parts, other.parts, strict=True)):
        return True
    exchanged = zip(one.ordered, other.ordered, strict=True)
    return all(_abbreviates(part.text, whole.text) for part, whole in exchanged)


def _abbreviates(part: str, other: str) -> bool:
    short, long = sorted((part, other), key=len)
    if short == long:
        return True
    begins = len(short) > 2 and long.startswith(short.removesuffix("s"))
    return begins or (len(short) > 1 and long.endswith(short))


def _within(few: _Entry, many: _Entry, share: float) -> bool:
    """Whether the parts of one stand together in the other, and make up such a share of it.

    From three parts on, others may stand between them.
    """
    if len(few.plain) < share * len(many.plain):
        return False
    if any(part.text in _ANOTHER and part not in few.parts for part in many.parts):
        return False
    if len(few.parts) == 1:
        return len(few.plain) > 5 and few.parts[0] == many.parts[0]
    if len(few.parts) == 2:
        return few.parts in pairwise(many.parts)
    rest = iter(many.parts)
    return all(part in rest for part in few.parts)


_ANOTHER = frozenset({"max", "min", "no", "not", "disable"})
"""Parts that make another key of one: `max_loss_scale` is not `loss_scale`."""
