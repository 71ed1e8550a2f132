"""Known error messages about configs and launches, with causes and remedies, and a search for them in tracebacks."""

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
"""Name of the data file next to this module; the worker of the editors imports the package from a zip archive."""
LONGEST = 200_000
"""Maximum number of characters searched, from the end of a pasted text, where Python prints the exception."""
LEAST_SCORE = 0.66
"""Lowest score at which a similar message is shown, tuned on the texts of `tests/rules/test_error_messages.py`."""
_LEAST_WEIGHT = 12.0
"""Minimum information (in nats) of the shared words: about three or four rare words."""
_CLOSE = 0.08
"""Maximum difference from the best score at which another entry is shown too."""
_FEWEST_WORDS = 6
_GENERIC = frozenset(
    {
        "AttributeError",
        "FileNotFoundError",
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
"""Exceptions whose messages come from Python and differ only in a name, so they must match exactly."""
_PYTHON_TEXT = re.compile(
    r"has no attribute '|^cannot import name|^No module named|got an unexpected keyword argument"
    r"|No such file or directory|cannot open shared object file"
)
"""Wording of Python and the loader that is the same for every name, whatever the exception of the entry is."""
_DISTINCTIVE_NUMBER = re.compile(r"(?:[(\[]|(?<!\w)-)\d")
"""Number that distinguishes a message from others, such as size 0 of a sharded weight or an exit code."""
_LONG_PART = 40
"""Minimum length of a text between two placeholders that identifies a message on its own."""
_PART_SCORE = 0.95
_SHORT_TEXT = 24
"""Minimum number of fixed characters of a message that begins with a value and may match anywhere.

A shorter one, such as `8 is not divisible by 3`, matches only from its start.
"""
_GAP = 300
"""Maximum length of the value that a placeholder stands for."""


class ErrorMessage(NamedTuple):
    """An error message of DeepSpeed or of a program used with it, with its cause and remedies.

    `text` is the message in the newest source, with `{}` for each value; `variants` are its texts in other
    releases, and messages with the same cause and remedies.
    `error` is the name of the exception, or `warning`. `symptom` marks messages that result from another error, which
    the user has to look for.
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
        """`text` and its variants."""
        return (self.text, *self.variants)


class ErrorMessageMatch(NamedTuple):
    """A known message found in a text, exactly (score 1) or in similar words (below 1)."""

    entry: ErrorMessage
    score: float
    line: str
    """Part of the text that matched."""


@cache
def known_error_messages() -> tuple[ErrorMessage, ...]:
    """Load all known error messages."""
    rows = json.loads(get_data(__package__, FILE) or b"[]")
    lists = ("remedies", "rules", "variants")
    return tuple(ErrorMessage(**row | {name: tuple(row.get(name, ())) for name in lists}) for row in rows)


def find_error_messages(text: str) -> list[ErrorMessageMatch]:
    """Return the known messages in a pasted line or traceback, most likely first.

    An exact match precedes similar words, and a cause precedes a symptom. Several similar messages are returned only if
    their scores are close.
    """
    lines = list(_message_lines(text[-LONGEST:]))
    joined = " ".join(lines)
    exact = [*_exact_matches(joined)]
    if exact:
        causes = [each for each in exact if not each[1].entry.symptom] or exact
        return [match for _, match in sorted(causes, key=lambda each: -each[0])]
    similar = [*_partial_matches(joined)] or sorted(_similar_matches(lines), key=lambda each: -each.score)
    return [each for each in similar if each.score >= similar[0].score - _CLOSE][:3]


def _exact_matches(text: str) -> Iterator[tuple[int, ErrorMessageMatch]]:
    """Yield the known messages in a text, each with its number of literal characters."""
    for each in known_error_messages():
        for variant in each.texts:
            if match := _compile_message(variant).search(text):
                yield len(variant.replace("{}", "")), ErrorMessageMatch(each, 1.0, match[0])
                break


def _partial_matches(text: str) -> Iterator[ErrorMessageMatch]:
    """Yield the known messages that share a long literal part with a text."""
    lower = text.lower()
    for each in known_error_messages():
        texts = [
            part.strip().lower()
            for variant in each.texts
            if not _is_generic(each, variant)
            for part in variant.split("{}")
        ]
        part = next((part for part in texts if len(part) >= _LONG_PART and part in lower), None)
        if part is not None:
            yield ErrorMessageMatch(each, _PART_SCORE, part)


# Launchers prefix each line with the rank, loggers with time and level, Ray with the worker.
_PREFIX = re.compile(
    r"^(?:\s*(?:\[?(?:rank|default)?\s*\d+\]?:|\[(?!Errno)(?:[^\]]{0,80}\d[^\]]{0,80}|[A-Z]+)\]:?"
    r"|\([^)]{0,80}pid=[^)]{0,80}\)|[\w.-]+:\s(?=\[\d{4}-)"
    r"|\d{4}-\d\d-\d\d[ T][\d:.,]+|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\b:?|[EWI]\d{4} [\d:.]+))+\s*"
)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_QUOTES = str.maketrans({"\u2019": "'", "\u2018": "'"})
"""Straight quotes for the curly ones that chat programs and web pages put into a message."""
_QUOTE = re.compile("['\"`]")
"""Quotes of a message, which releases and web pages substitute for one another."""
_FRAME = re.compile(r'^\s*File "[^"]*", line \d+')


def _message_lines(text: str) -> Iterator[str]:
    """Yield the lines of a pasted text without colors, log prefixes and traceback frames."""
    for line in _ESCAPE.sub("", text).translate(_QUOTES).splitlines():
        # rich draws a frame around tracebacks.
        bare = " ".join(_PREFIX.sub("", line).strip("\u2502 ").split())
        if bare and not _FRAME.match(line):
            yield bare


@cache
def _compile_message(text: str) -> re.Pattern[str]:
    """Compile a message to a regular expression in which placeholders match any text."""
    parts = [r"\s+".join(map(re.escape, part.split())) for part in text.split("{}")]
    ends = [(part[:1].isspace(), part[-1:].isspace()) for part in text.split("{}")]
    pieces: list[str] = []
    for number, (part, (before, after)) in enumerate(zip(parts, ends, strict=True)):
        if number:
            pieces.append(rf".{{0,{_GAP}}}?")
        pieces.append((r"\s*" if before and part else "") + part + (r"\s*" if after and part else ""))
    pattern = "".join(pieces).removeprefix(rf".{{0,{_GAP}}}?").removesuffix(rf".{{0,{_GAP}}}?")
    if text.startswith("{}") and len(text.replace("{}", "")) < _SHORT_TEXT:
        pattern = r"(?:^|: |\})\S*" + pattern
    return re.compile(_QUOTE.sub("['\"`]", pattern), re.IGNORECASE | re.DOTALL)


_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*|\d\w*")
_NUMBER = re.compile(r"\d")


def _message_words(text: str) -> list[str]:
    """Return the words of a message, without numbers."""
    return [word for word in _WORD.findall(text.lower()) if not _NUMBER.match(word) and len(word) > 1]


def _is_generic(entry: ErrorMessage, text: str) -> bool:
    """Return whether other messages differ from this one only in a name, so that only an exact match counts."""
    return entry.error in _GENERIC or _PYTHON_TEXT.search(text) is not None


class _WordStatistics:
    """Word frequencies in all messages; in comparisons, rare words count more."""

    @cached_property
    def words(self) -> list[tuple[ErrorMessage, list[str]]]:
        """Known messages and their words, except messages with too few words."""
        texts = [
            (each, text)
            for each in known_error_messages()
            for text in each.texts
            if not _is_generic(each, text)
        ]
        words = [(each, _message_words(text)) for each, text in texts if not _DISTINCTIVE_NUMBER.search(text)]
        return [(each, text_words) for each, text_words in words if len(text_words) >= _FEWEST_WORDS]

    @cached_property
    def counts(self) -> dict[str, int]:
        """Number of messages that contain each word."""
        counts: dict[str, int] = {}
        for _, words in self.words:
            for word in set(words):
                counts[word] = counts.get(word, 0) + 1
        return counts

    def weight(self, words: list[str]) -> float:
        """Return the information content of words in nats."""
        total = len(self.words)
        return sum(log(total / self.counts.get(word, 1)) for word in words)


_INDEX = _WordStatistics()
_NAMED = re.compile(r"^[\w.]*(?:Error|Exception|Warning|Mismatch)\b.{0,40}?:")


def _similar_matches(lines: list[str]) -> Iterator[ErrorMessageMatch]:
    """Yield messages with similar words, for a text that is truncated, reworded or only partly copied."""
    candidates = [line for line in lines if _NAMED.match(line)] or lines
    best: dict[str, ErrorMessageMatch] = {}
    for line in dict.fromkeys([*candidates[-20:], *([" ".join(lines)] if len(lines) <= 5 else [])]):
        words = _message_words(line)[:120]
        weight = _INDEX.weight(words)
        for entry, entry_words in _INDEX.words:
            matcher = SequenceMatcher(None, entry_words, words, autojunk=False)
            common = _INDEX.weight([entry_words[at] for at in _matching_positions(matcher)])
            if common < _LEAST_WEIGHT:
                continue
            recall, precision = common / _INDEX.weight(entry_words), common / weight
            same = common / (common + _replaced_weight(matcher, entry_words, words))
            score = 0.99 * same * (max(recall, precision) + (recall * precision) ** 0.5) / 2
            if score >= LEAST_SCORE and (entry.id not in best or score > best[entry.id].score):
                best[entry.id] = ErrorMessageMatch(entry, score, line)
    yield from best.values()


def _matching_positions(matcher: SequenceMatcher[str]) -> Iterator[int]:
    """Yield the positions of words that occur in the same order in both sequences."""
    for start, _, count in matcher.get_matching_blocks():
        yield from range(start, start + count)


def _replaced_weight(matcher: SequenceMatcher[str], entry_words: list[str], words: list[str]) -> float:
    """Return the information, in nats, of the message's words that the text replaces by others.

    A truncated text lacks words, and a text with values has additional words. But a text with other words in the same
    positions is a different message of the same form, such as "sequence parallel group" for "expert parallel group".
    """
    total = 0.0
    blocks = matcher.get_matching_blocks()
    for at, (start, line_start, _) in enumerate(blocks):
        previous, line_previous, count = blocks[at - 1] if at else (0, 0, 0)
        left, line_left = entry_words[previous + count : start], words[line_previous + count : line_start]
        length = min(len(left), len(line_left))
        # At the ends only the words next to the common part are compared: a log has other text before and after.
        at_end = start == len(entry_words)
        pair = (
            (left[:length], line_left[:length])
            if at_end
            else (left[len(left) - length :], line_left[len(line_left) - length :])
        )
        total += min(_INDEX.weight(pair[0]), _INDEX.weight(pair[1]))
    return total
