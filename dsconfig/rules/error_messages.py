"""Error messages that configs and launches cause: the cause and the remedy of each, found by a pasted traceback."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from functools import cache, cached_property
from math import log
from pkgutil import get_data
from typing import NamedTuple

FILE = "error_messages.json"
"""Beside this module; read as package data, since the editors' worker runs from an archive."""
LONGEST = 200_000
"""Characters of a pasted text that are searched; the end is kept, where Python prints the exception."""
LEAST_SCORE = 0.66
"""A similar message below this score is not shown. Held against the misses in `tests/rules/test_error_messages.py`."""
_LEAST_WEIGHT = 12.0
"""Information that the common words must carry: three or four words that few messages have."""
_CLOSE = 0.08
"""Entries whose scores are this near to each other are all shown."""
_FEWEST_WORDS = 6
_GENERIC = frozenset(
    {
        "AttributeError",
        "ImportError",
        "IndexError",
        "ModuleNotFoundError",
        "OSError",
        "SystemExit",
        "TypeError",
        "ZeroDivisionError",
        "error",
    }
)
"""Python words these itself, around one name that tells them apart: they have to match literally."""
_TELLING_NUMBER = re.compile(r"[(\[-]\d")
"""A number that tells a message from others, such as the size 0 of a sharded weight or an exit code."""
_LONG_PART = 40
"""Characters of a part between two values that few messages share."""
_PART_SCORE = 0.95
_GAP = 300
"""Characters that a placeholder may stand for."""


class ErrorMessage(NamedTuple):
    """A message of DeepSpeed or of a program around it, with what it means.

    `text` is the message as the newest source has it, `{}` for each value; `variants` are the words of other
    releases. `error` is the exception's name or `warning`.
    `symptom` marks messages that follow from another error, which the user has to look for.
    """

    id: str
    library: str
    error: str
    text: str
    source: str
    cause: str
    remedies: tuple[str, ...]
    rules: tuple[str, ...] = ()
    guide: str | None = None
    versions: str | None = None
    symptom: bool = False
    variants: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """The message in the words of every release."""
        return (self.text, *self.variants)


class Match(NamedTuple):
    """An entry that a text holds: literally (score 1), or in similar words (below 1)."""

    entry: ErrorMessage
    score: float
    line: str
    """The part of the text that matched."""


@cache
def entries() -> tuple[ErrorMessage, ...]:
    """Every known message."""
    rows = json.loads(get_data(__package__, FILE) or b"[]")
    lists = ("remedies", "rules", "variants")
    return tuple(ErrorMessage(**row | {name: tuple(row.get(name, ())) for name in lists}) for row in rows)


def find(text: str) -> list[Match]:
    """Find the messages that a pasted line or traceback holds, the likeliest first; empty where none is known.

    A message that stands there literally beats one in similar words, and a cause beats a symptom. Several
    similar ones are returned only where their scores are close.
    """
    lines = list(_lines(text[-LONGEST:]))
    joined = " ".join(lines)
    exact = [*_literal(joined)]
    if exact:
        causes = [each for each in exact if not each[1].entry.symptom] or exact
        return [match for _, match in sorted(causes, key=lambda each: -each[0])]
    similar = [*_with_part(joined)] or sorted(_similar(lines), key=lambda each: -each.score)
    return [each for each in similar if each.score >= similar[0].score - _CLOSE][:3]


def _literal(text: str) -> Iterator[tuple[int, Match]]:
    """Messages that the text holds, each with the number of characters that are no values."""
    for each in entries():
        for variant in each.texts:
            if found := _pattern(variant).search(text):
                yield len(variant.replace("{}", "")), Match(each, 1.0, found[0])
                break


def _with_part(text: str) -> Iterator[Match]:
    """Messages of which the text holds a long part between two values; the rest was cut off."""
    lower = text.lower()
    for each in entries():
        texts = [part.strip().lower() for variant in each.texts for part in variant.split("{}")]
        parts = [part for part in texts if len(part) >= _LONG_PART]
        if parts and any(part in lower for part in parts):
            yield Match(each, _PART_SCORE, next(part for part in parts if part in lower))


# A launcher writes the rank before each line, a logger the time and the level, Ray the worker.
_PREFIX = re.compile(
    r"^(?:\s*(?:\[?(?:rank|default)?\s*\d+\]?:|\[(?!Errno)(?:[^\]]{0,80}\d[^\]]{0,80}|[A-Z]+)\]:?"
    r"|\([^)]{0,80}pid=[^)]{0,80}\)|[\w.-]+:\s(?=\[\d{4}-)"
    r"|\d{4}-\d\d-\d\d[ T][\d:.,]+|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b:?|[EWI]\d{4} [\d:.]+))+\s*"
)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'"})
"""Chat programs and web pages replace the straight quotes of a message."""
_FRAME = re.compile(r'^\s*File "[^"]*", line \d+')


def _lines(text: str) -> Iterator[str]:
    """The lines without colors and prefixes of loggers; frames of the traceback are left out."""
    for line in _ESCAPE.sub("", text).translate(_QUOTES).splitlines():
        bare = " ".join(_PREFIX.sub("", line).strip("\u2502 ").split())  # the box around a traceback of rich
        if bare and not _FRAME.match(line):
            yield bare


@cache
def _pattern(text: str) -> re.Pattern[str]:
    """The message as a regular expression: anything for a value, any white space for a blank."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in text.split("{}")]
    ends = [(part[:1].isspace(), part[-1:].isspace()) for part in text.split("{}")]
    pieces: list[str] = []
    for number, (part, (before, after)) in enumerate(zip(parts, ends, strict=True)):
        if number:
            pieces.append(rf".{{0,{_GAP}}}?")
        pieces.append((r"\s*" if before and part else "") + part + (r"\s*" if after and part else ""))
    pattern = "".join(pieces).removeprefix(rf".{{0,{_GAP}}}?").removesuffix(rf".{{0,{_GAP}}}?")
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|\d\w*")
_NUMBER = re.compile(r"\d")


def _words(text: str) -> list[str]:
    """The words of a message that say something: no numbers, which are values."""
    return [word for word in _WORD.findall(text.lower()) if not _NUMBER.match(word) and len(word) > 1]


class _Index:
    """How rare each word is among the messages."""

    @cached_property
    def words(self) -> list[tuple[ErrorMessage, list[str]]]:
        """The messages that are long and special enough to be known by their words alone."""
        texts = [(each, text) for each in entries() for text in each.texts if each.error not in _GENERIC]
        words = [(each, _words(text)) for each, text in texts if not _TELLING_NUMBER.search(text)]
        return [(each, own) for each, own in words if len(own) >= _FEWEST_WORDS]

    @cached_property
    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for _, words in self.words:
            for word in set(words):
                counts[word] = counts.get(word, 0) + 1
        return counts

    def weight(self, words: list[str]) -> float:
        """The information of words; one of no message weighs as much as the rarest."""
        total = len(self.words)
        return sum(log(total / self.counts.get(word, 1)) for word in words)


_INDEX = _Index()
_NAMED = re.compile(r"^[\w.]*(?:Error|Exception|Warning|Mismatch)\b.{0,40}?:")


def _similar(lines: list[str]) -> Iterator[Match]:
    """Messages in similar words, for a text that was cut, reworded by a release or copied in part."""
    candidates = [line for line in lines if _NAMED.match(line)] or lines
    best: dict[str, Match] = {}
    for line in dict.fromkeys([*candidates[-20:], *([" ".join(lines)] if len(lines) <= 5 else [])]):
        words = _words(line)[:120]
        weight = _INDEX.weight(words)
        for entry, own in _INDEX.words:
            blocks = SequenceMatcher(None, own, words, autojunk=False).get_matching_blocks()
            common = _INDEX.weight(
                [own[at] for start, _, size in blocks for at in range(start, start + size)]
            )
            if common < _LEAST_WEIGHT:
                continue
            recall, precision = common / _INDEX.weight(own), common / weight
            score = 0.99 * (max(recall, precision) + (recall * precision) ** 0.5) / 2
            if score >= LEAST_SCORE and (entry.id not in best or score > best[entry.id].score):
                best[entry.id] = Match(entry, score, line)
    yield from best.values()
